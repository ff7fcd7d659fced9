//! What decorators that ask again remember of an attempt.

use loopwright_core::model::ModelEvent;

/// Whether an attempt has given out something that would have to be withdrawn.
#[derive(Debug, Default)]
pub(crate) struct Emitted(bool);

impl Emitted {
    /// `event` is given out.
    pub(crate) fn note(&mut self, event: &ModelEvent) {
        match event {
            ModelEvent::AnsweredBy(_) => {}
            ModelEvent::Withdrawn => self.0 = false,
            _ => self.0 = true,
        }
    }

    /// The attempt is void: what is to be given out for it, if anything.
    pub(crate) fn withdraw(&mut self) -> Option<ModelEvent> {
        std::mem::take(&mut self.0).then_some(ModelEvent::Withdrawn)
    }
}
