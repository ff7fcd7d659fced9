//! [`LoggedReply`]: the reply to a request, from a log.

use std::sync::Arc;

use super::compaction_step::CompactionStep;
use crate::compaction::CompactionCause;
use crate::error::{ModelError, ModelErrorKind};
use crate::event::input::{QueueKind, Urgency};
use crate::log::entry::LogEntry;
use crate::message::{AssistantMessage, ContentPart, Message, StopReason};
use crate::model::{BlockKind, ModelEvent, ModelInfo, Prices};

/// The reply to a request, from the log.
pub(super) struct LoggedReply {
    pub(super) events: Vec<ModelEvent>,
    /// Position that the replay must reach before the reply ends.
    pub(super) until: usize,
    /// The last event; `None` if the reply was cut off.
    pub(super) end: Option<ModelEvent>,
    pub(super) is_detached: bool,
}

impl LoggedReply {
    /// Returns the reply to the request at position `at` of the log.
    pub(super) fn of_request(log: &[LogEntry], at: usize) -> LoggedReply {
        let LogEntry::RequestStarted { message: id, .. } = &log[at] else {
            return Self::missing(log, at);
        };
        let ends_request = |entry: &LogEntry| {
            matches!(
                entry,
                LogEntry::RequestStarted { .. }
                    | LogEntry::RunEnded { .. }
                    | LogEntry::Detached { .. }
            )
        };
        for (next, entry) in log.iter().enumerate().skip(at + 1) {
            match entry {
                LogEntry::Replied { message, cost } if message.id == *id => {
                    return Self::of_message(log, next, message, *cost, false);
                }
                entry if ends_request(entry) => break,
                _ => {}
            }
        }
        Self::missing(log, at)
    }

    /// Returns the reply to the detached request at position `at` of the log.
    pub(super) fn of_detached(log: &[LogEntry], at: usize) -> LoggedReply {
        match &log[at] {
            LogEntry::Detached { message, cost, .. } => {
                Self::of_message(log, at, message, *cost, true)
            }
            _ => Self::missing(log, at),
        }
    }

    /// Returns the reply to a detached request that the end of the process cut off.
    pub(super) fn cut_off(until: usize) -> LoggedReply {
        LoggedReply { events: Vec::new(), until, end: None, is_detached: true }
    }

    fn of_message(
        log: &[LogEntry],
        at: usize,
        message: &Message,
        cost: Option<f64>,
        is_detached: bool,
    ) -> LoggedReply {
        let empty = AssistantMessage::default();
        let reply = message.as_assistant().unwrap_or(&empty);
        let end = match reply.stop {
            StopReason::Interrupted | StopReason::Aborted => None,
            // A detached request can only fail because of its model.
            StopReason::Error => {
                model_error(log, at + 1).or_else(|| is_detached.then(unknown_error))
            }
            stop => Some(ModelEvent::Done { stop, usage: reply.usage }),
        };
        let prices = cost.map(|cost| prices(cost, reply));
        let info = ModelInfo { prices, ..ModelInfo::new(reply.model.clone()) };
        let mut events = vec![ModelEvent::AnsweredBy(Arc::new(info))];
        for (block, part) in (0..).zip(&reply.parts) {
            events.extend(block_events(block, part));
        }
        LoggedReply { events, until: at, end, is_detached }
    }

    /// Returns the reply to a request without a reply in the log: it was cut off, or it failed.
    fn missing(log: &[LogEntry], at: usize) -> LoggedReply {
        let is_input = |entry: &LogEntry| {
            matches!(
                entry,
                LogEntry::Queued { .. }
                    | LogEntry::Approved { .. }
                    | LogEntry::Decided { .. }
                    | LogEntry::Withdrawn { .. }
                    | LogEntry::Handled { .. }
                    | LogEntry::Settings { .. }
                    | LogEntry::Owner { .. }
            )
        };
        let next = (at + 1..log.len()).find(|at| !is_input(&log[*at])).unwrap_or(log.len());
        // If a detached request follows, the inputs in between are sent during that request.
        let until =
            if matches!(log.get(next), Some(LogEntry::Detached { .. })) { at + 1 } else { next };
        let reply = |end| LoggedReply { events: Vec::new(), until, end, is_detached: false };
        if let Some(error) = overflow_error(log, next) {
            return reply(Some(error));
        }
        let is_interrupted = log[at + 1..next].iter().any(|entry| {
            matches!(
                entry,
                LogEntry::Queued { kind: QueueKind::Steering, urgency: Urgency::Interrupt, .. }
            )
        });
        let is_cut_off = is_interrupted
            || matches!(
                log.get(next),
                None | Some(LogEntry::AbortRequested { .. } | LogEntry::Opened { .. })
            );
        reply(if is_cut_off { None } else { model_error(log, next) })
    }
}

/// Returns prices that give the reply its logged cost.
fn prices(cost: f64, reply: &AssistantMessage) -> Prices {
    let tokens = reply.usage.total() as f64;
    let each = if tokens > 0.0 { cost * 1e6 / tokens } else { 0.0 };
    Prices::new(each, each).cache(each, each).cache_write_1h(each)
}

fn block_events(block: u32, part: &ContentPart) -> [ModelEvent; 3] {
    let (kind, delta, signature) = match part {
        ContentPart::Text { text, signature } => (BlockKind::Text, text.clone(), signature),
        ContentPart::Thinking { text, signature } => (BlockKind::Thinking, text.clone(), signature),
        ContentPart::ToolCall(call) => {
            let kind = BlockKind::ToolCall { id: call.id.to_string(), name: call.name.to_string() };
            (kind, call.arguments.to_string(), &call.signature)
        }
    };
    [
        ModelEvent::BlockStart { block, kind },
        ModelEvent::Delta { block, delta },
        ModelEvent::BlockEnd { block, signature: signature.clone() },
    ]
}

/// Returns the model's error for an oversized request, if the entry at `next` is the engine's
/// reaction to such an error.
fn overflow_error(log: &[LogEntry], next: usize) -> Option<ModelEvent> {
    let is_overflow = match CompactionStep::at(log, next)? {
        CompactionStep::Replaced { why, .. } => *why == CompactionCause::Overflow,
        CompactionStep::Abandoned { failed } => !failed,
    };
    let error = ModelError::new(ModelErrorKind::ContextOverflow, "the request was too large");
    is_overflow.then_some(ModelEvent::Error(error))
}

/// Returns whether the entry is a request for an answer at a limit.
pub(super) fn wraps_up(entry: &LogEntry) -> bool {
    matches!(entry, LogEntry::RequestStarted { wrap_up: Some(_), .. })
}

fn unknown_error() -> ModelEvent {
    ModelEvent::Error(ModelError::new(
        ModelErrorKind::Network,
        "the request failed, and the log does not say why",
    ))
}

/// Returns the model's error if its failure is logged at or after `at`, or `None` if something else
/// failed.
fn model_error(log: &[LogEntry], at: usize) -> Option<ModelEvent> {
    use LogEntry::{Compacted, Detached, RequestStarted, RunEnded};
    let ends_request = |entry: &&LogEntry| {
        matches!(
            entry,
            RequestStarted { .. } | Detached { .. } | Compacted { .. } | RunEnded { .. }
        )
    };
    let (kind, text) = match log[at..].iter().find(ends_request)? {
        RunEnded { model_error: Some(kind), error, .. } => {
            (*kind, error.as_deref().unwrap_or_default())
        }
        RunEnded { .. } => {
            let mut before = log[..=at].iter().rev();
            let last = before.find(|entry| matches!(entry, RequestStarted { .. }));
            return last.filter(|request| wraps_up(request)).map(|_| unknown_error());
        }
        // The error kind of a failed summary has no effect.
        Compacted { error: Some(error), .. } => (ModelErrorKind::Network, &**error),
        // The pattern handled the error, so the log does not contain it.
        _ => return Some(unknown_error()),
    };
    Some(ModelEvent::Error(ModelError::new(kind, text)))
}
