//! [`SessionHost`]: the tools of an MCP server, and the sessions for its calls.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use loopwright_core::agent::InputError;
use loopwright_core::event::{Envelope, ExternalAction, InputEvent, RunOutcome};
use loopwright_core::tool::ToolSpec;

/// A tool that an MCP server lists.
#[derive(Clone)]
#[non_exhaustive]
pub struct ServedTool {
    /// The name by which a client calls the tool.
    pub name: Arc<str>,
    /// The description for the client's model.
    pub description: String,
    /// The tool to call without a model: its session gets the arguments as a request whose text is
    /// JSON. `None` to call the agent itself: its session gets the message, and the result is the
    /// reply.
    pub spec: Option<Arc<ToolSpec>>,
}

impl ServedTool {
    /// Returns a tool that calls an agent. Its arguments are a message and the id of a session.
    pub fn agent(name: impl Into<Arc<str>>, description: impl Into<String>) -> Self {
        ServedTool { name: name.into(), description: description.into(), spec: None }
    }

    /// Returns a tool that calls a tool of an agent, with the same name, description and schema.
    pub fn tool(spec: Arc<ToolSpec>) -> Self {
        let (name, description) = (spec.name.clone(), spec.description.clone());
        ServedTool { name, description, spec: Some(spec) }
    }
}

/// The source of the sessions in which an MCP server carries out calls.
///
/// # Contract
///
/// [`tools`](SessionHost::tools) must return the same tools each time. The id of a session comes
/// from the client, so [`open`](SessionHost::open) must refuse sessions that the client may not
/// continue.
#[async_trait]
pub trait SessionHost: Send + Sync {
    /// Returns the tools to list.
    fn tools(&self) -> Vec<ServedTool>;

    /// Opens the session of this id for a tool, and creates it if it does not exist. Opens a new
    /// session with a random id if `session` is `None`.
    ///
    /// # Errors
    ///
    /// Returns a sentence for the client.
    async fn open(&self, tool: &str, session: Option<&str>)
    -> Result<Box<dyn HostSession>, String>;

    /// Returns a sentence that tells how to decide a pending action if the client cannot ask its
    /// user.
    fn how_to_decide(&self, session: &str, action: &ExternalAction) -> String;
}

/// An open session of a [`SessionHost`].
#[async_trait]
pub trait HostSession: Send + Sync {
    /// Returns the id of the session.
    fn id(&self) -> &str;

    /// Sends an input to the session. Resolves when the input is durable.
    ///
    /// # Errors
    ///
    /// Fails if the input is refused. The session is then unchanged.
    async fn send(&self, input: InputEvent) -> Result<(), InputError>;

    /// Waits for the next event since the session was opened. Returns `None` when the session has
    /// ended or moved to another process. Dropping the future must not lose an event.
    async fn next(&mut self) -> Option<Arc<Envelope>>;

    /// Resolves when no run is in progress or about to start.
    fn idle(&self) -> BoxFuture<'static, ()>;

    /// Returns the pending actions.
    async fn pending(&self) -> Result<Vec<ExternalAction>, InputError>;

    /// Returns the outcome of the last run of the session, or `None` before the first run has
    /// ended.
    async fn last_outcome(&self) -> Result<Option<Arc<RunOutcome>>, String>;

    /// Returns the change that a pending call would make, as a unified diff. Returns `None` if
    /// there is no preview.
    async fn preview(&self, action: &ExternalAction) -> Option<String> {
        let _ = action;
        None
    }

    /// Releases the session, so that another process can open it.
    async fn close(self: Box<Self>);
}
