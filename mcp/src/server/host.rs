//! [`SessionHost`]: the tools of an MCP server, and the sessions for its calls.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use loopwright_core::event::{ExternalAction, RunOutcome};
use loopwright_core::log::SessionLog;
use loopwright_core::session::EventReader;
use loopwright_core::tool::ToolSpec;
use loopwright_core::{AgentEvent, AgentHandle, EventStream, SessionStore};

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
    async fn open(&self, tool: &str, session: Option<&str>) -> Result<HostSession, String>;

    /// Returns a sentence that tells how to decide a pending action if the client cannot ask its
    /// user.
    fn how_to_decide(&self, session: &str, action: &ExternalAction) -> String;
}

/// The preview of a pending call.
type Preview = dyn Fn(ExternalAction) -> BoxFuture<'static, Option<String>> + Send + Sync;

/// A session that a [`SessionHost`] has opened for a call.
pub struct HostSession {
    pub(super) handle: AgentHandle,
    pub(super) events: EventReader,
    store: Arc<dyn SessionStore>,
    preview: Option<Box<Preview>>,
    is_temporary: bool,
}

impl HostSession {
    /// Builds a session from its handle, its events since it was opened, and the store that has its
    /// log.
    pub fn new(handle: AgentHandle, events: EventStream, store: Arc<dyn SessionStore>) -> Self {
        let events = EventReader::new(handle.clone(), events, store.clone());
        HostSession { handle, events, store, preview: None, is_temporary: false }
    }

    /// Sets the function that returns the change that a pending call would make, as a unified diff,
    /// or `None` if there is no preview. An approval of it runs the call only if the tool's own
    /// preview is still of the same change.
    pub fn preview<P>(
        mut self,
        preview: impl Fn(ExternalAction) -> P + Send + Sync + 'static,
    ) -> Self
    where
        P: Future<Output = Option<String>> + Send + 'static,
    {
        self.preview = Some(Box::new(move |action| preview(action).boxed()));
        self
    }

    /// Deletes the session after a call that leaves no pending action.
    pub fn temporary(mut self) -> Self {
        self.is_temporary = true;
        self
    }

    pub(super) fn id(&self) -> &str {
        self.handle.id()
    }

    /// Returns the outcome of the last run, or `None` before the first run has ended.
    pub(super) async fn last_outcome(&self) -> Result<Option<Arc<RunOutcome>>, String> {
        let log = self.store.read(self.id(), 0).await;
        let log = log.map_err(|why| format!("The session cannot be read: {why}."))?;
        let events = SessionLog::events(self.id(), &log).into_iter().rev();
        Ok(events.map(|event| event.event).find_map(|event| match event {
            AgentEvent::AgentEnd(outcome) => Some(outcome),
            _ => None,
        }))
    }

    pub(super) async fn preview_of(&self, action: &ExternalAction) -> Option<String> {
        self.preview.as_ref()?(action.clone()).await
    }

    /// Releases the session, so that another process can open it.
    pub(super) async fn close(self) {
        let is_done = self.handle.pending().await.is_ok_and(|pending| pending.is_empty());
        self.handle.close().await;
        if self.is_temporary
            && is_done
            && let Err(error) = self.store.delete(self.id()).await
        {
            tracing::warn!(session = self.id(), %error, "a temporary session was not deleted");
        }
    }
}
