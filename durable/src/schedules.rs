//! What schedules do when their time has come.

use loopwright_core::SessionStore;
use loopwright_core::agent::{Environment, SystemEnvironment};
use loopwright_core::log::{MemoryError, Schedule};

use crate::cron::Cron;
use crate::error::ClusterError;
use crate::placement::Placement;

/// The number of schedules that are read at once.
const CHUNK: usize = 64;

/// Posts the inputs of the schedules whose time has come, and sets their next times.
pub(crate) async fn post_due(
    store: &dyn SessionStore,
    placement: &dyn Placement,
) -> Result<(), ClusterError> {
    let Some(schedules) = store.schedules() else { return Ok(()) };
    loop {
        let due = schedules.due(CHUNK).await?;
        let mut has_advanced = false;
        for schedule in &due {
            if let Some(next) = post(store, placement, schedule).await? {
                schedules.advance(schedule, next).await?;
                has_advanced = true;
            }
        }
        if due.len() < CHUNK || !has_advanced {
            return Ok(());
        }
    }
}

/// Posts the input of a schedule. Its next time is set afterwards: if the worker is killed in
/// between, the same input is posted again, which changes nothing. Returns `None` if the input
/// cannot be posted yet.
async fn post(
    store: &dyn SessionStore,
    placement: &dyn Placement,
    schedule: &Schedule,
) -> Result<Option<Option<u64>>, ClusterError> {
    let Schedule { session, id, .. } = schedule;
    match store.post(session, &schedule.input()?).await {
        Ok(Some(_)) => {}
        Ok(None) => placement.wake(session).await?,
        Err(error @ MemoryError::MailboxFull { .. }) => {
            tracing::warn!(session = &**session, schedule = &**id, %error, "it waits");
            return Ok(None);
        }
        Err(MemoryError::NoSession(_)) => return Ok(None), // it was deleted, and the schedule too
        Err(error) => return Err(error.into()),
    }
    let next = next_time(schedule)?;
    if let Some(next) = next {
        placement.wake_at(session, next).await?;
    }
    Ok(Some(next))
}

/// Returns the first time of a schedule after now. Times that have passed in the meantime are left
/// out.
fn next_time(schedule: &Schedule) -> Result<Option<u64>, ClusterError> {
    let Some(expression) = &schedule.cron else { return Ok(None) };
    let cron = Cron::new(expression, schedule.time_zone.as_deref())?;
    Ok(cron.next_after(schedule.next.max(SystemEnvironment.now())))
}
