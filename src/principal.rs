//! [`Principal`]: who a session works for.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::extensions::Extensions;

/// Names the person or service that a session works for.
///
/// A host passes it as a value of the session or of a request, with
/// [`RunContext::with`](crate::RunContext::with) or [`Prompt::with`](crate::event::Prompt::with);
/// that of a request takes precedence. Hooks and tools read it with
/// [`HookContext::principal`](crate::hooks::HookContext::principal) and
/// [`ToolContext::principal`](crate::ToolContext::principal).
///
/// Unlike other values of the host, that of a request is in the log: a call of the request that is
/// decided later, in another process too, has it. That of the session is not, so each process that
/// opens the session sets it. If there is none, nothing that belongs to one may be read or written.
///
/// ```
/// use loopwright_core::RunContext;
/// use loopwright_core::agent::Principal;
///
/// let ann = Principal::new("ann");
/// assert_eq!(ann.to_string(), "ann");
/// let cx = RunContext::new().with(ann);
/// # let _ = cx;
/// ```
#[derive(
    Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Principal(Arc<str>);

impl Principal {
    /// Builds a principal from its name, which must identify it among all principals of the host.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Principal(name.into())
    }

    /// Returns its name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the principal among the host's values.
    pub(crate) fn of(extensions: &Extensions) -> Option<&Principal> {
        extensions.get()
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
