//! Rules for a session's log, the emitted events and the tool runs. They must hold after every
//! kill.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use loopwright_core::testing::check_transcript;
use loopwright_core::{event::*, log::*, message::*, tool::*};
use serde::Deserialize;
use serde_json::Value;

use crate::scenario::{self, Scenario};

/// The records of a session's processes besides its log.
pub(crate) struct Record {
    pub(crate) events: Vec<Value>,
    receipts: Vec<String>,
    pub(crate) tool_runs: Vec<ToolRun>,
}

/// The start or the end of a tool run.
#[derive(Debug, Deserialize)]
pub(crate) struct ToolRun {
    pub(crate) what: String,
    call: String,
    pub(crate) tool: String,
    arguments: Value,
    pub(crate) pid: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Recorded {
    Started(#[allow(dead_code, reason = "for people who read the record")] u32),
    Event(Value),
    Receipt(String),
}

type Checked = Result<(), String>;

fn ensure(holds: bool, why: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(why()) }
}

impl Record {
    /// Reads the record. Only the last line of a process may be incomplete.
    pub(crate) fn read(folder: &Path) -> Result<Record, String> {
        let mut record = Record { events: Vec::new(), receipts: Vec::new(), tool_runs: Vec::new() };
        let mut last = None;
        for line in lines::<Recorded>(&folder.join("events"))? {
            match line {
                Recorded::Started(_) => last = None,
                Recorded::Receipt(id) => record.receipts.push(id),
                Recorded::Event(event) if is_transient(&event) => {
                    let seq = event["seq"].as_u64();
                    ensure(last.is_none() || seq == last, || {
                        format!(
                            "a transient event does not carry the last number, {last:?}: {event}"
                        )
                    })?;
                }
                Recorded::Event(event) => {
                    let seq = event["seq"].as_u64();
                    let follows = last.is_none() || seq == last.map(|last| last + 1);
                    ensure(follows, || format!("a gap after {last:?}: {event}"))?;
                    last = seq;
                    record.events.push(event);
                }
            }
        }
        record.tool_runs = lines(&folder.join("tool-runs"))?;
        Ok(record)
    }
}

/// Returns the lines of a file, except lines that a kill has cut.
fn lines<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<Vec<T>, String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let mut all = Vec::new();
    let mut rest = text.split('\n').peekable();
    while let Some(line) = rest.next() {
        match serde_json::from_str(line) {
            Ok(line) => all.push(line),
            // The next process terminates its predecessor's unfinished line and adds an empty one.
            Err(_) if rest.peek().is_none_or(|next| next.is_empty()) => {}
            Err(error) if !line.is_empty() => {
                return Err(format!("{error} in {}: {line}", path.display()));
            }
            Err(_) => {}
        }
    }
    Ok(all)
}

/// Returns `true` for deltas, progress and the start of a streaming message. No entry has them.
fn is_transient(event: &Value) -> bool {
    match event["type"].as_str() {
        Some("message_update" | "tool_execution_update") => true,
        Some("message_start") => event["role"] == "assistant",
        _ => false,
    }
}

/// Checks the rules that hold at any time.
pub(crate) fn check(session: &str, entries: &[LogEntry], record: &Record) -> Checked {
    check_log(entries)?;
    let log = SessionLog::of(entries);
    let messages = log.messages();
    for transcript in [&messages, &log.context()] {
        let open = transcript
            .last()
            .is_some_and(|m| m.as_assistant().is_some_and(|reply| reply.calls().next().is_some()));
        check_transcript(&transcript[..transcript.len() - usize::from(open)])?;
    }
    let mut texts = HashSet::new();
    let mut users = messages.iter().filter(|m| m.role() == Role::User);
    ensure(users.all(|m| texts.insert(m.text())), || {
        "a message is in the conversation twice".into()
    })?;
    for entry in entries {
        if let LogEntry::RunEnded { end: RunStatus::Error | RunStatus::Limit, error, .. } = entry {
            let is_expected = error
                .as_ref()
                .is_some_and(|why| why.contains("a new request came instead of `Continue`"));
            ensure(is_expected, || format!("a run failed: {error:?}"))?;
        }
    }
    check_events(session, entries, record)?;
    check_receipts(entries, record)?;
    check_calls(entries, record)
}

/// Checks that the emitted events match the log, with the same numbers, and contain all messages.
fn check_events(session: &str, entries: &[LogEntry], record: &Record) -> Checked {
    let events = SessionLog::events(session, entries);
    let plain = |mut event: Value| {
        event.as_object_mut().map(|map| map.remove("time"));
        event
    };
    for emitted in &record.events {
        let seq = emitted["seq"].as_u64().unwrap_or_default() as usize;
        let logged = seq
            .checked_sub(1)
            .and_then(|at| events.get(at))
            .map(|e| plain(serde_json::to_value(e).unwrap_or_default()));
        ensure(logged.as_ref() == Some(&plain(emitted.clone())), || {
            format!("emitted: {emitted}\nlogged: {logged:?}")
        })?;
    }
    let mut replayed = Vec::new();
    for event in &events {
        match &event.event {
            AgentEvent::MessageEnd { message } => replayed.push(message.clone()),
            AgentEvent::Reset => replayed.clear(),
            _ => {}
        }
    }
    let same =
        replayed == *SessionLog::of(entries).messages() && replayed == replay_messages(entries);
    ensure(same, || "the events replay to other messages".into())
}

/// Checks that every acknowledged input is in the log.
fn check_receipts(entries: &[LogEntry], record: &Record) -> Checked {
    for receipt in &record.receipts {
        let is_logged = entries.iter().any(|entry| match entry {
            LogEntry::Queued { input, .. } | LogEntry::Decided { input, .. } => {
                **input == **receipt
            }
            LogEntry::AbortRequested { .. }
            | LogEntry::RunEnded { end: RunStatus::Aborted, .. } => receipt == "abort",
            _ => false,
        });
        ensure(is_logged, || format!("{receipt} was acknowledged, and is lost"))?;
    }
    Ok(())
}

/// A call of the log, and its outcome.
#[derive(Default)]
struct Call {
    tool: String,
    starts: Vec<Value>,
    allowed: bool,
    status: Option<ResultStatus>,
}

fn calls(entries: &[LogEntry]) -> Result<BTreeMap<&str, Call>, String> {
    let mut calls: BTreeMap<&str, Call> = BTreeMap::new();
    for entry in entries {
        match entry {
            LogEntry::Replied { message, .. } => {
                for call in message.as_assistant().into_iter().flat_map(|reply| reply.calls()) {
                    let new = Call { tool: call.name.to_string(), ..Call::default() };
                    ensure(calls.insert(&call.id, new).is_none(), || {
                        format!("two calls have the id {}", call.id)
                    })?;
                }
            }
            LogEntry::Decided { call, decision, .. } => {
                let found = calls.get_mut(&**call).ok_or("a decision for no call")?;
                found.allowed = matches!(
                    **decision,
                    Decision::Approve
                        | Decision::ApproveWith(_)
                        | Decision::Provide(Provided::Input(_))
                );
            }
            LogEntry::CallStarted { call, arguments } => {
                let found = calls.get_mut(&**call).ok_or("an unknown call starts")?;
                let may_start =
                    found.allowed || !scenario::asks(&found.tool) || found.tool == "login";
                ensure(may_start, || format!("{call} of {} starts without approval", found.tool))?;
                found.starts.push((**arguments).clone());
            }
            LogEntry::CallFinished { result } => {
                let result = result.as_tool_result().ok_or("a result without a tool result")?;
                calls.get_mut(&*result.call).ok_or("a result of no call")?.status =
                    Some(result.status);
            }
            _ => {}
        }
    }
    Ok(calls)
}

/// Checks that no tool runs before its start is logged, that once-only tools run once, and that
/// results match the runs.
fn check_calls(entries: &[LogEntry], record: &Record) -> Checked {
    let calls = calls(entries)?;
    for ran in &record.tool_runs {
        let call = calls.get(&*ran.call).ok_or_else(|| format!("{ran:?} is of no call"))?;
        ensure(call.starts.contains(&ran.arguments), || format!("{ran:?} was not logged before"))?;
        ensure(call.allowed || !scenario::asks(&ran.tool), || format!("{ran:?} without approval"))?;
    }
    for (id, call) in &calls {
        let times = |what| {
            record.tool_runs.iter().filter(|ran| ran.call == *id && ran.what == what).count()
        };
        let started = times("start");
        let ended = times("end");
        let which = || {
            format!(
                "{id} of {} started {started} times, ended {ended} times: {:?}",
                call.tool, call.status
            )
        };
        if scenario::effect(&call.tool) == Effect::AtMostOnce {
            ensure(started <= 1, which)?;
        }
        match call.status {
            Some(ResultStatus::Ok) => ensure(ended >= 1 || call.tool == "outside", which)?,
            Some(ResultStatus::Denied | ResultStatus::Skipped) => ensure(started == 0, which)?,
            Some(ResultStatus::Error) => return Err(which()),
            Some(ResultStatus::Aborted | ResultStatus::OutcomeUnknown) | None => {}
            Some(_) => return Err(which()),
        }
    }
    Ok(())
}

/// Checks the rules that hold when all work is done.
pub(crate) fn check_done(scenario: &Scenario, entries: &[LogEntry]) -> Checked {
    let log = SessionLog::of(entries);
    check_transcript(&log.messages())?;
    let is_idle = log.run().is_none() && log.waiting().is_empty() && log.pending().is_empty();
    ensure(is_idle, || "work is left".into())?;
    let extra =
        scenario.extra_inputs.iter().filter(|extra| extra.kind.has_id()).map(|extra| extra.id);
    for id in scenario.requests.iter().map(|(id, _)| *id).chain(extra) {
        let gone = entries.iter().any(|entry| match entry {
            LogEntry::Delivered { input } => **input == *id,
            LogEntry::RunEnded { handed_back, .. } => {
                handed_back.iter().any(|input| **input == *id)
            }
            _ => false,
        });
        ensure(gone, || format!("{id} was neither delivered nor handed back"))?;
    }
    Ok(())
}

/// Returns the conversation, one line for each message.
pub(crate) fn transcript(entries: &[LogEntry]) -> Vec<String> {
    let line = |m: &Arc<Message>| match &m.body {
        MessageKind::Assistant(reply) => {
            let calls: Vec<String> =
                reply.calls().map(|c| format!("[{} {} {}]", c.id, c.name, c.arguments)).collect();
            format!("A:{}{}", reply.text(), calls.join(""))
        }
        MessageKind::ToolResult(result) => {
            format!("R:{} {:?} {}", result.call, result.status, result.text())
        }
        _ => format!("U:{}", m.text()),
    };
    SessionLog::of(entries).messages().iter().map(line).collect()
}

/// Checks that two conversations are equal, except for outcomes that a kill made unknown.
pub(crate) fn check_same(one: &[String], other: &[String]) -> Checked {
    let unknown = |line: &str| line.split(' ').nth(1) == Some("OutcomeUnknown");
    let same = |(a, b): (&String, &String)| {
        a == b || unknown(b) && a.split(' ').next() == b.split(' ').next()
    };
    let all = one.len() == other.len() && one.iter().zip(other).all(same);
    ensure(all, || format!("another conversation than without a kill:\n{one:#?}\n{other:#?}"))
}
