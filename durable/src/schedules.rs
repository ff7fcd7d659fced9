//! Execution of due schedules.

use loopwright_core::SessionStore;
use loopwright_core::log::{MemoryError, Schedule, Schedules};

use crate::cron::{Cron, InvalidCron};
use crate::error::ClusterError;
use crate::placement::Placement;

/// The number of schedules read at once.
const CHUNK: usize = 64;

/// Posts the inputs of due schedules, of one session or of all, and sets their next times. A
/// failing schedule stays, and does not delay the others.
pub(crate) async fn post_due(
    store: &dyn SessionStore,
    placement: &dyn Placement,
    session: Option<&str>,
) -> Result<(), ClusterError> {
    let Some(schedules) = store.schedules() else { return Ok(()) };
    loop {
        let now = schedules.now().await?;
        let due = match session {
            None => schedules.due(CHUNK).await?,
            Some(session) => {
                let mut all = schedules.of_session(session).await?;
                all.retain(|schedule| schedule.next <= now);
                all
            }
        };
        let mut has_advanced = false;
        for schedule in &due {
            has_advanced |= carry_out(store, schedules, placement, schedule, now).await?;
        }
        if session.is_some() || due.len() < CHUNK || !has_advanced {
            return Ok(());
        }
    }
}

/// Posts the input of a schedule, and then sets its next time. If the worker is killed in between,
/// the same input is posted again, which changes nothing. Returns `false` if it cannot be posted
/// now.
async fn carry_out(
    store: &dyn SessionStore,
    schedules: &dyn Schedules,
    placement: &dyn Placement,
    schedule: &Schedule,
    now: u64,
) -> Result<bool, ClusterError> {
    let Schedule { session, id, .. } = schedule;
    let warn = |what: &str, error: &dyn std::fmt::Display| {
        tracing::warn!(session = &**session, schedule = &**id, %error, "{what}");
    };
    let prepared = || Ok::<_, ClusterError>((schedule.input()?, next_time(schedule, now)?));
    let (input, next) = match prepared() {
        Ok(prepared) => prepared,
        Err(error) => {
            warn("it cannot be carried out", &error);
            return Ok(false);
        }
    };
    match store.post(session, &input).await {
        Ok(_) => {}
        Err(error @ MemoryError::MailboxFull { .. }) => {
            warn("it waits", &error);
            return Ok(false);
        }
        Err(MemoryError::NoSession(_)) => return Ok(false), // it was deleted, and the schedule too
        Err(error) => return Err(error.into()),
    }
    // The input is durable. Without a wake, sweeps find it and the next time.
    if let Err(error) = placement.wake(session).await {
        warn("its session could not be woken", &error);
    }
    if let Some(next) = next
        && let Err(error) = placement.wake_at(session, next).await
    {
        warn("no timer could be set for its next time", &error);
    }
    schedules.advance(schedule, next).await?;
    Ok(true)
}

/// Returns the first time of a schedule after now. Past times are skipped.
fn next_time(schedule: &Schedule, now: u64) -> Result<Option<u64>, InvalidCron> {
    let Some(expression) = &schedule.cron else { return Ok(None) };
    let cron = Cron::new(expression, schedule.time_zone.as_deref())?;
    Ok(cron.next_after(schedule.next.max(now)))
}
