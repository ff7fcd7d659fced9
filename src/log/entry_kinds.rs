//! The kinds of entries: inputs, messages, charges, progress, and those that must be durable.

use std::sync::Arc;

use crate::log::entry::LogEntry;
use crate::message::{InputId, Message, Usage};

impl LogEntry {
    /// Returns the tokens and the cost with which the entry charges the session.
    pub(crate) fn charge(&self) -> Option<(Usage, Option<f64>)> {
        match self {
            LogEntry::Replied { message, cost } | LogEntry::Detached { message, cost, .. } => {
                let usage = message.as_assistant().map(|reply| reply.usage);
                Some((usage.unwrap_or_default(), *cost))
            }
            LogEntry::Charged { usage, cost, .. } => Some((*usage, *cost)),
            LogEntry::ChildEnded { used, .. } => Some((used.usage, Some(used.cost))),
            _ => None,
        }
    }

    /// Returns whether the session wrote the entry for an input or its own opening, not for a
    /// pattern.
    pub(crate) fn is_of_input(&self) -> bool {
        use LogEntry::*;
        matches!(
            self,
            Opened { .. }
                | Settings { .. }
                | RunStarted { .. }
                | Queued { .. }
                | Withdrawn { .. }
                | Approved { .. }
                | Decided { .. }
                | AbortRequested { .. }
                | Handled { .. }
                | Owner { .. }
        )
    }

    /// Returns whether the entry is progress. Entries that a crash loop would write again are not.
    pub fn is_progress(&self) -> bool {
        use LogEntry::*;
        !matches!(
            self,
            Opened { .. }
                | Settings { .. }
                | Handled { .. }
                | Owner { .. }
                | RequestStarted { .. }
                | DetachedStarted { .. }
                | NotSent { .. }
                | Charged { .. }
                | CallStarted { .. }
                | ChildStarted { .. }
                | State { .. }
                | Withdrawn { .. }
                | Signalled { .. }
        )
    }

    /// Returns the id of the input that the entry accepts, or `None`.
    pub fn input(&self) -> Option<&InputId> {
        match self {
            LogEntry::Queued { input, .. }
            | LogEntry::Approved { input, .. }
            | LogEntry::Decided { input, .. }
            | LogEntry::AbortRequested { input }
            | LogEntry::Signalled { input, .. }
            | LogEntry::Handled { input } => Some(input),
            _ => None,
        }
    }

    /// Returns the session of the sub-agent that the entry starts, or `None`.
    pub fn sub_agent(&self) -> Option<&Arc<str>> {
        match self {
            LogEntry::ChildStarted { session, .. } => Some(session),
            _ => None,
        }
    }

    /// Returns the message that the entry adds, or `None`. Detached replies and summaries do not
    /// count.
    pub fn message(&self) -> Option<&Arc<Message>> {
        match self {
            LogEntry::Queued { message, .. }
            | LogEntry::Replied { message, .. }
            | LogEntry::Called { message, .. }
            | LogEntry::Remembered { message }
            | LogEntry::CallFinished { result: message } => Some(message),
            _ => None,
        }
    }

    /// Returns whether the entry, and all before it, must be on disk before the append returns,
    /// because the session then acknowledges an input or starts an effect. Other entries may be
    /// flushed later.
    pub fn must_be_durable(&self) -> bool {
        use LogEntry::*;
        matches!(
            self,
            Opened { .. }
                | Queued { .. }
                | Withdrawn { .. }
                | Approved { .. }
                | Decided { .. }
                | AbortRequested { .. }
                | Handled { .. }
                | CallStarted { .. }
                | ChildStarted { .. }
                | RunEnded { .. }
                | Reset
        )
    }
}
