//! The rule [`Rule::Messages`](super::Rule::Messages).

use loopwright_core::Message;
use loopwright_core::event::{InputEvent, Prompt, QueueKind, RunStatus, Urgency};
use loopwright_core::log::LogEntry;
use loopwright_core::message::MessageKind;
use loopwright_core::testing::CheckError;

use super::product::count_requests;
use super::session::{Disturbance, Until};
use super::subject::Subject;

/// The text of the message that the suite sends.
pub(super) const TEXT: &str = "One more thing, please.";

const URGENCIES: [Urgency; 3] = [Urgency::AfterTurn, Urgency::SkipPending, Urgency::Interrupt];

pub(super) async fn check(subject: &Subject<'_>) -> Result<(), CheckError> {
    if !subject.succeeds() {
        return Ok(());
    }
    check_answered(&subject.complete.log, |_| true)?;
    let steers = URGENCIES.map(|urgency| {
        let steer = InputEvent::Steer(Prompt::from(TEXT).urgency(urgency));
        (format!("with a steer ({urgency:?})"), steer)
    });
    let follow_up = ("with a follow-up".to_owned(), InputEvent::FollowUp(Prompt::from(TEXT)));
    for append in 1..subject.complete.appends.len() {
        if !is_running(&subject.complete.log[..subject.complete.appends[append]]) {
            continue;
        }
        for (name, event) in steers.iter().chain([&follow_up]) {
            let checked = check_append(subject, append, event.clone()).await;
            checked.map_err(|error| {
                error.when(format!("{name} right after {}", subject.last_entry(append)))
            })?;
        }
    }
    Ok(())
}

/// Runs the scenario with a message that arrives after an append.
async fn check_append(
    subject: &Subject<'_>,
    append: usize,
    event: InputEvent,
) -> Result<(), CheckError> {
    let message = Some((append, Disturbance::Input(event)));
    let session = subject.open(subject.model(), message).await?;
    session.run(Until::End).await?;
    let log = session.end().await?.log;
    let is_wanted = |message: &Message| message.text() == TEXT;
    if !log.iter().any(|entry| entry.message().is_some_and(|message| is_wanted(message))) {
        return Err(CheckError::new("the message is not in the log").log(&log));
    }
    check_answered(&log, is_wanted)
}

/// Returns whether a run is in progress after these entries.
fn is_running(log: &[LogEntry]) -> bool {
    let bounds = |entry: &&LogEntry| {
        matches!(entry, LogEntry::RunStarted { .. } | LogEntry::RunEnded { .. })
    };
    matches!(log.iter().rev().find(bounds), Some(LogEntry::RunStarted { .. }))
}

/// Checks that each wanted steer and follow-up that arrived during a run is answered once before
/// its end.
pub(super) fn check_answered(
    log: &[LogEntry],
    is_wanted: impl Fn(&Message) -> bool,
) -> Result<(), CheckError> {
    for (at, entry) in log.iter().enumerate() {
        let LogEntry::Queued { input, kind, message, .. } = entry else { continue };
        if *kind == QueueKind::Request || !is_wanted(message) || !is_running(&log[..at]) {
            continue;
        }
        let Some((status, rest)) = rest_of_run(&log[at + 1..]) else {
            return Err(CheckError::new("the run does not end").log(log));
        };
        let failed = |why: &str| {
            let error = CheckError::new(why).note(format!("The message: {}", message.text()));
            error.log(&log[..at + 2 + rest.len()])
        };
        if status != RunStatus::Done {
            return Err(failed(&format!("the run did not end as done, but as {status:?}")));
        }
        let is_delivery =
            |entry: &LogEntry| matches!(entry, LogEntry::Delivered { input: id } if id == input);
        let Some(delivered) = rest.iter().position(is_delivery) else {
            return Err(failed("the run ended, and the pattern had not taken a message"));
        };
        let later = &rest[delivered + 1..];
        if count_requests(later) == 0 || !later.iter().any(is_answer) {
            return Err(failed("the run ended, and a message had no answer"));
        }
        let text = message.text();
        let is_copy = |entry: &LogEntry| match entry {
            LogEntry::Remembered { message } => {
                matches!(&message.body, MessageKind::User(copy) if copy.text() == text)
            }
            _ => false,
        };
        if let Some(copy) = log.iter().position(is_copy) {
            let error = CheckError::new("the pattern added a message of the user once more");
            let error = error.note(format!("The message: {}", message.text()));
            return Err(error.log(&log[..=copy]));
        }
    }
    Ok(())
}

/// Returns the entries up to the next end of a run that neither waits for decisions nor sleeps, and
/// the status of that run.
fn rest_of_run(log: &[LogEntry]) -> Option<(RunStatus, &[LogEntry])> {
    log.iter().enumerate().find_map(|(at, entry)| match entry {
        LogEntry::RunEnded { end: RunStatus::AwaitingAction | RunStatus::Sleeping, .. } => None,
        LogEntry::RunEnded { end, .. } => Some((*end, &log[..at])),
        _ => None,
    })
}

pub(super) fn is_answer(entry: &LogEntry) -> bool {
    match entry {
        LogEntry::Replied { .. } => true,
        LogEntry::Remembered { message } => message.as_assistant().is_some(),
        _ => false,
    }
}
