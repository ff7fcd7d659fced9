//! The tools that the user has allowed for the rest of a session.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

/// Holds the tools that the user has allowed for the rest of a session. Clones share one set.
#[derive(Debug, Clone, Default)]
pub(crate) struct Allowed(Arc<Mutex<HashSet<String>>>);

impl Allowed {
    /// Lets calls of this tool run without approval from now on.
    pub(crate) fn add(&self, tool: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(tool.to_owned());
    }

    /// Returns whether calls of this tool run without approval.
    pub(crate) fn has(&self, tool: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(tool)
    }
}
