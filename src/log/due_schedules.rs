//! [`post_due_schedules`]: the inputs of schedules whose time has come.

use std::sync::Arc;

use crate::error::{Failure, MemoryError};
use crate::log::mailbox::{InputReceipt, PostedInput};
use crate::log::schedule::Schedule;
use crate::log::schedules::Schedules;
use crate::log::session_info::SessionInfo;
use crate::log::store::SessionStore;

/// The number of schedules read at once, and of reads.
const CHUNK: usize = 64;
const MAX_CHUNKS: usize = 8;

/// Time in milliseconds after which an input that could not be posted is tried again.
const RETRY_DELAY: u64 = 60_000;

/// A schedule that was carried out, or could not be.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CarriedOut {
    /// The id of the session.
    pub session: Arc<str>,
    /// `true` if the input was posted.
    pub is_posted: bool,
    /// The time at which the schedule is due again, in milliseconds since 1970; `None` if it has
    /// ended.
    pub due_at: Option<u64>,
}

/// The fate of an interrupted run when its session is opened to do its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interrupted {
    /// The run is continued, and takes no input before.
    Continued,
    /// The run is left to a person. An input would end it.
    Left,
}

/// The result of an attempt.
enum Attempt {
    Posted,
    /// The input of the last time still waits for its run.
    Skipped,
    /// The session waits for a person.
    Waits,
    /// The session was deleted.
    Gone,
}

/// Posts the inputs of schedules that are due now, of one session or of all, and sets their next
/// times. Returns the number of inputs. A store without schedules has none that are due. If many
/// are due, some are left for the next call.
///
/// Each time of a schedule is posted once, even if this process is killed or several processes do
/// this: the input has the same id each time, and its next time is set afterwards. `note` is called
/// between the two. A session that nobody has open takes the input when it is opened. An input
/// waits for room in the session's queue, and a time is skipped while the input of the time before
/// it waits for its run.
///
/// An input is tried again a minute later, and does not delay the others, while its session waits
/// for a decision on an action, or on an interrupted run that is [left](Interrupted::Left), and if
/// it fails: the session's mailbox is full or cannot be written, or this program cannot read the
/// cron expression. A failure is logged.
///
/// # Errors
///
/// Fails if the schedules cannot be read or changed.
pub async fn post_due_schedules<F>(
    store: &(impl SessionStore + ?Sized),
    session: Option<&str>,
    interrupted: Interrupted,
    mut note: impl FnMut(CarriedOut) -> F + Send,
) -> Result<usize, MemoryError>
where
    F: Future<Output = ()> + Send,
{
    let Some(schedules) = store.schedules() else { return Ok(0) };
    let now = schedules.now().await?;
    let mut count = 0;
    for _ in 0..MAX_CHUNKS {
        let mut due = match session {
            None => schedules.due(CHUNK).await?,
            Some(session) => schedules.of_session(session).await?,
        };
        let is_last = session.is_some() || due.len() < CHUNK;
        due.retain(|schedule| schedule.due_at() <= now); // not those that come due meanwhile
        for schedule in &due {
            let attempt = attempt(store, schedule, now, interrupted).await;
            let is_posted = finish(schedules, schedule, now, attempt, &mut note).await?;
            count += usize::from(is_posted);
        }
        if is_last || due.is_empty() {
            break;
        }
    }
    Ok(count)
}

/// Sets the next time of a schedule after an attempt, and returns whether its input was posted. If
/// the process is killed before, the same input is posted again, which changes nothing.
async fn finish<F>(
    schedules: &dyn Schedules,
    schedule: &Schedule,
    now: u64,
    attempt: Result<(Attempt, Option<Schedule>), Failure>,
    note: &mut (impl FnMut(CarriedOut) -> F + Send),
) -> Result<bool, MemoryError>
where
    F: Future<Output = ()> + Send,
{
    let retry = Schedule { again_at: Some(now + RETRY_DELAY), ..schedule.clone() };
    let (is_posted, next) = match attempt {
        Ok((Attempt::Posted, next)) => {
            let last = Some(schedule.next);
            (true, next.map(|next| Schedule { last, ..next }))
        }
        Ok((Attempt::Skipped, next)) => (false, next),
        Ok((Attempt::Waits, _)) => (false, Some(retry)),
        Ok((Attempt::Gone, _)) => (false, None),
        Err(error) => {
            let Schedule { session, id, .. } = schedule;
            let (session, schedule) = (&**session, &**id);
            tracing::warn!(session, schedule, %error, "it is not carried out, and tried again");
            (false, Some(retry))
        }
    };
    let due_at = next.as_ref().map(Schedule::due_at);
    note(CarriedOut { session: schedule.session.clone(), is_posted, due_at }).await;
    schedules.advance(schedule, next.as_ref()).await?;
    Ok(is_posted)
}

/// Posts the input of a schedule if its session can take it. Returns the schedule for the first
/// time after now, too. Past times are skipped.
async fn attempt(
    store: &(impl SessionStore + ?Sized),
    schedule: &Schedule,
    now: u64,
    interrupted: Interrupted,
) -> Result<(Attempt, Option<Schedule>), Failure> {
    let next = schedule.next_after(schedule.next.max(now)).map_err(Failure::of)?;
    let next = next.map(|next| Schedule { next, again_at: None, ..schedule.clone() });
    let (input, last) = (schedule.input(), schedule.last_input());
    let session = match store.session(&schedule.session).await {
        Err(MemoryError::NoSession(_)) => return Ok((Attempt::Gone, next)),
        session => session.map_err(Failure::of)?,
    };
    if let Some(last) = last.map_err(Failure::of)?
        && waits(store, &session, &last).await.map_err(Failure::of)?
    {
        return Ok((Attempt::Skipped, next));
    }
    if waits_for_a_person(store, &session, interrupted).await.map_err(Failure::of)? {
        return Ok((Attempt::Waits, next));
    }
    let input = input.map_err(Failure::of)?;
    match store.post(&schedule.session, &input).await {
        Err(MemoryError::NoSession(_)) => Ok((Attempt::Gone, next)),
        posted => posted.map(|_| (Attempt::Posted, next)).map_err(Failure::of),
    }
}

/// Returns whether an input waits for its run: in the mailbox or in the queue of the session.
async fn waits(
    store: &(impl SessionStore + ?Sized),
    session: &SessionInfo,
    input: &PostedInput,
) -> Result<bool, MemoryError> {
    // Posting it again changes nothing, and returns its receipt.
    match store.post(&session.id, input).await? {
        None => Ok(true),
        Some(InputReceipt::Accepted) => Ok(session.has_queued(&input.id)),
        Some(InputReceipt::Refused(error)) => {
            tracing::warn!(session = &*session.id, input = &*input.id, %error, "it was refused");
            Ok(false)
        }
    }
}

/// Returns whether a request would take a decision away from a person: it would replace the actions
/// that wait for one, or end an interrupted run.
async fn waits_for_a_person(
    store: &(impl SessionStore + ?Sized),
    session: &SessionInfo,
    interrupted: Interrupted,
) -> Result<bool, MemoryError> {
    if !session.pending.is_empty() || session.held.is_some() {
        return Ok(true);
    }
    let can_be_left = session.run.is_some() && interrupted == Interrupted::Left;
    Ok(can_be_left && store.in_use(&session.id).await? == Some(false))
}
