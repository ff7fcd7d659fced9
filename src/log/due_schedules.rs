//! [`post_due_schedules`]: the inputs of schedules whose time has come.

use std::sync::Arc;

use crate::error::{InvalidSchedule, MemoryError};
use crate::log::mailbox::PostedInput;
use crate::log::schedule::Schedule;
use crate::log::store::SessionStore;

/// The number of schedules read at once.
const CHUNK: usize = 64;

/// Posts the inputs of due schedules, of one session or of all, and sets their next times. Returns
/// the number of schedules that were carried out. A store without schedules has none that are due.
///
/// Each time of a schedule is posted once, even if this process is killed or several processes do
/// this: the input has the same id each time, and its next time is set afterwards. `posted` is
/// called between the two, with the session and the next time of the schedule. A session that
/// nobody has open takes the input when it is opened.
///
/// A schedule that fails stays, and does not delay the others: its session's mailbox is full or
/// cannot be written, or this program cannot read its cron expression. The failure is logged.
///
/// # Errors
///
/// Fails if the store cannot be read or written.
pub async fn post_due_schedules<F>(
    store: &(impl SessionStore + ?Sized),
    session: Option<&str>,
    mut posted: impl FnMut(Arc<str>, Option<u64>) -> F + Send,
) -> Result<usize, MemoryError>
where
    F: Future<Output = ()> + Send,
{
    let Some(schedules) = store.schedules() else { return Ok(0) };
    let mut count = 0;
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
        let before = count;
        for schedule in &due {
            if let Some(next) = post(store, schedule, now).await? {
                posted(schedule.session.clone(), next).await;
                schedules.advance(schedule, next).await?;
                count += 1;
            }
        }
        if session.is_some() || due.len() < CHUNK || count == before {
            return Ok(count);
        }
    }
}

/// Posts the input of a schedule, and returns its next time. If the process is killed before that
/// is set, the same input is posted again, which changes nothing. Returns `None` if it cannot be
/// posted now.
async fn post(
    store: &(impl SessionStore + ?Sized),
    schedule: &Schedule,
    now: u64,
) -> Result<Option<Option<u64>>, MemoryError> {
    let Schedule { session, id, .. } = schedule;
    let warn = |error: &dyn std::fmt::Display| {
        tracing::warn!(session = &**session, schedule = &**id, %error, "it is not carried out");
    };
    let (input, next) = match prepare(schedule, now) {
        Ok(prepared) => prepared,
        Err(error) => {
            warn(&error);
            return Ok(None);
        }
    };
    match store.post(session, &input).await {
        Ok(_) => Ok(Some(next)),
        Err(MemoryError::NoSession(_)) => Ok(None), // it was deleted, and the schedule too
        Err(error @ MemoryError::Failed(_)) => Err(error),
        Err(error) => {
            warn(&error);
            Ok(None)
        }
    }
}

/// Returns the input of a schedule, and its first time after now. Past times are skipped.
fn prepare(schedule: &Schedule, now: u64) -> Result<(PostedInput, Option<u64>), InvalidSchedule> {
    Ok((schedule.input()?, schedule.next_after(schedule.next.max(now))?))
}
