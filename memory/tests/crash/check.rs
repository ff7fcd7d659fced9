//! What must hold of a session's log, of what was told and of what the tools did, after every kill.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use loopwright_core::testing::{check_log, check_transcript, replay_messages};
use loopwright_core::{
    agent::*, compaction::*, event::*, hooks::*, log::*, message::*, model::*, pattern::*, tool::*,
};
use serde::Deserialize;
use serde_json::Value;

use crate::scenario::{self, Scenario};

/// What the processes of a session have left besides its log.
pub(crate) struct Notes {
    pub(crate) events: Vec<Value>,
    receipts: Vec<String>,
    pub(crate) ran: Vec<Ran>,
}

/// A tool began, or has ended.
#[derive(Debug, Deserialize)]
pub(crate) struct Ran {
    pub(crate) what: String,
    call: String,
    pub(crate) tool: String,
    arguments: Value,
    pub(crate) pid: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Told {
    Began(#[allow(dead_code, reason = "for people who read the notes")] u32),
    Event(Value),
    Receipt(String),
}

type Checked = Result<(), String>;

fn ensure(holds: bool, why: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(why()) }
}

impl Notes {
    /// Reads them; only the last line of a process may be cut.
    pub(crate) fn read(folder: &Path) -> Result<Notes, String> {
        let mut notes = Notes { events: Vec::new(), receipts: Vec::new(), ran: Vec::new() };
        let mut last = None;
        for told in lines::<Told>(&folder.join("told"))? {
            match told {
                Told::Began(_) => last = None,
                Told::Receipt(id) => notes.receipts.push(id),
                Told::Event(event) if is_overlay(&event) => {
                    let seq = event["seq"].as_u64();
                    ensure(last.is_none() || seq == last, || {
                        format!("an overlay does not carry the last number, {last:?}: {event}")
                    })?;
                }
                Told::Event(event) => {
                    let seq = event["seq"].as_u64();
                    let follows = last.is_none() || seq == last.map(|last| last + 1);
                    ensure(follows, || format!("a gap after {last:?}: {event}"))?;
                    last = seq;
                    notes.events.push(event);
                }
            }
        }
        notes.ran = lines(&folder.join("ran"))?;
        Ok(notes)
    }
}

/// The lines of a file, but for those that a kill has cut.
fn lines<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<Vec<T>, String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let mut all = Vec::new();
    let mut rest = text.split('\n').peekable();
    while let Some(line) = rest.next() {
        match serde_json::from_str(line) {
            Ok(line) => all.push(line),
            // The next process ends the line that the last one was killed in, and writes an empty
            // one.
            Err(_) if rest.peek().is_none_or(|next| next.is_empty()) => {}
            Err(error) if !line.is_empty() => {
                return Err(format!("{error} in {}: {line}", path.display()));
            }
            Err(_) => {}
        }
    }
    Ok(all)
}

/// Deltas, progress and the start of a message that streams tell of no item.
fn is_overlay(event: &Value) -> bool {
    match event["type"].as_str() {
        Some("message_update" | "tool_execution_update") => true,
        Some("message_start") => event["role"] == "assistant",
        _ => false,
    }
}

/// What must hold at any time.
pub(crate) fn check(session: &str, items: &[LogEntry], notes: &Notes) -> Checked {
    check_log(items)?;
    let past = SessionLog::of(items);
    let messages = past.messages();
    for said in [&messages, &past.context()] {
        let open = said
            .last()
            .is_some_and(|m| m.as_assistant().is_some_and(|reply| reply.calls().next().is_some()));
        check_transcript(&said[..said.len() - usize::from(open)])?;
    }
    let mut said = HashSet::new();
    let mut users = messages.iter().filter(|m| m.role() == Role::User);
    ensure(users.all(|m| said.insert(m.text())), || {
        "a message is in the conversation twice".into()
    })?;
    for item in items {
        if let LogEntry::RunEnded { end: RunStatus::Error | RunStatus::Limit, error, .. } = item {
            let settled = error
                .as_ref()
                .is_some_and(|why| why.contains("a new request came instead of `Continue`"));
            ensure(settled, || format!("a run failed: {error:?}"))?;
        }
    }
    check_events(session, items, notes)?;
    check_receipts(items, notes)?;
    check_calls(items, notes)
}

/// What was told is what the log tells, with the same numbers; and the messages are all in it.
fn check_events(session: &str, items: &[LogEntry], notes: &Notes) -> Checked {
    let events = SessionLog::events(session, items);
    let plain = |mut event: Value| {
        event.as_object_mut().map(|map| map.remove("time"));
        event
    };
    for told in &notes.events {
        let seq = told["seq"].as_u64().unwrap_or_default() as usize;
        let kept = seq
            .checked_sub(1)
            .and_then(|at| events.get(at))
            .map(|e| plain(serde_json::to_value(e).unwrap_or_default()));
        ensure(kept.as_ref() == Some(&plain(told.clone())), || {
            format!("told: {told}\nkept: {kept:?}")
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
    let same = replayed == *SessionLog::of(items).messages() && replayed == replay_messages(items);
    ensure(same, || "the events replay to other messages".into())
}

/// Whatever has a receipt is in the log.
fn check_receipts(items: &[LogEntry], notes: &Notes) -> Checked {
    for receipt in &notes.receipts {
        let kept = items.iter().any(|item| match item {
            LogEntry::Queued { input, .. } | LogEntry::Decided { input, .. } => {
                **input == **receipt
            }
            LogEntry::AbortRequested { .. }
            | LogEntry::RunEnded { end: RunStatus::Aborted, .. } => receipt == "abort",
            _ => false,
        });
        ensure(kept, || format!("the receipt of {receipt} went out, and it is lost"))?;
    }
    Ok(())
}

/// A call of the log, and what became of it.
#[derive(Default)]
struct Call {
    tool: String,
    starts: Vec<Value>,
    allowed: bool,
    status: Option<ResultStatus>,
}

fn calls(items: &[LogEntry]) -> Result<BTreeMap<&str, Call>, String> {
    let mut calls: BTreeMap<&str, Call> = BTreeMap::new();
    for item in items {
        match item {
            LogEntry::Replied { message, .. } => {
                for call in message.as_assistant().into_iter().flat_map(|reply| reply.calls()) {
                    let new = Call { tool: call.name.to_string(), ..Call::default() };
                    ensure(calls.insert(&call.id, new).is_none(), || {
                        format!("two calls are {}", call.id)
                    })?;
                }
            }
            LogEntry::Decided { call, decision, .. } => {
                let found = calls.get_mut(&**call).ok_or("an answer to no call")?;
                found.allowed = matches!(
                    **decision,
                    Decision::Approve
                        | Decision::ApproveWith(_)
                        | Decision::Provide(Provided::Input(_))
                );
            }
            LogEntry::CallStarted { call, arguments } => {
                let found = calls.get_mut(&**call).ok_or("no call starts")?;
                let free = found.allowed || !scenario::asks(&found.tool) || found.tool == "login";
                ensure(free, || format!("{call} of {} starts and nobody said so", found.tool))?;
                found.starts.push((**arguments).clone());
            }
            LogEntry::CallFinished { result } => {
                let result = result.as_tool_result().ok_or("a result that is none")?;
                calls.get_mut(&*result.call).ok_or("a result of no call")?.status =
                    Some(result.status);
            }
            _ => {}
        }
    }
    Ok(calls)
}

/// Nothing runs that was not recorded before, once-only tools run once, and results tell of what
/// ran.
fn check_calls(items: &[LogEntry], notes: &Notes) -> Checked {
    let calls = calls(items)?;
    for ran in &notes.ran {
        let call = calls.get(&*ran.call).ok_or_else(|| format!("{ran:?} is of no call"))?;
        ensure(call.starts.contains(&ran.arguments), || {
            format!("{ran:?} was not recorded before")
        })?;
        ensure(call.allowed || !scenario::asks(&ran.tool), || {
            format!("{ran:?} and nobody said so")
        })?;
    }
    for (id, call) in &calls {
        let times =
            |what| notes.ran.iter().filter(|ran| ran.call == *id && ran.what == what).count();
        let (begun, ended) = (times("begin"), times("end"));
        let which = || {
            format!(
                "{id} of {} began {begun} times, ended {ended} times: {:?}",
                call.tool, call.status
            )
        };
        if scenario::effect(&call.tool) == Effect::AtMostOnce {
            ensure(begun <= 1, which)?;
        }
        match call.status {
            Some(ResultStatus::Ok) => ensure(ended >= 1 || call.tool == "outside", which)?,
            Some(ResultStatus::Denied | ResultStatus::Skipped) => ensure(begun == 0, which)?,
            Some(ResultStatus::Error) => return Err(which()),
            Some(ResultStatus::Aborted | ResultStatus::OutcomeUnknown) | None => {}
            Some(_) => return Err(which()),
        }
    }
    Ok(())
}

/// What must hold once all is done.
pub(crate) fn check_done(scenario: &Scenario, items: &[LogEntry]) -> Checked {
    let past = SessionLog::of(items);
    check_transcript(&past.messages())?;
    let rests = past.run().is_none() && past.waiting().is_empty() && past.pending().is_empty();
    ensure(rests, || "something is left to do".into())?;
    let detached = scenario
        .detached
        .iter()
        .filter(|detached| detached.what.has_id())
        .map(|detached| detached.id);
    for id in scenario.requests.iter().map(|(id, _)| *id).chain(detached) {
        let gone = items.iter().any(|item| match item {
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

/// The conversation, a line a message.
pub(crate) fn transcript(items: &[LogEntry]) -> Vec<String> {
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
    SessionLog::of(items).messages().iter().map(line).collect()
}

/// Whether two conversations are the same, but for outcomes that a kill made unknown.
pub(crate) fn check_same(one: &[String], other: &[String]) -> Checked {
    let unknown = |line: &str| line.split(' ').nth(1) == Some("OutcomeUnknown");
    let same = |(a, b): (&String, &String)| {
        a == b || unknown(b) && a.split(' ').next() == b.split(' ').next()
    };
    let all = one.len() == other.len() && one.iter().zip(other).all(same);
    ensure(all, || format!("another conversation than without a kill:\n{one:#?}\n{other:#?}"))
}
