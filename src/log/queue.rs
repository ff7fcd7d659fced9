//! Queued messages: requests for their runs, steers and follow-ups, in one order of arrival.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::log::input::{QueueKind, Urgency};
use crate::message::{InputId, Message};
use crate::model::OutputSchema;

/// Holds a message that is not in the conversation yet.
#[derive(Debug, Clone)]
pub(crate) struct QueuedMessage {
    pub(crate) input: InputId,
    pub(crate) kind: QueueKind,
    pub(crate) urgency: Urgency,
    pub(crate) message: Arc<Message>,
    pub(crate) output: Option<Arc<OutputSchema>>,
    /// The length of the log after it was queued.
    pub(crate) at: u64,
}

/// Queued messages, in order of arrival.
#[derive(Default)]
pub(crate) struct Queue(VecDeque<QueuedMessage>);

impl Queue {
    pub(crate) fn push(&mut self, message: QueuedMessage) {
        self.0.push_back(message);
    }

    /// Puts back a message that was taken first.
    pub(crate) fn push_front(&mut self, message: QueuedMessage) {
        self.0.push_front(message);
    }

    pub(crate) fn take(&mut self, input: &InputId) -> Option<QueuedMessage> {
        let at = self.0.iter().position(|w| w.input == *input)?;
        self.0.remove(at)
    }

    pub(crate) fn remove(&mut self, inputs: &[InputId]) {
        self.0.retain(|w| !inputs.contains(&w.input));
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &QueuedMessage> {
        self.0.iter()
    }

    pub(crate) fn of(&self, kind: QueueKind) -> impl Iterator<Item = &QueuedMessage> {
        self.0.iter().filter(move |w| w.kind == kind)
    }

    pub(crate) fn has(&self, kind: QueueKind) -> bool {
        self.of(kind).next().is_some()
    }

    /// Returns the texts of one kind, for people.
    pub(crate) fn texts(&self, kind: QueueKind) -> Vec<String> {
        self.of(kind).map(|w| w.message.text()).collect()
    }

    /// Returns whether a steer of at least this urgency is queued.
    pub(crate) fn has_steer(&self, at_least: Urgency) -> bool {
        self.of(QueueKind::Steering).any(|w| w.urgency >= at_least)
    }
}
