//! The rule [`Rule::Limits`](super::Rule::Limits).

use std::time::Duration;

use loopwright_core::event::{RunCause, RunStatus};
use loopwright_core::limits::{Budget, Limit, Resource};
use loopwright_core::log::LogEntry;
use loopwright_core::message::Usage;
use loopwright_core::model::{ModelInfo, Prices};
use loopwright_core::testing::{CheckError, Script};

use super::product::count_requests;
use super::session::Until;
use super::subject::Subject;

/// The tokens of each reply. The estimate of a request is small compared with them.
const TOKENS: u64 = 1_000_000;

/// The price of a reply in US dollars.
const COST: f64 = 2.0;

/// The time limit. Under paused time it costs nothing.
const WALL_TIME: Duration = Duration::from_secs(1);

pub(super) async fn check(subject: &Subject<'_>) -> Result<(), CheckError> {
    // A failed request uses no tokens.
    if !subject.succeeds() || !subject.has_whole_replies() || subject.has_failed_replies() {
        return Ok(());
    }
    for count in request_starts(&subject.complete.log) {
        // Half a reply below what the replies before the refused request use.
        let tokens = (count as u64 * TOKENS).saturating_sub(TOKENS / 2);
        let cost = tokens as f64 * COST / TOKENS as f64;
        let budgets = [
            (Limit::Run(Resource::Turns), Budget::default().turns(count as u32)),
            (Limit::Run(Resource::Tokens), Budget::default().tokens(tokens)),
            (Limit::Run(Resource::Cost), Budget::default().cost(cost)),
        ];
        for (limit, limits) in budgets {
            let played = subject.complete.played.iter().cloned();
            let checked = check_limit(subject, limit, limits, played.collect()).await;
            let checked = checked.and_then(|log| match requests_of_a_run(&log) {
                sent if sent == count => Ok(()),
                sent if sent < count && subject.scenario.answers_at_limit => Ok(()),
                sent => {
                    let text = format!("{sent} requests are sent in the run");
                    Err(CheckError::new(text).log(&log[..longest_run_end(&log)]))
                }
            });
            let place = || format!("with {limit} reached after {count} requests");
            checked.map_err(|error| error.when(place()))?;
        }
    }
    for request in 0..subject.complete.played.len() {
        let mut replies = subject.complete.played.clone();
        replies[request] = Script::new().hang();
        let budget = Budget::default().time(WALL_TIME);
        let checked = check_limit(subject, Limit::Run(Resource::Time), budget, replies).await;
        let place = || format!("with the limit of time, reached in request {}", request + 1);
        checked.map_err(|error| error.when(place()))?;
    }
    Ok(())
}

/// Runs the scenario until a run ends with this limit, and returns the log.
async fn check_limit(
    subject: &Subject<'_>,
    limit: Limit,
    budget: Budget,
    replies: Vec<Script>,
) -> Result<Vec<LogEntry>, CheckError> {
    let usage = Usage::new(TOKENS, 0).outside_context(TOKENS);
    let replies = replies.into_iter().map(|reply| reply.usage(usage));
    let price = COST / TOKENS as f64 * 1e6;
    let info = ModelInfo::new("test/scripted").with_prices(Prices::new(price, price));
    let model = subject.model_with(replies).info(info);
    let builder = subject.agent(subject.new_value(), &model).limits(budget);
    let session = subject.open_with(builder, model, None).await?;
    session.run(Until::Limit).await?;
    let log = session.end().await?.log;
    let is_expected = |entry: &LogEntry| match entry {
        LogEntry::RunEnded { limit: reached, .. } => *reached == Some(limit),
        _ => false,
    };
    let last = log.iter().rev().find(|entry| matches!(entry, LogEntry::RunEnded { .. }));
    let is_done = matches!(last, Some(LogEntry::RunEnded { end: RunStatus::Done, .. }));
    if log.iter().any(is_expected) || subject.scenario.answers_at_limit && is_done {
        return Ok(log);
    }
    let ends: Vec<String> = log.iter().filter_map(end_text).collect();
    let error = CheckError::new("no run ends with the limit")
        .note(format!("The runs end as: {}", ends.join(", ")))
        .note("A pattern that may answer at its limit says so: `Scenario::answers_at_limit`.");
    Err(error.log(&log[..longest_run_end(&log)]))
}

fn end_text(entry: &LogEntry) -> Option<String> {
    let LogEntry::RunEnded { end, error, .. } = entry else { return None };
    let error = error.as_ref().map(|error| format!(" ({error})")).unwrap_or_default();
    Some(format!("{end:?}{error}"))
}

/// Returns the position after the end of the run with the most requests.
fn longest_run_end(log: &[LogEntry]) -> usize {
    let is_end = |entry: &LogEntry| matches!(entry, LogEntry::RunEnded { .. });
    let runs = log.split_inclusive(is_end);
    let ends = runs.scan(0, |end, run| {
        *end += run.len();
        Some((count_requests(run), *end))
    });
    let longest = ends.max_by_key(|(requests, end)| (*requests, std::cmp::Reverse(*end)));
    longest.map_or(log.len(), |(_, end)| end)
}

/// Returns the number of requests before each request of the longest run, or before each group of
/// requests that are sent together: a limit admits a whole group or refuses it.
fn request_starts(log: &[LogEntry]) -> Vec<usize> {
    let most = runs(log).into_iter().max_by_key(|(_, requests)| *requests);
    most.map(|(starts, _)| starts).unwrap_or_default()
}

/// Returns the highest number of requests between two resets of the limits' counters.
fn requests_of_a_run(log: &[LogEntry]) -> usize {
    runs(log).into_iter().map(|(_, requests)| requests).max().unwrap_or_default()
}

/// Returns, for each run with its own counters, the number of requests before each group of its
/// requests, and their total.
fn runs(log: &[LogEntry]) -> Vec<(Vec<usize>, usize)> {
    let mut runs = vec![(Vec::new(), 0)];
    for entry in log {
        if let LogEntry::RunStarted { cause: RunCause::UserRequest(_) | RunCause::Steer, .. } =
            entry
        {
            runs.push((Vec::new(), 0));
        }
        let sent = count_requests(std::slice::from_ref(entry));
        if let Some((starts, requests)) = runs.last_mut()
            && sent > 0
        {
            starts.push(*requests);
            *requests += sent;
        }
    }
    runs
}
