//! The virtual object of a session.

use std::sync::Arc;
use std::time::Duration;

use loopwright_core::{Environment, SystemEnvironment};
use restate_sdk::endpoint::ServiceOptions;
use restate_sdk::prelude::*;
use restate_sdk::service::{IntoServiceDefinition, ServiceDefinition};
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::key::{key_of, session_of};
use crate::driver::{Drive, Driver};
use crate::error::ClusterError;

/// The name of the virtual object, and of its handlers.
pub(super) const OBJECT: &str = "LoopwrightSession";
pub(super) const DRIVE: &str = "drive";
pub(super) const WAKE: &str = "wake";
/// Time after which Restate asks another worker. The drive there waits for the end of the run.
const INACTIVITY_TIMEOUT: Duration = Duration::from_secs(24 * 3600);
/// Time for which the ids of delayed calls are known.
const ID_RETENTION: Duration = Duration::from_secs(3600);
/// The pauses before Restate repeats a failed drive.
const FIRST_RETRY: Duration = Duration::from_millis(50);
const MAX_RETRY: Duration = Duration::from_secs(2);
/// More than can ever be made.
const MAX_ATTEMPTS: u64 = 1 << 40;
/// The pauses before retrying a session that another worker has open: they double.
const IN_USE_PAUSE: Duration = Duration::from_millis(100);
const MAX_IN_USE_PAUSE: Duration = Duration::from_secs(2);
/// The pause before a session without an agent is retried.
const NO_AGENT_PAUSE: Duration = Duration::from_secs(60);
/// The pause before a worker that is shutting down passes a session on.
const DRAINING_PAUSE: Duration = Duration::from_millis(200);
/// Delay of timers, so that their sessions are due by the store's clock, too.
const CLOCK_MARGIN: Duration = Duration::from_millis(500);

struct LoopwrightSession {
    driver: Arc<dyn Driver>,
}

/// Returns the object whose sessions this driver hosts.
pub(super) fn definition(driver: Arc<dyn Driver>) -> ServiceDefinition {
    let options = ServiceOptions::new()
        .inactivity_timeout(INACTIVITY_TIMEOUT)
        .journal_retention(Duration::ZERO)
        .idempotency_retention(ID_RETENTION)
        .retry_policy_initial_interval(FIRST_RETRY)
        .retry_policy_max_interval(MAX_RETRY)
        .retry_policy_max_attempts(MAX_ATTEMPTS);
    LoopwrightSession { driver }.into_service_definition().options(options)
}

/// Returns the id of the timer of a session for this time.
pub(super) fn timer_id(session: &str, time: u64) -> String {
    format!("{}:{time}", key_of(session))
}

/// Returns the delay of the timer for this time, in milliseconds since 1970.
pub(super) fn delay_until(time: u64) -> Duration {
    Duration::from_millis(time.saturating_sub(SystemEnvironment.now())) + CLOCK_MARGIN
}

/// The next step after a session was hosted.
#[derive(Debug, Serialize, Deserialize)]
enum Next {
    /// Nothing, until the next input.
    Nothing,
    /// Another drive at `time`, in milliseconds since 1970, which is after `delay`.
    Timer { time: u64, delay: Duration },
    /// A drive by another worker.
    Retry,
    /// A later drive: the session cannot be opened in this minute since 1970.
    Later { minute: u64 },
}

#[restate_sdk::object]
impl LoopwrightSession {
    /// Hosts the session until it has nothing to do. Always opens the session, since only its owner
    /// knows whether anything is due.
    #[handler]
    async fn drive(&self, ctx: ObjectContext<'_>) -> Result<(), HandlerError> {
        let (driver, session) = (self.driver.clone(), session_of(ctx.key())?);
        let hosting = move || async move { host(&*driver, &session).await.map(Json) };
        let Json(next) = ctx.run(hosting).name("host").await?;
        let key = ctx.key().to_owned();
        match next {
            Next::Retry => {
                ctx.object_client::<LoopwrightSessionClient>(key).drive().send();
            }
            Next::Later { minute } => {
                // A shared id: all calls that wait for this session become a single one.
                let id = format!("{key}:later:{minute}");
                let drive = ctx.object_client::<LoopwrightSessionClient>(key).drive();
                drive.idempotency_key(id).send_after(NO_AGENT_PAUSE);
            }
            Next::Timer { time, delay } => {
                let id = timer_id(&session_of(&key)?, time);
                let wake = ctx.object_client::<LoopwrightSessionClient>(key).wake();
                wake.idempotency_key(id).send_after(delay);
            }
            Next::Nothing => {}
        }
        Ok(())
    }

    /// Causes the session to be hosted at the time of a timer.
    #[handler]
    async fn wake(&self, ctx: SharedObjectContext<'_>) -> Result<(), HandlerError> {
        let driver = self.driver.clone();
        let session = session_of(ctx.key())?;
        let post = move || async move {
            if let Err(error) = driver.post_schedules(Some(&session)).await {
                tracing::warn!(session, %error, "its schedules could not be carried out");
            }
            Ok(())
        };
        ctx.run(post).name("post schedules").await?;
        ctx.object_client::<LoopwrightSessionClient>(ctx.key().to_owned()).drive().send();
        Ok(())
    }
}

async fn host(driver: &dyn Driver, session: &str) -> Result<Next, HandlerError> {
    let mut pause = IN_USE_PAUSE;
    loop {
        match driver.drive(session).await {
            Ok(Drive::Closed { next }) => {
                return Ok(match next {
                    Some(time) => Next::Timer { time, delay: delay_until(time) },
                    None => Next::Nothing,
                });
            }
            Ok(Drive::HandedOver) => return Ok(Next::Retry),
            // Its owner is alive, though Restate may think otherwise.
            Ok(Drive::InUse) => {
                sleep(pause).await;
                pause = (pause * 2).min(MAX_IN_USE_PAUSE);
            }
            Err(ClusterError::Draining) => {
                sleep(DRAINING_PAUSE).await;
                return Ok(Next::Retry);
            }
            // Restate repeats the call.
            Err(error @ (ClusterError::Memory(_) | ClusterError::Full(_))) => {
                tracing::warn!(session, %error, "it cannot be opened");
                return Err(error.into());
            }
            Err(error) => {
                tracing::warn!(session, %error, "it cannot be opened");
                return Ok(Next::Later { minute: SystemEnvironment.now() / 60_000 });
            }
        }
    }
}
