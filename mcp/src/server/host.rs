//! [`SessionHost`]: what an MCP server serves, and the sessions it works in.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use loopwright_core::agent::InputError;
use loopwright_core::event::{Envelope, ExternalAction, InputEvent, RunOutcome};
use loopwright_core::tool::ToolSpec;

/// Describes a tool that an MCP server lists.
#[derive(Clone)]
#[non_exhaustive]
pub struct ServedTool {
    /// The name, by which a client calls it.
    pub name: Arc<str>,
    /// The description for the client's model.
    pub description: String,
    /// The tool of an agent that is called, without a model: its session gets the arguments as a
    /// request whose text is JSON. `None` if the agent itself is called: its session gets the
    /// message, and the result is the reply.
    pub spec: Option<Arc<ToolSpec>>,
}

impl ServedTool {
    /// Serves an agent. Its arguments are a message and the id of a session.
    pub fn agent(name: impl Into<Arc<str>>, description: impl Into<String>) -> Self {
        ServedTool { name: name.into(), description: description.into(), spec: None }
    }

    /// Serves a tool of an agent, with the tool's own name, description and schema.
    pub fn tool(spec: Arc<ToolSpec>) -> Self {
        let (name, description) = (spec.name.clone(), spec.description.clone());
        ServedTool { name, description, spec: Some(spec) }
    }
}

/// Opens the sessions in which an MCP server carries out calls.
///
/// # Contract
///
/// [`tools`](SessionHost::tools) must return the same tools each time.
/// [`open`](SessionHost::open) must refuse a session that the client may not continue: the id comes
/// from the client.
#[async_trait]
pub trait SessionHost: Send + Sync {
    /// Returns the tools to list.
    fn tools(&self) -> Vec<ServedTool>;

    /// Opens the session of this id for a tool, creating it if it does not exist, or a new one
    /// with a random id.
    ///
    /// # Errors
    ///
    /// Returns a sentence for the client.
    async fn open(&self, tool: &str, session: Option<&str>)
    -> Result<Box<dyn HostSession>, String>;

    /// Returns a sentence that says how a pending action is decided if the client cannot ask its
    /// user.
    fn how_to_decide(&self, session: &str, action: &ExternalAction) -> String;
}

/// Represents an open session of a [`SessionHost`].
#[async_trait]
pub trait HostSession: Send + Sync {
    /// Returns the id of the session.
    fn id(&self) -> &str;

    /// Sends an input to the session, and resolves when it is durable.
    ///
    /// # Errors
    ///
    /// Fails if the input is refused; nothing has changed then.
    async fn send(&self, input: InputEvent) -> Result<(), InputError>;

    /// Waits for the next event since the session was opened. Returns `None` when the session has
    /// ended, or another process has taken it over. Dropping the future must lose no event.
    async fn next(&mut self) -> Option<Arc<Envelope>>;

    /// Resolves when no run is in progress and none is about to start.
    fn idle(&self) -> BoxFuture<'static, ()>;

    /// Returns the pending actions.
    async fn pending(&self) -> Result<Vec<ExternalAction>, InputError>;

    /// Returns the outcome of the last run of the session, or `None` if there was none.
    async fn last_outcome(&self) -> Result<Option<Arc<RunOutcome>>, String>;

    /// Returns the change that a pending call would make, as a unified diff, if it has one.
    async fn preview(&self, action: &ExternalAction) -> Option<String> {
        let _ = action;
        None
    }

    /// Lets go of the session, so that another process can open it.
    async fn close(self: Box<Self>);
}
