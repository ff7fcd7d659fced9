//! The rule [`Rule::ModelErrors`](super::Rule::ModelErrors).

use loopwright_core::event::{RunCause, RunStatus};
use loopwright_core::log::LogEntry;
use loopwright_core::model::ModelErrorKind;
use loopwright_core::testing::{CheckError, Script};

use super::messages::{TEXT, check_answered, is_answer};
use super::product::{Product, count_requests, request_groups, run_end};
use super::session::{Until, ends_with, is_model_error};
use super::subject::Subject;

pub(super) async fn check(subject: &Subject<'_>) -> Result<(), CheckError> {
    if !subject.succeeds() || !subject.has_whole_replies() {
        return Ok(());
    }
    for request in 0..subject.complete.played.len() {
        let checked = check_request(subject, request).await;
        checked.map_err(|error| error.when(format!("when request {} fails", request + 1)))?;
    }
    Ok(())
}

/// Runs the scenario with a model that fails at one request and is asked again.
async fn check_request(subject: &Subject<'_>, request: usize) -> Result<(), CheckError> {
    if subject.scenario.tolerates_model_errors && is_tolerated(subject, request).await? {
        return Ok(());
    }
    let mut replies = subject.complete.played.clone();
    // The other requests of its group are answered before the run ends.
    let groups = request_groups(&subject.complete.log);
    let (end_of_group, is_kept) = groups.get(request).copied().unwrap_or((request + 1, true));
    let failed = std::mem::replace(&mut replies[request], error());
    replies.insert(end_of_group, failed);
    let session = subject.open(subject.model_with(replies), None).await?;
    session.run(Until::End).await?;
    let log = session.end().await?.log;
    let Some(end) = log.iter().position(|entry| ends_with(entry, RunStatus::Error)) else {
        let error = CheckError::new("the run does not end with the error of the model").note(
            "A pattern that may continue after such an error says so: \
             `Scenario::tolerates_model_errors`.",
        );
        return Err(error.log(&log[..run_end(&log, request)]));
    };
    let requests = count_requests(&log[..end]);
    if requests != end_of_group {
        let error = CheckError::new("the run does not end at once, but sends other requests")
            .note(format!("Requests after the error: {}", requests.saturating_sub(end_of_group)));
        return Err(error.log(&log[..=end]));
    }
    // Without keys, the whole group is sent again, and so are requests that failed before. With
    // another run, an input with a condition may arrive at another time.
    let inputs = subject.scenario.session.inputs();
    let has_failed = subject.has_failed_replies();
    if !is_kept || has_failed || inputs.iter().any(|input| input.has_condition()) {
        return Ok(());
    }
    let mut product = Product::of(&log, 0);
    product.remove_failed_run(&log[..end]).map_err(|error| error.log(&log))?;
    let same = product.expect(&subject.product(), &log);
    same.map_err(|error| error.when("and `Continue` resumes the run"))
}

/// Runs the scenario with a model that fails at one request and is not asked again. Returns whether
/// the pattern continues. Then every message must be answered, and another request works.
async fn is_tolerated(subject: &Subject<'_>, request: usize) -> Result<bool, CheckError> {
    let mut replies = subject.complete.played.clone();
    replies[request] = error();
    let session = subject.open(subject.model_with(replies), None).await?;
    session.run(Until::End).await?;
    if session.log().iter().any(is_model_error) {
        return Ok(false);
    }
    let before = session.log().len();
    session.request(TEXT).await?;
    let log = session.end().await?.log;
    if let Some(end) = log.iter().position(|entry| ends_with(entry, RunStatus::Error)) {
        let why = match end < before {
            true => "the run ends with another error",
            false => "the next request of the user ends with an error",
        };
        return Err(CheckError::new(why).log(&log[..=end]));
    }
    check_answered(&log, |_| true)?;
    let is_start = |entry: &LogEntry| match entry {
        LogEntry::RunStarted { cause, .. } => matches!(cause, RunCause::UserRequest(_)),
        _ => false,
    };
    let starts = log.iter().enumerate().filter(|(_, entry)| is_start(entry)).map(|(at, _)| at);
    for start in starts {
        let next = log[start + 1..].iter().position(is_start).map_or(log.len(), |n| start + 1 + n);
        let run = &log[start..next];
        let is_decided = run.iter().any(|entry| matches!(entry, LogEntry::Decided { .. }));
        if !is_decided && !run.iter().any(is_answer) {
            let error = CheckError::new("the run ends, and the user's request has no answer");
            return Err(error.log(&log[..next]));
        }
    }
    Ok(true)
}

fn error() -> Script {
    Script::error(ModelErrorKind::Overloaded, "the model is overloaded")
}
