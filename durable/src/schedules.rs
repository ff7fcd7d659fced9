//! What schedules do when their time has come.

use loopwright_core::SessionStore;
use loopwright_core::log::{MemoryError, Schedule, Schedules};

use crate::cron::Cron;
use crate::error::ClusterError;
use crate::placement::Placement;

/// The number of schedules that are read at once.
const CHUNK: usize = 64;
/// How long a schedule that cannot be carried out is postponed, in milliseconds.
const POSTPONED: u64 = 60_000;

/// Posts the inputs of the schedules whose time has come, of one session or of all, and sets their
/// next times. One that fails does not hold up the others.
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
        for schedule in &due {
            if let Err(error) = post(store, schedules, placement, schedule, now).await {
                let Schedule { session, id, .. } = schedule;
                tracing::warn!(session = &**session, schedule = &**id, %error, "it is postponed");
                schedules.advance(schedule, Some(now + POSTPONED)).await?;
            }
        }
        if session.is_some() || due.len() < CHUNK {
            return Ok(());
        }
    }
}

/// Posts the input of a schedule. Its next time is set afterwards: if the worker is killed in
/// between, the same input is posted again, which changes nothing.
async fn post(
    store: &dyn SessionStore,
    schedules: &dyn Schedules,
    placement: &dyn Placement,
    schedule: &Schedule,
    now: u64,
) -> Result<(), ClusterError> {
    let Schedule { session, .. } = schedule;
    let next = next_time(schedule, now)?;
    match store.post(session, &schedule.input()?).await {
        Ok(Some(_)) => {}
        Ok(None) => placement.wake(session).await?,
        Err(MemoryError::NoSession(_)) => return Ok(()), // it was deleted, and the schedule too
        Err(error) => return Err(error.into()),
    }
    if let Some(next) = next {
        placement.wake_at(session, next).await?;
    }
    schedules.advance(schedule, next).await?;
    Ok(())
}

/// Returns the first time of a schedule after now. Times that have passed in the meantime are left
/// out.
fn next_time(schedule: &Schedule, now: u64) -> Result<Option<u64>, ClusterError> {
    let Some(expression) = &schedule.cron else { return Ok(None) };
    let cron = Cron::new(expression, schedule.time_zone.as_deref())?;
    Ok(cron.next_after(schedule.next.max(now)))
}
