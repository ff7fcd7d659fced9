//! The ids of the inputs that a session has accepted.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::message::InputId;

/// The ids of all inputs. Clones share them, so that an input can be recognised while a pattern has
/// the session.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct SeenInputs(Arc<Mutex<HashSet<InputId>>>);

impl SeenInputs {
    pub(crate) fn insert(&self, input: InputId) {
        self.ids().insert(input);
    }

    pub(crate) fn clear(&self) {
        self.ids().clear();
    }

    pub(crate) fn contains(&self, input: &InputId) -> bool {
        self.ids().contains(input)
    }

    /// Returns the client's id of an input if an input with this id was accepted before.
    pub(crate) fn known(&self, input: Option<&InputId>) -> Option<InputId> {
        input.filter(|input| self.contains(input)).cloned()
    }

    /// Returns an id that no input has.
    pub(crate) fn make_id(&self) -> InputId {
        let ids = self.ids();
        let mut new = (ids.len() as u64 + 1..).map(|n| InputId::from(format!("input-{n}")));
        new.find(|id| !ids.contains(id)).unwrap_or_else(|| "input".into())
    }

    fn ids(&self) -> MutexGuard<'_, HashSet<InputId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
