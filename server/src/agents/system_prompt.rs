//! [`SystemPrompt`]: the system prompt of an app or a server.

use std::fmt;
use std::sync::Arc;

use super::setup::AgentSetup;

/// Computes a prompt for a session or a request.
type Compute = dyn Fn(&AgentSetup) -> String + Send + Sync;

/// Holds the system prompt of sessions that have none of their own: a text, or a function
/// `Fn(&AgentSetup) -> String` that computes it from the settings and the principal.
///
/// ```
/// use loopwright_server::{AgentSetup, SystemPrompt};
///
/// let text = SystemPrompt::from("You help with invoices.");
/// let computed = SystemPrompt::from(|setup: &AgentSetup| match setup.principal() {
///     Some(user) => format!("You help {user} with invoices."),
///     None => "You help with invoices.".to_owned(),
/// });
/// # let _ = (text, computed);
/// ```
#[derive(Clone)]
pub struct SystemPrompt(Arc<Compute>);

impl SystemPrompt {
    /// Returns the prompt for this setup.
    pub(super) fn of(&self, setup: &AgentSetup) -> String {
        (self.0)(setup)
    }
}

impl From<&str> for SystemPrompt {
    fn from(text: &str) -> Self {
        SystemPrompt::from(text.to_owned())
    }
}

impl From<String> for SystemPrompt {
    fn from(text: String) -> Self {
        SystemPrompt(Arc::new(move |_| text.clone()))
    }
}

impl From<Arc<str>> for SystemPrompt {
    fn from(text: Arc<str>) -> Self {
        SystemPrompt(Arc::new(move |_| text.to_string()))
    }
}

impl<F> From<F> for SystemPrompt
where
    F: Fn(&AgentSetup) -> String + Send + Sync + 'static,
{
    fn from(compute: F) -> Self {
        SystemPrompt(Arc::new(compute))
    }
}

impl fmt::Debug for SystemPrompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SystemPrompt").finish_non_exhaustive()
    }
}
