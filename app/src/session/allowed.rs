//! The calls that the user has allowed for the rest of a session.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The tools that only change files.
const EDITS: [&str; 2] = ["edit_file", "write_file"];

/// The calls that the user has allowed for the rest of a session. Clones share one set.
#[derive(Debug, Clone, Default)]
pub(crate) struct Allowed(Arc<Mutex<Rules>>);

#[derive(Debug, Default)]
struct Rules {
    tools: HashSet<String>,
    scope: Scope,
}

/// The calls that run without approval, besides calls of allowed tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Scope {
    /// No further calls.
    #[default]
    Tools,
    /// Changes of files.
    Edits,
    /// All calls.
    All,
}

impl Allowed {
    /// Lets calls of this tool run without approval from now on.
    pub(crate) fn add(&self, tool: &str) {
        self.rules().tools.insert(tool.to_owned());
    }

    /// Sets which other calls run without approval from now on.
    pub(crate) fn set_scope(&self, scope: Scope) {
        self.rules().scope = scope;
    }

    /// Returns whether calls of this tool run without approval.
    pub(crate) fn has(&self, tool: &str) -> bool {
        let rules = self.rules();
        match rules.scope {
            Scope::All => true,
            Scope::Edits if EDITS.contains(&tool) => true,
            _ => rules.tools.contains(tool),
        }
    }

    /// Returns whether the user has allowed this tool by its name.
    pub(crate) fn has_tool(&self, tool: &str) -> bool {
        self.rules().tools.contains(tool)
    }

    fn rules(&self) -> MutexGuard<'_, Rules> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
