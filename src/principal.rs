//! [`Principal`], the person or service that a session works for.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::extensions::Extensions;

/// The person or service that a session works for.
///
/// A host passes it as a value of the session or of a request, with
/// [`RunContext::with`](crate::RunContext::with) or [`Prompt::with`](crate::event::Prompt::with);
/// the request's takes precedence. Hooks and tools read it with
/// [`HookContext::principal`](crate::hooks::HookContext::principal) and
/// [`ToolContext::principal`](crate::ToolContext::principal).
///
/// Unlike the host's other values, the principal of a request is logged. So a call of the request
/// that is decided later, even in another process, still has it. The session's is not logged: each
/// process that opens the session sets it. Without a principal, data that belongs to one must not
/// be read or written.
///
/// ```
/// use loopwright_core::{Principal, RunContext};
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

    /// Returns the principal's name.
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
