//! [`GenericAgent`]: an agent, and how its sessions begin.

pub(crate) mod builder;
pub(crate) mod run;
pub(crate) mod task;

pub use crate::environment::{Environment, SystemEnvironment};
pub use crate::error::{AgentError, InputError};
pub use crate::extensions::Extensions;
pub use crate::limits::{Limit, Limits};
pub use crate::session::config::WhileAwaiting;
pub use crate::session::handle::AgentHandle;
pub use crate::session::state::AgentState;
pub use builder::AgentBuilder;

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::mpsc;

use crate::agent::task::Task;
use crate::error::MemoryError;
use crate::log::event::Parent;
use crate::log::memory::{InMemory, Memory};
use crate::log::store::SessionStore;
use crate::pattern::BehaviorPattern;
use crate::session::Session;
use crate::session::config::Config;
use crate::session::hub::{EventStream, Hub, Subscriber};

/// An agent: a model, a behaviour pattern, tools and rules. One agent serves any number of
/// sessions; clones are cheap and the same agent.
#[derive(Clone)]
pub struct GenericAgent {
    pub(crate) config: Arc<Config>,
    pub(crate) pattern: Arc<dyn BehaviorPattern>,
}

impl GenericAgent {
    /// Opens a session and starts its task: the input/output event loop. Gives a handle for what
    /// goes in and a stream of what comes out, from the very first event.
    ///
    /// The session's log is read here, once. What waits in it begins at once; a run that a crash
    /// interrupted is told by
    /// [`AgentState::interrupted_run`](crate::agent::AgentState::interrupted_run) and goes on with
    /// [`AgentHandle::continue_run`]. Must be called in a tokio runtime with time enabled.
    pub async fn run(&self, cx: RunContext) -> Result<(AgentHandle, EventStream), AgentError> {
        let RunContext { session, memory, settings, extensions, parent } = cx;
        let id =
            session.unwrap_or_else(|| format!("s{:016x}", self.config.environment.random()).into());
        let (commands, from_handles) = mpsc::unbounded_channel();
        let (to_session, from_task) = mpsc::unbounded_channel();
        let mut hub = Hub::new(id.clone(), parent.map(Arc::new), self.config.environment.clone());
        let (subscriber, stream) = Subscriber::new(false);
        hub.subscribe(subscriber);
        let mut session = Session::new(self.config.clone(), hub, id, memory, from_task);
        session.extensions = extensions.clone();
        session.open(settings).await?;
        let mut task =
            Task::new(session, self.pattern.clone(), from_handles, to_session, extensions);
        tokio::spawn(async move { task.run().await });
        Ok((AgentHandle { commands }, stream))
    }
}

/// What a session begins with.
pub struct RunContext {
    session: Option<Arc<str>>,
    memory: Arc<dyn Memory>,
    settings: Option<Arc<Value>>,
    extensions: Extensions,
    parent: Option<Parent>,
}

impl Default for RunContext {
    fn default() -> Self {
        let memory = Arc::new(InMemory::new());
        RunContext {
            session: None,
            memory,
            settings: None,
            extensions: Extensions::new(),
            parent: None,
        }
    }
}

impl RunContext {
    /// A new session with an id of chance, kept in RAM.
    pub fn new() -> Self {
        Self::default()
    }

    /// The session's id.
    pub fn session(mut self, id: impl Into<Arc<str>>) -> Self {
        self.session = Some(id.into());
        self
    }

    /// Where the session is kept. What is in it is gone on with.
    pub fn memory(mut self, memory: impl Memory + 'static) -> Self {
        self.memory = Arc::new(memory);
        self
    }

    /// The same, for a memory that a store has opened.
    pub fn shared_memory(mut self, memory: Arc<dyn Memory>) -> Self {
        self.memory = memory;
        self
    }

    /// A session of a store, which is opened here: it is this one's until its stream of events has
    /// ended.
    pub async fn stored(
        self,
        store: &dyn SessionStore,
        session: impl Into<Arc<str>>,
    ) -> Result<Self, MemoryError> {
        let session = session.into();
        let memory = store.open(&session).await?;
        Ok(self.session(session).shared_memory(memory))
    }

    /// What the host needs to open the session again, such as which model and directory; never a
    /// key. It is kept in the log where it differs from what is there, and found in
    /// [`SessionInfo`](crate::log::SessionInfo) and [`AgentState`].
    pub fn settings(mut self, settings: impl Into<Value>) -> Self {
        self.settings = Some(Arc::new(settings.into()));
        self
    }

    /// A value for tools, hooks, predicates and the pattern, found by its type; never logged and
    /// never sent to a model.
    pub fn with<T: std::any::Any + Send + Sync>(mut self, value: T) -> Self {
        self.extensions = self.extensions.with(value);
        self
    }

    /// For a sub-agent: whose call it works for. Its events say so.
    pub fn parent(mut self, parent: Parent) -> Self {
        self.parent = Some(parent);
        self
    }
}
