//! [`AgentFactory`]: builds the agent of a session.

use std::sync::Arc;

use async_trait::async_trait;
use loopwright_core::event::ExternalAction;
use loopwright_core::{AgentBuilder, GenericAgent, ToolError};

use super::setup::AgentSetup;
use crate::rejection::AgentRejection;
use crate::settings::SessionSettings;

/// A factory that builds an agent for each session and each request.
///
/// A function or a closure `Fn(&AgentSetup) -> Result<AgentBuilder, AgentRejection>` implements it.
/// The host then adds the limits and approvals of the settings to the returned builder (see
/// [`AgentSetup::apply`]). Settings that such an agent does not have, such as a `pattern`, are
/// rejected. So is a `system` prompt, unless the function calls [`AgentSetup::system`].
///
/// A [`GenericAgent`] implements it too: every session then has that one agent, and its settings
/// are ignored.
///
/// ```
/// use loopwright_core::testing::{Script, ScriptedModel};
/// use loopwright_core::{AgentBuilder, GenericAgent};
/// use loopwright_host::{AgentFactory, AgentRejection, AgentSetup, SessionSettings};
/// use loopwright_patterns::PiPattern;
///
/// fn support(_: &AgentSetup) -> Result<AgentBuilder, AgentRejection> {
///     let model = ScriptedModel::new([Script::text("It is paid.")]);
///     Ok(GenericAgent::builder(model, PiPattern).system("You help with invoices."))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut settings = SessionSettings::new();
/// settings.pattern = Some("react".into()); // this agent has one loop
/// let rejection = support.build(&AgentSetup::new(settings)).await.err().unwrap();
/// assert_eq!(rejection.path(), Some("/pattern"));
/// # Ok(()) }
/// ```
#[async_trait]
pub trait AgentFactory: Send + Sync {
    /// Builds the agent.
    ///
    /// It is called when a session is created, and each time it is opened again, possibly by
    /// another process: it should return an equivalent agent for equal settings. It may be called
    /// concurrently. Its future is dropped when the client closes the connection, so it must not
    /// leave anything behind that only a completed call cleans up.
    ///
    /// # Errors
    /// Returns an [`AgentRejection`] for the client if there is no agent with these settings.
    async fn build(&self, setup: &AgentSetup) -> Result<GenericAgent, AgentRejection>;

    /// Returns the settings of a session, completed with their defaults, for lists of sessions. It
    /// must not do I/O. By default it returns the settings unchanged.
    fn with_defaults(&self, settings: SessionSettings) -> SessionSettings {
        settings
    }

    /// Returns the commands of a session's agent, such as `/plan`. A request that begins with one
    /// runs it. Front ends offer the commands. The command that distils facts (`DISTIL_COMMAND` of
    /// the crate `loopwright-memory`) is also sent when a session ends, if its settings ask for it.
    /// `settings` are completed with their defaults. It must not do I/O. By default there are no
    /// commands.
    fn commands(&self, _settings: &SessionSettings) -> Vec<&'static str> {
        Vec::new()
    }

    /// Returns the change to a file that a pending call of the agent, or of a sub-agent, would
    /// make. It is a unified diff for the user who decides, or `None` if the arguments show
    /// everything. It must not change anything.
    ///
    /// By default it builds the agent and asks its tools ([`GenericAgent::preview`]). Another
    /// implementation returns the same text as the tool
    /// ([`Tool::preview`](loopwright_core::Tool::preview)): an approval of what was shown runs the
    /// call only if its tool still returns that change.
    ///
    /// # Errors
    /// Returns an [`AgentRejection`] whose message tells the user why there is no preview, for
    /// example because the call would fail.
    async fn preview(
        &self,
        setup: &AgentSetup,
        action: &ExternalAction,
    ) -> Result<Option<String>, AgentRejection> {
        let agent = self.build(setup).await?;
        agent.preview(action).await.map_err(|why| AgentRejection::bad_request("", sentence(&why)))
    }
}

#[async_trait]
impl AgentFactory for GenericAgent {
    async fn build(&self, _: &AgentSetup) -> Result<GenericAgent, AgentRejection> {
        Ok(self.clone())
    }
}

#[async_trait]
impl<A: AgentFactory + ?Sized> AgentFactory for Arc<A> {
    async fn build(&self, setup: &AgentSetup) -> Result<GenericAgent, AgentRejection> {
        (**self).build(setup).await
    }

    fn with_defaults(&self, settings: SessionSettings) -> SessionSettings {
        (**self).with_defaults(settings)
    }

    fn commands(&self, settings: &SessionSettings) -> Vec<&'static str> {
        (**self).commands(settings)
    }

    async fn preview(
        &self,
        setup: &AgentSetup,
        action: &ExternalAction,
    ) -> Result<Option<String>, AgentRejection> {
        (**self).preview(setup, action).await
    }
}

#[async_trait]
impl<F> AgentFactory for F
where
    F: Fn(&AgentSetup) -> Result<AgentBuilder, AgentRejection> + Send + Sync,
{
    async fn build(&self, setup: &AgentSetup) -> Result<GenericAgent, AgentRejection> {
        setup.reject_unused()?;
        let builder = self(setup)?;
        setup.reject_unused_system()?;
        Ok(setup.apply(builder)?.build()?)
    }
}

/// Returns the reason for a missing preview, as a sentence.
fn sentence(why: &ToolError) -> String {
    let why = why.to_string();
    if why.ends_with('.') { why } else { format!("{why}.") }
}
