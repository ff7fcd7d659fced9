//! [`Queue`]: requests, steers and follow-ups, in one order of arrival.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::event::input::{QueueKind, Urgency};
use crate::message::{InputId, Message};
use crate::model::OutputSchema;
use crate::principal::Principal;

/// A message that is not in the conversation yet.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct QueuedMessage {
    pub(crate) input: InputId,
    pub(crate) kind: QueueKind,
    pub(crate) urgency: Urgency,
    pub(crate) message: Arc<Message>,
    pub(crate) output: Option<Arc<OutputSchema>>,
    pub(crate) principal: Option<Principal>,
    /// Length of the log after the message was queued.
    pub(crate) at: u64,
}

/// Queued messages, in order of arrival.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Queue(VecDeque<QueuedMessage>);

impl Queue {
    pub(crate) fn push(&mut self, message: QueuedMessage) {
        self.0.push_back(message);
    }

    /// Puts back a message that was taken before all others.
    pub(crate) fn push_front(&mut self, message: QueuedMessage) {
        self.0.push_front(message);
    }

    pub(crate) fn take(&mut self, input: &InputId) -> Option<QueuedMessage> {
        let at = self.0.iter().position(|w| w.input == *input)?;
        self.0.remove(at)
    }

    /// Takes a request. A message of another kind with the same id stays.
    pub(crate) fn take_request(&mut self, input: &InputId) -> Option<QueuedMessage> {
        let is_it = |w: &QueuedMessage| w.kind == QueueKind::Request && w.input == *input;
        let at = self.0.iter().position(is_it)?;
        self.0.remove(at)
    }

    /// Removes messages and returns them in order of arrival.
    pub(crate) fn remove(&mut self, inputs: &[InputId]) -> Vec<QueuedMessage> {
        if inputs.is_empty() {
            return Vec::new();
        }
        let inputs: HashSet<&InputId> = inputs.iter().collect();
        let (removed, kept): (Vec<_>, Vec<_>) =
            self.0.drain(..).partition(|w| inputs.contains(&w.input));
        self.0 = kept.into();
        removed
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

    /// Returns whether a steer of at least this urgency is queued.
    pub(crate) fn has_steer(&self, at_least: Urgency) -> bool {
        self.of(QueueKind::Steering).any(|w| w.urgency >= at_least)
    }
}
