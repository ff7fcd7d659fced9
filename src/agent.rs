//! [`GenericAgent`], an agent, and the start of its sessions.

mod attached;
pub(crate) mod builder;
mod child;
mod due;
pub(crate) mod pass;
mod prompt;
pub(crate) mod run;
pub(crate) mod task;
mod variant;

pub use crate::error::{AgentError, InputError};
pub use attached::attach;
pub use builder::AgentBuilder;
pub use prompt::PromptError;

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{self, BoxFuture};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::agent::task::Task;
use crate::error::{MemoryError, ToolError};
use crate::event::Parent;
use crate::event::action::ExternalAction;
use crate::event::hub::{EventStream, Hub, Scope, Subscriber};
use crate::extensions::Extensions;
use crate::limits::Budget;
use crate::log::in_memory_store::InMemoryStore;
use crate::log::memory::{InMemory, Memory};
use crate::log::store::SessionStore;
use crate::model::ModelInfo;
use crate::pattern::BehaviorPattern;
use crate::principal::Principal;
use crate::session::Session;
use crate::session::config::Config;
use crate::session::handle::AgentHandle;
#[cfg(feature = "testing")]
use crate::session::parts::Parts;
use crate::session::request::shared_budget::SharedBudget;
use crate::session::sub_agents::tree::Tree;
use crate::tool::{NeedsApproval, ToolSpec};

/// An agent: a model, a behaviour pattern, tools and rules. One agent serves any number of
/// sessions. Clones are cheap and share the agent.
#[derive(Clone)]
pub struct GenericAgent {
    pub(crate) config: Arc<Config>,
    pub(crate) pattern: Arc<dyn BehaviorPattern>,
}

impl GenericAgent {
    /// Returns the same agent with this budget for each run, besides its own
    /// [`Limits::run`](crate::limits::Limits::run): of the two, the smaller bound applies. For
    /// hosts that run other people's agents.
    ///
    /// ```
    /// use loopwright_core::limits::{Budget, Limit, Resource};
    /// # use loopwright_core::{BehaviorPattern, StepContext, StepEnd, StepError};
    /// # use loopwright_core::testing::{Script, ScriptedModel};
    /// # struct Once;
    /// # #[async_trait::async_trait]
    /// # impl BehaviorPattern for Once {
    /// #     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
    /// #         step.take_input().await?;
    /// #         step.ask().await?.finish()
    /// #     }
    /// # }
    /// use loopwright_core::GenericAgent;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let agent = GenericAgent::builder(ScriptedModel::new([Script::text("Hi.")]), Once).build()?;
    /// let bounded = agent.with_run_budget(&Budget::default().turns(0));
    /// let handle = bounded.session().await?;
    /// let outcome = handle.prompt("Hello").await?;
    /// assert_eq!(outcome.limit, Some(Limit::Run(Resource::Turns)));
    /// # Ok(()) }
    /// ```
    pub fn with_run_budget(&self, budget: &Budget) -> GenericAgent {
        let mut config = (*self.config).clone();
        config.limits.run = config.limits.run.min(budget);
        GenericAgent { config: config.into(), pattern: self.pattern.clone() }
    }

    /// Returns the same agent with this budget for each session, besides its own
    /// [`Limits::session`](crate::limits::Limits::session): of the two, the smaller bound applies.
    /// Earlier usage of a session counts.
    pub fn with_session_budget(&self, budget: &Budget) -> GenericAgent {
        let mut config = (*self.config).clone();
        config.limits.session = config.limits.session.min(budget);
        GenericAgent { config: config.into(), pattern: self.pattern.clone() }
    }

    /// Opens a session of a store, and continues or starts it: [`GenericAgent::run`] with
    /// [`RunContext::stored`]. [`AgentHandle::subscribe`] returns its events.
    ///
    /// ```
    /// use loopwright_core::GenericAgent;
    /// use loopwright_core::log::InMemoryStore;
    /// # use loopwright_core::{BehaviorPattern, StepContext, StepEnd, StepError};
    /// # use loopwright_core::testing::{Script, ScriptedModel};
    /// # struct Once;
    /// # #[async_trait::async_trait]
    /// # impl BehaviorPattern for Once {
    /// #     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
    /// #         step.take_input().await?;
    /// #         step.ask().await?.finish()
    /// #     }
    /// # }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let store = InMemoryStore::new();
    /// let agent = GenericAgent::builder(ScriptedModel::new([Script::text("Hi.")]), Once).build()?;
    /// let session = agent.open(&store, "holiday").await?;
    /// assert_eq!(session.prompt("Hello").await?.text, "Hi.");
    /// session.close().await;
    ///
    /// let session = agent.open(&store, "holiday").await?;
    /// assert_eq!(session.state().await?.messages.len(), 2);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Fails as [`SessionStore::open`] and [`GenericAgent::run`] do.
    pub async fn open(
        &self,
        store: &(impl SessionStore + Clone + 'static),
        session: impl AsRef<str>,
    ) -> Result<AgentHandle, AgentError> {
        let (handle, _) = self.run(RunContext::new().stored(store, session).await?).await?;
        Ok(handle)
    }

    /// Starts a session in memory, which is lost when it ends.
    ///
    /// # Errors
    ///
    /// Fails as [`GenericAgent::run`] does.
    pub async fn session(&self) -> Result<AgentHandle, AgentError> {
        let (handle, _) = self.run(RunContext::new()).await?;
        Ok(handle)
    }

    /// Opens a session and starts its task, which runs the input/output event loop. Returns a
    /// handle for inputs and a stream with all events from the start. [`GenericAgent::open`] and
    /// [`GenericAgent::session`] are shorter.
    ///
    /// The session's log is read once, here. Queued requests in it start at once. A run that a
    /// crash interrupted is reported by [`AgentHandle::state`] as
    /// [`interrupted_run`](crate::session::AgentState::interrupted_run), and
    /// [`AgentHandle::continue_run`] resumes it.
    ///
    /// The session ends when the last handle is dropped and the run in progress has ended.
    ///
    /// # Errors
    ///
    /// Fails if
    ///
    /// - the session's memory cannot be read or written,
    /// - the session belongs to a sub-agent, or
    /// - the agent has sub-agents but the memory does not come from a store.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime, or if time is not enabled in it.
    pub async fn run(&self, cx: RunContext) -> Result<(AgentHandle, EventStream), AgentError> {
        let (store, appends_each) = (cx.store.clone(), cx.appends_each);
        let shared_budget = cx.shared_budget.clone();
        let tree = Tree { store, shared_budget, appends_each, ..Tree::default() };
        self.start(cx, tree, Vec::new()).await
    }

    /// Returns the agent's own model.
    pub fn model(&self) -> &ModelInfo {
        self.config.model.info()
    }

    /// Returns the specs of the agent's tools. Tools from sources are not included.
    pub fn tool_specs(&self) -> impl Iterator<Item = &Arc<ToolSpec>> {
        self.config.tools.tools().map(|tool| tool.spec())
    }

    /// Returns whether calls of a tool need the user's approval, for front ends that list tools.
    /// The arguments of a call, and hooks, can change the answer for that call.
    pub fn needs_approval(&self, tool: &ToolSpec) -> NeedsApproval {
        self.config.auto.needs_approval(tool)
    }

    /// Returns the change that a pending call would make to a file, as a unified diff, if its tool
    /// offers a [preview](crate::tool::Tool::preview). The call is one of this agent or of a
    /// sub-agent. Tools from sources have no preview here.
    ///
    /// # Errors
    ///
    /// Fails if the preview cannot be computed. The error is meant for the user.
    pub async fn preview(&self, action: &ExternalAction) -> Result<Option<String>, ToolError> {
        self.preview_for(&action.path, action).await
    }

    /// Like [`GenericAgent::preview`], for a call of the sub-agent on this path.
    fn preview_for<'a>(
        &'a self,
        path: &'a [Arc<str>],
        action: &'a ExternalAction,
    ) -> BoxFuture<'a, Result<Option<String>, ToolError>> {
        match (path, self.config.tools.entry(&action.name)) {
            ([agent, path @ ..], _) => match self.config.children.get(agent) {
                Some(agent) => agent.preview(path, action),
                None => future::ready(Ok(None)).boxed(),
            },
            // Only an approval has a preview: an action with a request asks for input.
            ([], Ok(entry)) if action.request.is_none() => entry.tool.preview(&action.arguments),
            _ => future::ready(Ok(None)).boxed(),
        }
    }

    /// Returns the same agent with its models and tools replaced, also in its sub-agents.
    #[cfg(feature = "testing")]
    pub(crate) fn with_parts(&self, parts: &dyn Parts) -> GenericAgent {
        let config = Arc::new(self.config.with_parts(parts));
        GenericAgent { config, pattern: self.pattern.clone() }
    }

    /// Opens a session at this position of the tree, with these subscribers to its events.
    async fn start(
        &self,
        cx: RunContext,
        tree: Tree,
        subscribers: Vec<Subscriber>,
    ) -> Result<(AgentHandle, EventStream), AgentError> {
        if tree.store.is_none() && !self.config.children.is_empty() {
            return Err(AgentError::NoStore);
        }
        let RunContext { session, memory, settings, owner, extensions, parent, .. } = cx;
        let id =
            session.unwrap_or_else(|| format!("s{:016x}", self.config.environment.random()).into());
        let (commands, from_handles) = mpsc::unbounded_channel();
        let (to_session, from_task) = mpsc::unbounded_channel();
        let mut hub = Hub::new(id.clone(), parent.map(Arc::new), self.config.environment.clone());
        let (subscriber, stream) = Subscriber::new(cx.scope);
        hub.subscribe(subscriber);
        subscribers.into_iter().for_each(|subscriber| hub.subscribe(subscriber));
        let mut session = Session::new(self.config.clone(), hub, id.clone(), memory, from_task);
        session.extensions = extensions.clone();
        session.journal.joins = !tree.appends_each;
        session.tree = tree;
        session.open(settings, owner).await?;
        let pattern = self.pattern.clone();
        let mut task =
            Task::new(session, pattern, from_handles, to_session, extensions, cx.continues);
        let task = async move { task.run_to_end().await };
        Ok((AgentHandle::spawn(id, commands, false, task), stream))
    }
}

/// Options for opening a session: its id, memory, settings and values.
///
/// ```
/// use loopwright_core::log::InMemoryStore;
/// use loopwright_core::{Principal, RunContext};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = InMemoryStore::new();
/// let cx = RunContext::new()
///     .stored(&store, "holiday").await? // continues the session, or starts it
///     .owner(Principal::new("ann"))
///     .settings(serde_json::json!({ "model": "openai/gpt-5" }))
///     .with(Principal::new("ann")); // a value for tools and hooks
/// # let _ = cx;
/// # Ok(()) }
/// ```
pub struct RunContext {
    session: Option<Arc<str>>,
    memory: Arc<dyn Memory>,
    /// The store for the sessions of sub-agents.
    store: Option<Arc<dyn SessionStore>>,
    settings: Option<Arc<Value>>,
    owner: Option<Principal>,
    extensions: Extensions,
    shared_budget: Option<Arc<dyn SharedBudget>>,
    parent: Option<Parent>,
    continues: bool,
    appends_each: bool,
    /// Events of the returned stream.
    scope: Scope,
}

impl Default for RunContext {
    fn default() -> Self {
        let memory = Arc::new(InMemory::new());
        RunContext {
            session: None,
            memory,
            store: Some(Arc::new(InMemoryStore::new())),
            settings: None,
            owner: None,
            extensions: Extensions::new(),
            shared_budget: None,
            parent: None,
            continues: false,
            appends_each: false,
            scope: Scope::Session,
        }
    }
}

impl RunContext {
    /// Returns the options of an in-memory session with a random id.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the session's id.
    pub fn session(mut self, id: impl Into<Arc<str>>) -> Self {
        self.session = Some(id.into());
        self
    }

    /// Sets the memory of the session. If the memory contains a session, it is continued. An agent
    /// with sub-agents needs [`RunContext::stored`] instead.
    pub fn memory(self, memory: impl Memory + 'static) -> Self {
        self.shared_memory(Arc::new(memory))
    }

    /// Sets the memory of the session, opened from a store.
    pub fn shared_memory(mut self, memory: Arc<dyn Memory>) -> Self {
        (self.memory, self.store) = (memory, None);
        self
    }

    /// Sets the store for the sessions of sub-agents. It must be the store that the session's
    /// [memory](RunContext::shared_memory) was opened from. Set the memory first.
    pub fn sub_agents_in(mut self, store: Arc<dyn SessionStore>) -> Self {
        self.store = Some(store);
        self
    }

    /// Opens `session` from `store`, and owns it until the session is closed. Sub-agents have
    /// their sessions in the same store. The store is cloned, so a clone must be cheap, as with an
    /// `Arc`.
    ///
    /// # Errors
    ///
    /// Fails as [`SessionStore::open`] does.
    pub async fn stored(
        self,
        store: &(impl SessionStore + Clone + 'static),
        session: impl AsRef<str>,
    ) -> Result<Self, MemoryError> {
        let session = session.as_ref();
        let memory = store.open(session).await?;
        let opened = self.session(session).shared_memory(memory);
        Ok(RunContext { store: Some(Arc::new(store.clone())), ..opened })
    }

    /// Sets what the host needs to open the session again, such as the model and the directory. The
    /// settings must not contain keys. They are logged if they differ from the logged ones, and are
    /// part of [`SessionInfo`](crate::log::SessionInfo) and
    /// [`AgentState`](crate::session::AgentState). `null` removes the logged ones.
    pub fn settings(mut self, settings: impl Into<Value>) -> Self {
        self.settings = Some(Arc::new(settings.into()));
        self
    }

    /// Sets the owner of the session, if the session is new. The owner is logged, and part of
    /// [`SessionInfo`](crate::log::SessionInfo). The host decides who may use another principal's
    /// session; the server has a policy for it. A fork belongs to the owner of its parent.
    pub fn owner(mut self, owner: Principal) -> Self {
        self.owner = Some(owner);
        self
    }

    /// Sets a budget that the session shares with others, such as all sessions of a user.
    pub fn shared_budget(mut self, budget: Arc<dyn SharedBudget>) -> Self {
        self.shared_budget = Some(budget);
        self
    }

    /// Continues an interrupted run as soon as the session is opened, before posted inputs are
    /// read: a posted request would end the run. By default the run waits for
    /// [`AgentHandle::continue_run`].
    ///
    /// The run stays interrupted if two owners were lost during it, each without progress such as a
    /// message or the result of a call. Its session is then [held](crate::log::SessionInfo::held),
    /// because the run may crash each process that continues it.
    pub fn continue_interrupted(mut self) -> Self {
        self.continues = true;
        self
    }

    /// Adds the events of sub-agents, at any depth, to the stream that [`GenericAgent::run`]
    /// returns, as [`AgentHandle::subscribe_tree`] does.
    pub fn tree_events(mut self) -> Self {
        self.scope = Scope::Tree;
        self
    }

    /// Writes each change of the session, and of its sub-agents', at once. By default, changes
    /// without a wait between them are one append. For tests: a memory can then end the session, or
    /// let an input arrive, between any two changes.
    #[cfg(feature = "testing")]
    pub fn append_each(mut self) -> Self {
        self.appends_each = true;
        self
    }

    /// Adds a value for tools, hooks, predicates and the pattern, which look it up by its type. It
    /// is never logged and never sent to a model.
    pub fn with<T: std::any::Any + Send + Sync>(mut self, value: T) -> Self {
        self.extensions = self.extensions.with(value);
        self
    }

    /// Sets the call that a sub-agent works for. Its events contain the call.
    pub fn parent(mut self, parent: Parent) -> Self {
        self.parent = Some(parent);
        self
    }
}
