//! The checker: one history of each session must explain all records.

use std::collections::{BTreeMap, HashMap};

use loopwright_core::SessionStore;
use loopwright_core::event::{Envelope, RunCause};
use loopwright_core::log::{LogEntry, SessionLog, check_log};
use loopwright_core::message::ResultStatus;
use loopwright_memory::Postgres;
use serde_json::Value;

use crate::client::History;
use crate::records::Record;

/// Counters of the checks.
#[derive(Debug, Default)]
#[allow(dead_code, reason = "printed")]
pub(crate) struct Counts {
    sessions: usize,
    entries: usize,
    inputs: usize,
    refusals: usize,
    events: usize,
    deltas: u64,
    streams: u64,
    effects: usize,
    openings: usize,
    unknown_outcomes: usize,
}

/// Checks all histories. Returns the violations, too.
pub(crate) async fn check(
    store: &Postgres,
    histories: &[History],
    records: &[Record],
) -> (Counts, Vec<String>) {
    let mut wrong = Vec::new();
    let mut counts = Counts { sessions: histories.len(), ..Counts::default() };
    for history in histories {
        let log = store.read(&history.session, 0).await.unwrap_or_default();
        let before = wrong.len();
        wrong.extend(history.violations.iter().cloned());
        if let Err(why) = check_log(&log) {
            wrong.push(format!("the log: {why}"));
        }
        check_inputs(history, &log, &mut wrong);
        check_effects(&history.session, &log, records, &mut wrong, &mut counts);
        check_epochs(&history.session, &log, records, &mut wrong, &mut counts);
        check_events(history, &log, &mut wrong);
        counts.entries += log.len();
        counts.inputs += history.accepted.len();
        counts.refusals += history.refused.len();
        counts.events += history.events.len();
        counts.deltas += history.deltas;
        counts.streams += history.streams;
        if wrong.len() > before {
            wrong.insert(before, format!("---- {}:", history.session));
        }
    }
    (counts, wrong)
}

/// Checks that each acknowledged input is in the log once, that no refused one is, and that each
/// request has one run.
fn check_inputs(history: &History, log: &[LogEntry], wrong: &mut Vec<String>) {
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for id in log.iter().filter_map(LogEntry::input) {
        *seen.entry(id).or_default() += 1;
    }
    for id in &history.accepted {
        let count = seen.get(id.as_str()).copied().unwrap_or(0);
        if count != 1 {
            wrong.push(format!("the acknowledged input `{id}` is {count} times in the log"));
        }
    }
    for id in history.refused.iter().filter(|id| seen.contains_key(id.as_str())) {
        wrong.push(format!("the refused input `{id}` is in the log"));
    }
    let requests = ["request", "second"];
    let is_request = |id: &&String| requests.iter().any(|kind| id.starts_with(kind));
    for id in history.accepted.iter().filter(is_request) {
        let is_its_run = |entry: &&LogEntry| {
            matches!(entry, LogEntry::RunStarted { cause: RunCause::UserRequest(input), .. }
                if **input == **id)
        };
        let runs = log.iter().filter(is_its_run).count();
        if runs != 1 {
            wrong.push(format!("the request `{id}` has {runs} runs"));
        }
    }
    for id in log.iter().filter_map(|entry| match entry {
        LogEntry::Delivered { input } => Some(input),
        _ => None,
    }) {
        let count = log
            .iter()
            .filter(|entry| matches!(entry, LogEntry::Delivered { input } if input == id));
        if count.count() != 1 {
            wrong.push(format!("the input `{id}` was delivered twice"));
        }
    }
}

/// Checks that a tool that must not run twice has run once if its result says so, and else at most
/// once.
fn check_effects(
    session: &str,
    log: &[LogEntry],
    records: &[Record],
    wrong: &mut Vec<String>,
    counts: &mut Counts,
) {
    let mut effects: HashMap<&str, usize> = HashMap::new();
    for record in records {
        if let Record::Effect { session: of, call, .. } = record
            && of == session
        {
            *effects.entry(call).or_default() += 1;
        }
    }
    for entry in log {
        let LogEntry::CallFinished { result } = entry else { continue };
        let Some(result) = result.as_tool_result() else { continue };
        if &*result.name == "look" {
            continue;
        }
        let ran = effects.get(&*result.call).copied().unwrap_or(0);
        let is_right = match result.status {
            ResultStatus::Ok => ran == 1,
            ResultStatus::OutcomeUnknown | ResultStatus::Aborted => ran <= 1,
            _ => ran == 0,
        };
        if !is_right {
            let status = result.status;
            wrong.push(format!("`{}` ran {ran} times, and is {status:?}", result.call));
        }
        counts.effects += ran;
        counts.unknown_outcomes += usize::from(result.status == ResultStatus::OutcomeUnknown);
    }
}

/// Checks that appends of an epoch come after all appends of earlier epochs.
fn check_epochs(
    session: &str,
    log: &[LogEntry],
    records: &[Record],
    wrong: &mut Vec<String>,
    counts: &mut Counts,
) {
    let mut appends: BTreeMap<u64, u64> = BTreeMap::new();
    for record in records {
        let Record::Append { session: of, at, epoch, .. } = record else { continue };
        if of == session && appends.insert(*at, *epoch).is_some() {
            wrong.push(format!("two appends at {at} have succeeded"));
        }
    }
    let mut last = 0;
    for (at, epoch) in appends {
        if epoch < last {
            wrong.push(format!("the append at {at} is of epoch {epoch}, after one of {last}"));
        }
        last = last.max(epoch);
    }
    let mut last = 0;
    for entry in log {
        let LogEntry::Opened { epoch, .. } = entry else { continue };
        counts.openings += 1;
        if *epoch <= last {
            wrong.push(format!("epoch {epoch} follows {last}"));
        }
        last = *epoch;
    }
}

/// Checks that events have the numbers and the content of the log, from all workers.
fn check_events(history: &History, log: &[LogEntry], wrong: &mut Vec<String>) {
    let expected = SessionLog::events(history.session.as_str(), log);
    // An event from the log has the time of the last earlier entry with a time.
    let content = |event: &Envelope| {
        let mut value = serde_json::to_value(event).unwrap();
        if let Value::Object(fields) = &mut value {
            fields.remove("time");
        }
        value
    };
    for (seen, expected) in history.events.iter().zip(&expected) {
        let (seen, expected) = (content(seen), content(expected));
        if seen != expected {
            wrong.push(format!("an event differs from the log:\n  {seen}\n  {expected}"));
            return;
        }
    }
    if history.events.len() > expected.len() {
        wrong.push("there are more events than the log has".into());
    }
}
