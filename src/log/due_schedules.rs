//! [`post_due_schedules`]: the inputs of schedules whose time has come.

use std::fmt::Display;
use std::sync::Arc;

use crate::error::{InvalidSchedule, MemoryError};
use crate::log::mailbox::{InputReceipt, PostedInput};
use crate::log::schedule::Schedule;
use crate::log::schedules::Schedules;
use crate::log::store::SessionStore;

/// The number of schedules read at once.
const CHUNK: usize = 64;

/// Time in milliseconds after which a schedule that has failed is tried again.
const RETRY_DELAY: u64 = 60_000;

/// The next step for a schedule that is due.
enum Step {
    Post(PostedInput),
    /// The input of the last time still waits for its run.
    Skip,
    /// It is tried again later.
    Retry,
    /// The session was deleted.
    Remove,
}

/// Posts the inputs of schedules that are due now, of one session or of all, and sets their next
/// times. Returns the number of inputs. A store without schedules has none that are due.
///
/// Each time of a schedule is posted once, even if this process is killed or several processes do
/// this: the input has the same id each time, and its next time is set afterwards. `posted` is
/// called between the two, with the session and the next time of the schedule. A session that
/// nobody has open takes the input when it is opened. An input waits for room in the session's
/// queue, and a time is skipped while the input of the time before it waits for its run.
///
/// A schedule that fails is logged, is tried again a minute later, and does not delay the others:
/// its session's mailbox is full or cannot be written, or this program cannot read its cron
/// expression.
///
/// # Errors
///
/// Fails if the store cannot be read or written. The other schedules were carried out if that was
/// possible.
pub async fn post_due_schedules<F>(
    store: &(impl SessionStore + ?Sized),
    session: Option<&str>,
    mut posted: impl FnMut(Arc<str>, Option<u64>) -> F + Send,
) -> Result<usize, MemoryError>
where
    F: Future<Output = ()> + Send,
{
    let Some(schedules) = store.schedules() else { return Ok(0) };
    let now = schedules.now().await?;
    let (mut count, mut failure) = (0, Ok(()));
    loop {
        let mut due = match session {
            None => schedules.due(CHUNK).await?,
            Some(session) => schedules.of_session(session).await?,
        };
        let is_last = session.is_some() || due.len() < CHUNK;
        due.retain(|schedule| schedule.next <= now); // not those that come due meanwhile
        for schedule in &due {
            match carry_out(store, schedules, schedule, now, &mut posted).await {
                Ok(is_posted) => count += usize::from(is_posted),
                Err(error) => failure = Err(error),
            }
        }
        if is_last || due.is_empty() || failure.is_err() {
            return failure.map(|()| count);
        }
    }
}

/// Carries out a schedule, and returns whether its input was posted. If the process is killed
/// before the next time is set, the same input is posted again, which changes nothing.
async fn carry_out<F>(
    store: &(impl SessionStore + ?Sized),
    schedules: &dyn Schedules,
    schedule: &Schedule,
    now: u64,
    posted: &mut (impl FnMut(Arc<str>, Option<u64>) -> F + Send),
) -> Result<bool, MemoryError>
where
    F: Future<Output = ()> + Send,
{
    let (mut step, next) = match prepare(schedule, now) {
        Ok((input, last, next)) => match last {
            Some(last) if waits(store, schedule, &last).await? => (Step::Skip, next),
            _ => (Step::Post(input), next),
        },
        Err(error) => {
            warn(schedule, &error, "it is not carried out");
            (Step::Retry, None)
        }
    };
    if let Step::Post(input) = &step {
        match store.post(&schedule.session, input).await {
            Ok(_) => posted(schedule.session.clone(), next).await,
            Err(error) => step = after_failure(schedule, error)?,
        }
    }
    let is_posted = matches!(step, Step::Post(_));
    let next = match step {
        Step::Retry => Some(now + RETRY_DELAY),
        Step::Remove => None,
        Step::Post(_) | Step::Skip => next,
    };
    let last = if is_posted { Some(schedule.next) } else { schedule.last };
    let advanced = next.map(|next| Schedule { next, last, ..schedule.clone() });
    schedules.advance(schedule, advanced.as_ref()).await?;
    Ok(is_posted)
}

/// Returns the input of a schedule, the one before it if the schedule recurs, and its first time
/// after now. Past times are skipped.
fn prepare(
    schedule: &Schedule,
    now: u64,
) -> Result<(PostedInput, Option<PostedInput>, Option<u64>), InvalidSchedule> {
    let next = schedule.next_after(schedule.next.max(now))?;
    Ok((schedule.input()?, schedule.last_input()?, next))
}

/// Returns whether the last input of a schedule waits for its run: in the mailbox or in the queue
/// of the session.
async fn waits(
    store: &(impl SessionStore + ?Sized),
    schedule: &Schedule,
    last: &PostedInput,
) -> Result<bool, MemoryError> {
    // Posting it again changes nothing, and returns its receipt.
    match store.post(&schedule.session, last).await {
        Ok(None) => Ok(true),
        Ok(Some(InputReceipt::Accepted)) => {
            Ok(store.session(&schedule.session).await?.has_queued(&last.id))
        }
        Ok(Some(InputReceipt::Refused(why))) => {
            warn(schedule, &why, "its last input was refused");
            Ok(false)
        }
        Err(error @ MemoryError::Failed(_)) => Err(error),
        Err(_) => Ok(false), // the next input fails in the same way
    }
}

fn after_failure(schedule: &Schedule, error: MemoryError) -> Result<Step, MemoryError> {
    match error {
        MemoryError::NoSession(_) => Ok(Step::Remove),
        MemoryError::Failed(_) => Err(error),
        error => {
            warn(schedule, &error, "it is not carried out");
            Ok(Step::Retry)
        }
    }
}

fn warn(schedule: &Schedule, error: &dyn Display, what: &str) {
    let Schedule { session, id, .. } = schedule;
    tracing::warn!(session = &**session, schedule = &**id, %error, "{what}");
}
