//! [`ChildAgent`], an agent that works for calls of another agent.

#[cfg(feature = "testing")]
use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::error::{AgentError, InputError, ToolError};
use crate::event::Parent;
use crate::event::action::ExternalAction;
use crate::event::hub::{EventStream, Subscriber};
use crate::event::input::Decision;
use crate::extensions::Extensions;
use crate::session::handle::AgentHandle;
#[cfg(feature = "testing")]
use crate::session::parts::Parts;
use crate::session::sub_agents::tree::Tree;
#[cfg(feature = "testing")]
use crate::tool::Effect;

/// An agent that works for calls of another agent.
pub(crate) trait ChildAgent: Send + Sync {
    /// Opens a session for a call.
    fn open(
        &self,
        opening: Opening,
    ) -> BoxFuture<'static, Result<(AgentHandle, EventStream), AgentError>>;

    /// Returns the effects of its tools and its sub-agents' tools, by name.
    #[cfg(feature = "testing")]
    fn effects(&self) -> BTreeMap<Arc<str>, Effect>;

    /// Returns the same agent with its models and tools replaced, also in its sub-agents.
    #[cfg(feature = "testing")]
    fn with_parts(&self, parts: &dyn Parts) -> Arc<dyn ChildAgent>;

    /// Returns the change that a call of this agent, or of the sub-agent on this path, would make.
    fn preview<'a>(
        &'a self,
        path: &'a [Arc<str>],
        action: &'a ExternalAction,
    ) -> BoxFuture<'a, Result<Option<String>, ToolError>>;

    /// Checks a decision on an action of this agent, or of the sub-agent on this path. Returns the
    /// decision as it will be carried out.
    fn check(
        &self,
        path: &[Arc<str>],
        action: &ExternalAction,
        decision: &Decision,
    ) -> Result<Decision, InputError>;
}

/// The arguments for opening a session of a sub-agent.
#[derive(Clone)]
pub(crate) struct Opening {
    pub(crate) session: Arc<str>,
    pub(crate) parent: Parent,
    pub(crate) tree: Tree,
    pub(crate) extensions: Extensions,
    pub(crate) subscribers: Vec<Subscriber>,
}
