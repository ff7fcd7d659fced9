//! Checks of a whole log, and the conversation in it.

use std::collections::HashSet;
use std::sync::Arc;

use crate::event::action::call_of_child;
use crate::event::outcome::RunCause;
use crate::log::entry::LogEntry;
use crate::log::state::SessionState;
use crate::log::waits::Wait;
use crate::message::Message;

/// Highest number of a message, run or opening in a log.
const MAX_NUMBER: u64 = (1 << 53) - 1;

/// Checks the rules of a log:
///
/// - Runs do not nest, and end once.
/// - No message is delivered twice, or after it was withdrawn.
/// - Calls wait, are decided, start and finish while their batch is open, and have at most one
///   result.
/// - No request is sent while a batch is open.
/// - A wait ends once, and by a signal only if one has arrived.
/// - No call is compacted, or removed by a rewind, without its results.
/// - Numbers of messages, runs and openings are at most 2^53 - 1. Every JSON parser reads this
///   number exactly, and it leaves room for the next ones.
///
/// The error names the entry that breaks a rule.
pub fn check_log(entries: &[LogEntry]) -> Result<(), String> {
    let (mut run, mut queued, mut finished) = (None, HashSet::new(), HashSet::new());
    let mut state = SessionState::default();
    for (at, entry) in entries.iter().enumerate() {
        let is_valid = match entry {
            LogEntry::RunStarted { run: new, cause, .. } => {
                let rings = match cause {
                    RunCause::Timer(key) => may_end(&state, key, |wait| wait.until.is_some()),
                    RunCause::Signal(key) => may_end(&state, key, |wait| wait.signal.is_some()),
                    _ => true,
                };
                rings && run.replace(*new).is_none()
            }
            LogEntry::WaitEnded { key } => may_end(&state, key, |_| true),
            LogEntry::RunEnded { run: old, handed_back, .. } => {
                handed_back.iter().all(|input| queued.remove(input)) && run.take() == Some(*old)
            }
            LogEntry::Queued { input, .. } => queued.insert(input),
            LogEntry::Delivered { input } => queued.remove(input) && state.batch.is_none(),
            LogEntry::Withdrawn { inputs } => inputs.iter().all(|input| queued.remove(input)),
            LogEntry::RequestStarted { .. }
            | LogEntry::Replied { .. }
            | LogEntry::Called { .. }
            | LogEntry::Remembered { .. } => state.batch.is_none(),
            LogEntry::Compacted { first, last, .. } => {
                run.is_some() && state.batch.is_none() && state.replaceable(*first, *last).is_some()
            }
            LogEntry::Rewound { to } => {
                run.is_some() && state.batch.is_none() && state.rewind_point(*to).is_ok()
            }
            LogEntry::CallAwaiting { call, .. } | LogEntry::CallStarted { call, .. } => {
                state.call(call).is_some_and(|call| call.result.is_none())
            }
            LogEntry::Approved { call, .. } | LogEntry::Decided { call, .. } => {
                state.pending().any(|action| action.call == *call)
            }
            LogEntry::ChildStarted { call, .. } => {
                state.call(call).is_some_and(|call| call.result.is_none() && call.child.is_none())
            }
            LogEntry::ChildAwaits { call, actions, idle, .. } => {
                let child = state.call(call).and_then(|found| found.child.as_ref());
                child.is_some_and(|child| {
                    actions.iter().all(|action| {
                        call_of_child(&action.call, call).is_some()
                            && (*idle || !child.knows(call, &action.call))
                    })
                })
            }
            LogEntry::ChildEnded { call, .. } => {
                state.call(call).is_some_and(|found| found.child.is_some())
            }
            LogEntry::CallFinished { result } => result
                .as_tool_result()
                .is_some_and(|r| state.call(&r.call).is_some() && finished.insert(&r.call)),
            LogEntry::Reset => {
                queued.clear();
                true
            }
            _ => true,
        };
        if !is_valid {
            return Err(format!("entry {at} breaks the rules of the log: {entry:?}"));
        }
        state.apply(entry, &mut |_| {});
        if state.epoch.max(state.runs).max(state.messages) > MAX_NUMBER {
            return Err(format!("entry {at} has a number above {MAX_NUMBER}: {entry:?}"));
        }
    }
    Ok(())
}

/// Returns whether a wait has not ended, and may end in this way.
fn may_end(state: &SessionState, key: &str, may: impl Fn(&Wait) -> bool) -> bool {
    state.info.waits.iter().any(|wait| *wait.key == *key && !wait.ended && may(wait))
}

/// Returns the messages of the conversation in a log.
pub fn replay_messages(entries: &[LogEntry]) -> Vec<Arc<Message>> {
    let mut state = SessionState::default();
    entries.iter().for_each(|entry| state.apply(entry, &mut |_| {}));
    state.history.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::input::{Decision, QueueKind, Urgency};
    use crate::message::{
        AssistantMessage, ContentPart, MessageId, ResultStatus, RunId, ToolCall, ToolResult,
        UserMessage,
    };

    #[test]
    fn numbers_at_the_end_of_the_range_are_refused() {
        let opened = |epoch| LogEntry::Opened { epoch, time: u64::MAX, parent: None, owner: None };
        let run = |run| {
            let (run, cause) = (RunId(run), RunCause::Continue(None));
            LogEntry::RunStarted { run, cause, time: u64::MAX, trace: None }
        };
        let queued = |id| LogEntry::Queued {
            input: "i".into(),
            kind: QueueKind::Request,
            urgency: Urgency::default(),
            message: Arc::new(Message::new(MessageId(id), UserMessage::from("x"))),
            output: None,
            principal: None,
        };
        let numbered: [&dyn Fn(u64) -> LogEntry; 3] = [&opened, &run, &queued];
        for entry in numbered {
            assert_eq!(check_log(&[entry(MAX_NUMBER)]), Ok(()));
            for number in [MAX_NUMBER + 1, u64::MAX] {
                let refused = check_log(&[opened(1), entry(number)]).unwrap_err();
                assert!(refused.starts_with("entry 1 has a number above"), "{refused}");
            }
        }
    }

    #[test]
    fn calls_wait_start_and_finish_while_they_are_open() {
        let value = || Arc::new(serde_json::Value::Null);
        let awaiting = LogEntry::CallAwaiting {
            call: "c".into(),
            name: "t".into(),
            arguments: value(),
            digest: "d".into(),
            request: None,
            terms: Arc::default(),
            time: 0,
        };
        let decided = LogEntry::Decided {
            input: "i".into(),
            call: "c".into(),
            name: None,
            digest: None,
            decision: Arc::new(Decision::Approve),
            by: None,
            source: None,
            change: None,
            time: 0,
        };
        let started = LogEntry::CallStarted { call: "c".into(), arguments: value() };
        let result = ToolResult::new("c", "t", ResultStatus::Ok, Vec::new());
        let finished = LogEntry::CallFinished { result: Message::new(MessageId(2), result).into() };
        let calls = vec![ContentPart::ToolCall(ToolCall::new("c", "t", "{}"))];
        let reply = Message::new(MessageId(1), AssistantMessage::new(calls));
        let replied = LogEntry::Replied { message: reply.into(), cost: None };

        let all = [replied, awaiting, decided, started, finished];
        assert_eq!(check_log(&all), Ok(()));
        for entry in &all[1..] {
            check_log(std::slice::from_ref(entry)).unwrap_err();
            check_log(&[&all[..], std::slice::from_ref(entry)].concat()).unwrap_err();
        }
        // A decision on a call that is not waiting.
        check_log(&[all[0].clone(), all[2].clone()]).unwrap_err();
    }
}
