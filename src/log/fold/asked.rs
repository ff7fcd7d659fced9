//! What the session asks of the fold. Nothing here changes it.

use std::sync::Arc;

use super::Fold;
use crate::log::calls::{Call, Phase};
use crate::log::event::ExternalAction;
use crate::log::queue::QueuedMessage;
use crate::message::{CallId, InputId, Message, MessageKind};

/// What a model could say next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tail {
    /// Nothing: nobody has said anything.
    Empty,
    /// Nothing: it has said all.
    Replied,
    /// An answer.
    Answerable,
}

impl Fold {
    /// An id for an input that came without one.
    pub(crate) fn make_input_id(&self) -> InputId {
        let mut ids = (self.inputs.len() as u64 + 1..).map(|n| InputId::from(format!("input-{n}")));
        ids.find(|id| !self.inputs.contains(id)).unwrap_or_else(|| "input".into())
    }

    pub(crate) fn has_seen(&self, input: &InputId) -> bool {
        self.inputs.contains(input)
    }

    /// The provider's id where it is a new one, else one of our own.
    pub(crate) fn unique_call_id(&self, given: &CallId, taken: &[CallId]) -> CallId {
        let free =
            |id: &CallId| !id.is_empty() && !self.call_ids.contains(id) && !taken.contains(id);
        if free(given) {
            return given.clone();
        }
        let stem = if given.is_empty() { "call" } else { given };
        let mut ids =
            (self.call_ids.len() as u64 + 1..).map(|n| CallId::from(format!("{stem}_{n}")));
        ids.find(free).unwrap_or_else(|| given.clone())
    }

    /// Whether the message came after the question that is open: only then can it be meant instead
    /// of an answer.
    pub(crate) fn is_after_question(&self, message: &QueuedMessage) -> bool {
        self.batch.as_ref().is_some_and(|batch| message.at > batch.asked_at)
    }

    /// Whether a call of the open batch was put to the outside.
    pub(crate) fn has_asked(&self) -> bool {
        self.batch.as_ref().is_some_and(|batch| batch.asked_at > 0)
    }

    /// Returns every message that is not in the conversation yet: the request of the current run
    /// first, then the queue.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &QueuedMessage> {
        self.undelivered.iter().chain(self.queue.iter())
    }

    pub(crate) fn calls(&self) -> &[Call] {
        self.batch.as_ref().map_or(&[], |batch| &batch.calls)
    }

    pub(crate) fn call(&self, id: &str) -> Option<&Call> {
        self.calls().iter().find(|c| *c.call.id == *id)
    }

    /// Calls that wait for the outside, in source order.
    pub(crate) fn pending(&self) -> impl Iterator<Item = &Arc<ExternalAction>> {
        self.calls().iter().filter_map(|c| {
            if let Phase::Awaiting(action) = &c.phase { Some(action) } else { None }
        })
    }

    pub(crate) fn tail(&self) -> Tail {
        match self.context.last().map(|m| &m.body) {
            None => Tail::Empty,
            Some(MessageKind::Assistant(_)) => Tail::Replied,
            Some(_) => Tail::Answerable,
        }
    }

    pub(crate) fn last_reply(&self) -> Option<&Arc<Message>> {
        self.history.iter().rev().find(|m| matches!(m.body, MessageKind::Assistant(_)))
    }
}
