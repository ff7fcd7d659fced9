//! [`Emitted`]: the state of an attempt in decorators that retry.

use loopwright_core::model::ModelEvent;

/// A flag: the attempt has emitted an event that may have to be withdrawn.
#[derive(Debug, Default)]
pub(crate) struct Emitted(bool);

impl Emitted {
    /// Records that `event` is emitted.
    pub(crate) fn note(&mut self, event: &ModelEvent) {
        match event {
            ModelEvent::AnsweredBy(_) | ModelEvent::Retry(_) => {}
            ModelEvent::Withdrawn => self.0 = false,
            _ => self.0 = true,
        }
    }

    /// Returns whether the attempt has emitted an event that may have to be withdrawn.
    pub(crate) fn any(&self) -> bool {
        self.0
    }

    /// Returns the event that withdraws the attempt, if it has emitted any.
    pub(crate) fn withdraw(&mut self) -> Option<ModelEvent> {
        std::mem::take(&mut self.0).then_some(ModelEvent::Withdrawn)
    }
}
