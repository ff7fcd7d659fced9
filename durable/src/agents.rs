//! [`Agents`]: the choice of a session's agent.

use async_trait::async_trait;
use loopwright_core::GenericAgent;
use loopwright_core::log::SessionInfo;

use crate::error::ClusterError;

/// The agents of a cluster. A worker gets a session's agent from here when it opens the session.
///
/// A [`GenericAgent`] is the agent of all sessions. With [`agents_from_fn`], a function chooses.
#[async_trait]
pub trait Agents: Send + Sync + 'static {
    /// Returns the agent for a session.
    ///
    /// # Errors
    ///
    /// Fails if the session has no agent. It is left alone, and retried later.
    async fn agent(&self, session: &SessionInfo) -> Result<GenericAgent, ClusterError>;
}

#[async_trait]
impl Agents for GenericAgent {
    async fn agent(&self, _session: &SessionInfo) -> Result<GenericAgent, ClusterError> {
        Ok(self.clone())
    }
}

/// Agents chosen by a function; see [`agents_from_fn`].
pub struct FromFn<F>(F);

/// Chooses agents by a function of the session's description, for example by its
/// [settings](SessionInfo::settings).
///
/// ```
/// use loopwright_core::GenericAgent;
/// use loopwright_durable::{Agents, ClusterError, agents_from_fn};
///
/// fn agents(shepherd: GenericAgent, farmer: GenericAgent) -> impl Agents {
///     agents_from_fn(move |session| {
///         let agent = match session.settings.as_deref().and_then(|it| it["agent"].as_str()) {
///             Some("farmer") => Ok(farmer.clone()),
///             None => Ok(shepherd.clone()),
///             Some(other) => Err(ClusterError::NoAgent(format!("there is no agent `{other}`"))),
///         };
///         async { agent }
///     })
/// }
/// ```
pub fn agents_from_fn<F, R>(choose: F) -> FromFn<F>
where
    F: Fn(SessionInfo) -> R + Send + Sync + 'static,
    R: Future<Output = Result<GenericAgent, ClusterError>> + Send + 'static,
{
    FromFn(choose)
}

#[async_trait]
impl<F, R> Agents for FromFn<F>
where
    F: Fn(SessionInfo) -> R + Send + Sync + 'static,
    R: Future<Output = Result<GenericAgent, ClusterError>> + Send + 'static,
{
    async fn agent(&self, session: &SessionInfo) -> Result<GenericAgent, ClusterError> {
        (self.0)(session.clone()).await
    }
}
