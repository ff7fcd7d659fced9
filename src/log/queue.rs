//! What waits: requests for their runs, steering, follow-ups. One queue in order of arrival, three
//! lanes.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::log::input::{QueueKind, Urgency};
use crate::message::{InputId, Message};
use crate::model::OutputSchema;

/// A message that waits.
#[derive(Debug, Clone)]
pub(crate) struct Waiting {
    pub(crate) input: InputId,
    pub(crate) lane: QueueKind,
    pub(crate) urgency: Urgency,
    pub(crate) message: Arc<Message>,
    pub(crate) output: Option<Arc<OutputSchema>>,
    /// Where in the log it was queued.
    pub(crate) at: u64,
}

/// Messages that wait, in order of arrival.
#[derive(Default)]
pub(crate) struct Queue(VecDeque<Waiting>);

impl Queue {
    pub(crate) fn push(&mut self, waiting: Waiting) {
        self.0.push_back(waiting);
    }

    pub(crate) fn take(&mut self, input: &InputId) -> Option<Waiting> {
        let at = self.0.iter().position(|w| w.input == *input)?;
        self.0.remove(at)
    }

    pub(crate) fn remove(&mut self, gone: &[InputId]) {
        self.0.retain(|w| !gone.contains(&w.input));
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Waiting> {
        self.0.iter()
    }

    pub(crate) fn lane(&self, lane: QueueKind) -> impl Iterator<Item = &Waiting> {
        self.0.iter().filter(move |w| w.lane == lane)
    }

    pub(crate) fn has(&self, lane: QueueKind) -> bool {
        self.lane(lane).next().is_some()
    }

    /// Texts of a lane, for people.
    pub(crate) fn texts(&self, lane: QueueKind) -> Vec<String> {
        self.lane(lane).map(|w| w.message.text()).collect()
    }

    /// Whether a steer of at least this urgency waits.
    pub(crate) fn steered(&self, at_least: Urgency) -> bool {
        self.lane(QueueKind::Steering).any(|w| w.urgency >= at_least)
    }
}
