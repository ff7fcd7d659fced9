//! The client: [`McpServer`] connects to a server and lists its tools.

// SEP-2577 has deprecated roots; servers of earlier versions use them.
#![allow(deprecated)]

pub(crate) mod config;
mod connection;
pub(crate) mod decode;
pub(crate) mod definitions;
mod elicitation;
mod exchange;
mod extras;
mod handler;
pub(crate) mod launch;
mod sampling;
mod tool;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use loopwright_core::message::CallId;
use loopwright_core::tool::{ToolSource, Toolbox};
use loopwright_core::{ChatModel, Tool, ToolContext, ToolError, ToolOutput};
use rmcp::model::{CallToolRequestParams, Root};
use serde_json::Value;
use tokio::time::Instant;

use self::config::ServerConfig;
use self::connection::Connection;
use self::definitions::Definitions;
use self::exchange::{Exchange, Host, Step, failure};
use self::handler::{Handler, Routes};
use self::launch::{Launch, Unconfined};
use self::tool::RemoteTool;

/// How many calls may wait for the user at the same time.
const MAX_WAITING: usize = 64;
/// How long a server that fails is not started again: at first, and at most.
const FIRST_DELAY: Duration = Duration::from_secs(1);
const MAX_DELAY: Duration = Duration::from_secs(60);

/// Connects to an MCP server, and is the source of its tools. Clones share one connection.
///
/// The server is started when its tools are first listed, and again if it has died. A server that
/// cannot be started has no tools, or those that it had before; the run continues. A connection
/// belongs to one session: what a server asks during a call is put to the user of that session.
///
/// Every call needs approval, unless the agent's rules allow it. The names of the tools are
/// `server__tool` in the rules and for the model, if the agent is built with the
/// [prefix](McpServer::prefix).
///
/// ```no_run
/// use loopwright_core::testing::{Script, ScriptedModel, StepPattern};
/// use loopwright_core::GenericAgent;
/// use loopwright_mcp::{McpServer, ServerConfig};
/// use serde_json::json;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (model, pattern) = (ScriptedModel::new([]), StepPattern::new());
/// let settings = json!({ "command": "npx", "args": ["-y", "@example/server"] });
/// let server = McpServer::builder(ServerConfig::read("example", &settings)?).build();
/// let agent = GenericAgent::builder(model, pattern)
///     .tool_source(server.prefix(), server.clone())
///     .build()?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct McpServer(Arc<Inner>);

struct Inner {
    options: ServerBuilder,
    state: tokio::sync::Mutex<State>,
    /// The tools as they were last listed.
    listed: Mutex<Vec<Arc<RemoteTool>>>,
    /// Why the server cannot be used, if it cannot.
    failure: Mutex<Option<String>>,
    waiting: Mutex<HashMap<CallKey, (Instant, Exchange)>>,
}

/// A session and a call of it.
type CallKey = (Arc<str>, CallId);

#[derive(Default)]
struct State {
    connection: Option<Arc<Connection>>,
    delay: Duration,
    retry_at: Option<Instant>,
}

/// Configures an [`McpServer`].
#[must_use = "call build()"]
pub struct ServerBuilder {
    config: ServerConfig,
    launch: Arc<dyn Launch>,
    roots: Vec<Root>,
    model: Option<Arc<dyn ChatModel>>,
    asks: bool,
    definitions: Arc<Definitions>,
}

/// Describes the state of a server, for a user interface.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerStatus {
    /// What runs, or where it is.
    pub target: String,
    /// Whether it is connected.
    pub is_connected: bool,
    /// Why it cannot be used, if it cannot.
    pub failure: Option<String>,
    /// The names of its tools, as they were last listed.
    pub tools: Vec<String>,
}

impl ServerBuilder {
    /// Sets how its command is started. Without it, it is not confined.
    pub fn launch(mut self, launch: impl Launch + 'static) -> Self {
        self.launch = Arc::new(launch);
        self
    }

    /// Adds a directory that the server is told to work in (MCP, *Roots*).
    pub fn root(mut self, directory: &Path) -> Self {
        if let Ok(url) = reqwest::Url::from_directory_path(directory) {
            let name = directory.file_name().map(|name| name.to_string_lossy().into_owned());
            let root = Root::new(url.as_str().trim_end_matches('/'));
            self.roots.push(match name {
                Some(name) => root.with_name(name),
                None => root,
            });
        }
        self
    }

    /// Lets the server ask this model during a call (MCP, *Sampling*), if the user allows the
    /// request. The tokens are not counted as those of the session.
    pub fn sampling(mut self, model: Arc<dyn ChatModel>) -> Self {
        self.model = Some(model);
        self
    }

    /// Refuses what the server asks the user, for sessions without one. By default it is a question
    /// (MCP, *Elicitation*).
    pub fn no_questions(mut self) -> Self {
        self.asks = false;
        self
    }

    /// Sets where the definitions of tools that were called are recorded; in memory by default. A
    /// tool whose definition has changed since needs approval.
    pub fn definitions(mut self, definitions: Arc<Definitions>) -> Self {
        self.definitions = definitions;
        self
    }

    /// Builds the source of tools. Nothing is started yet.
    pub fn build(self) -> McpServer {
        McpServer(Arc::new(Inner {
            options: self,
            state: tokio::sync::Mutex::default(),
            listed: Mutex::default(),
            failure: Mutex::default(),
            waiting: Mutex::default(),
        }))
    }
}

impl McpServer {
    /// Starts to configure a server.
    pub fn builder(config: ServerConfig) -> ServerBuilder {
        ServerBuilder {
            config,
            launch: Arc::new(Unconfined),
            roots: Vec::new(),
            model: None,
            asks: true,
            definitions: Arc::default(),
        }
    }

    /// Returns how the names of its tools begin in an agent: `server__`.
    pub fn prefix(&self) -> String {
        format!("{}__", self.name())
    }

    /// Returns the name of the server.
    pub fn name(&self) -> &str {
        self.config().name()
    }

    /// Returns the state of the server, without starting it.
    pub async fn status(&self) -> ServerStatus {
        let state = self.0.state.lock().await;
        let connection = state.connection.as_ref();
        ServerStatus {
            target: self.config().describe(),
            is_connected: connection.is_some_and(|connection| !connection.is_closed()),
            failure: lock(&self.0.failure).clone(),
            tools: lock(&self.0.listed).iter().map(|tool| tool.spec().name.to_string()).collect(),
        }
    }

    fn config(&self) -> &ServerConfig {
        &self.0.options.config
    }

    fn host(&self) -> Host<'_> {
        let ServerBuilder { config, roots, model, .. } = &self.0.options;
        Host { server: config.name(), roots, model: model.as_deref() }
    }

    /// Returns the connection, starting the server if it does not run. A server that has failed is
    /// not started again at once. The error is a sentence without a full stop.
    async fn connection(&self) -> Result<Arc<Connection>, String> {
        let mut state = self.0.state.lock().await;
        if let Some(connection) = state.connection.as_ref().filter(|known| !known.is_closed()) {
            return Ok(connection.clone());
        }
        state.connection = None;
        if state.retry_at.is_some_and(|at| Instant::now() < at) {
            let why = lock(&self.0.failure).clone();
            return Err(why.unwrap_or_else(|| "it has failed".into()));
        }
        let ServerBuilder { config, launch, roots, model, asks, .. } = &self.0.options;
        let handler = Handler {
            routes: Arc::new(Routes::default()),
            roots: roots.clone(),
            can_sample: model.is_some() && *asks,
            can_ask: *asks,
        };
        let opened = Connection::open(config.clone(), launch.clone(), handler).await;
        // Also after a start that succeeds: a server may die at once.
        state.delay = (state.delay * 2).clamp(FIRST_DELAY, MAX_DELAY);
        state.retry_at = Some(Instant::now() + state.delay);
        match opened {
            Ok(connection) => {
                *lock(&self.0.failure) = None;
                Ok(state.connection.insert(Arc::new(connection)).clone())
            }
            Err(why) => {
                tracing::warn!(server = self.name(), why, "an MCP server cannot be used");
                *lock(&self.0.failure) = Some(why.clone());
                Err(why)
            }
        }
    }

    /// Lists the tools anew.
    async fn list(&self) -> Result<Arc<Connection>, String> {
        let connection = self.connection().await?;
        connection.routes.take_change();
        let listed = connection.list().await.inspect_err(|why| {
            connection.routes.set_changed();
            *lock(&self.0.failure) = Some(why.clone());
        })?;
        self.0.state.lock().await.delay = Duration::ZERO; // it works
        let known = lock(&self.0.listed).clone();
        let tools = listed.iter().filter_map(|tool| {
            let new = self.remote_tool(tool)?;
            // The agent has compiled the schema of a known one.
            let same = |old: &&Arc<RemoteTool>| {
                old.name == new.name
                    && old.definition == new.definition
                    && old.is_changed == new.is_changed
            };
            Some(known.iter().find(same).cloned().unwrap_or(new))
        });
        let tools = tools.collect();
        *lock(&self.0.listed) = tools;
        *lock(&self.0.failure) = None;
        Ok(connection)
    }

    /// Returns a tool unless an agent would refuse it, which would end the run.
    fn remote_tool(&self, tool: &rmcp::model::Tool) -> Option<Arc<RemoteTool>> {
        let checked = RemoteTool::new(self, tool).map(Arc::new).and_then(|tool| {
            let added = Toolbox::new().with_all([tool.clone() as Arc<dyn Tool>]);
            added.map(|_| tool).map_err(|why| why.to_string())
        });
        let warn = |why: &String| {
            let (server, tool) = (self.name(), &*tool.name);
            tracing::warn!(server, tool, why, "a tool of an MCP server is left out");
        };
        checked.inspect_err(warn).ok()
    }

    /// Fails if the server has changed or removed a tool since it was listed.
    async fn check_definition(&self, name: &str, definition: &str) -> Result<(), ToolError> {
        let connection = self.connection().await.map_err(|why| self.unavailable(&why))?;
        if connection.routes.take_change() {
            connection.routes.set_changed(); // until they are listed
            self.list().await.map_err(|why| self.unavailable(&why))?;
        }
        let is_same =
            |tool: &Arc<RemoteTool>| &*tool.name == name && &*tool.definition == definition;
        match lock(&self.0.listed).iter().any(is_same) {
            true => Ok(()),
            false => Err(ToolError::failed(format!(
                "The MCP server `{}` has changed or removed this tool. Nothing was called. What it \
                 offers now can be called after the user's next message.",
                self.name()
            ))),
        }
    }

    fn unavailable(&self, why: &str) -> ToolError {
        ToolError::failed(format!("The MCP server `{}` cannot be used: {why}.", self.name()))
    }

    /// Returns whether a tool was called under another definition.
    fn is_changed(&self, tool: &str, definition: &str) -> bool {
        let accepted = self.0.options.definitions.get(&self.key(tool));
        accepted.is_some_and(|accepted| accepted != definition)
    }

    /// Records that a tool is called under this definition.
    async fn accept(&self, tool: &str, definition: &str) {
        let definitions = self.0.options.definitions.clone();
        let (key, definition) = (self.key(tool), definition.to_owned());
        let accepted = tokio::task::spawn_blocking(move || definitions.accept(&key, &definition));
        if let Ok(Err(why)) = accepted.await {
            tracing::warn!(%why, "the definition of a tool cannot be recorded");
        }
    }

    fn key(&self, tool: &str) -> String {
        format!("{}/{}/{tool}", self.name(), self.config().digest())
    }

    /// Calls a tool.
    async fn call(
        &self,
        params: CallToolRequestParams,
        cx: &ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let connection = self.connection().await.map_err(|why| self.unavailable(&why))?;
        let routes = connection.routes.clone();
        let started = Exchange::start(connection.peer().clone(), routes, params).await;
        let exchange = started.map_err(|why| failure(self.name(), why))?;
        self.run(exchange, cx).await
    }

    /// Continues a call that has asked the user.
    async fn resume(&self, answer: Value, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        let waiting = lock(&self.0.waiting).remove(&key_of(cx));
        let Some((_, mut exchange)) = waiting else {
            return Err(ToolError::failed(format!(
                "The call of the MCP server `{}` was lost while it waited for the user, and may \
                 have had effects. Check before you call it again.",
                self.name()
            )));
        };
        let host = self.host();
        tokio::select! {
            biased;
            () = cx.cancelled() => return Err(ToolError::Cancelled),
            () = exchange.answer(&host, answer) => {}
        }
        self.run(exchange, cx).await
    }

    async fn run(&self, mut exchange: Exchange, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
        match exchange.run(cx, &self.host()).await {
            Step::Finished(result) => result,
            Step::Asks(question) => {
                let mut waiting = lock(&self.0.waiting);
                if waiting.len() >= MAX_WAITING {
                    let oldest = waiting.iter().min_by_key(|(_, (since, _))| *since);
                    if let Some(key) = oldest.map(|(key, _)| key.clone()) {
                        waiting.remove(&key);
                    }
                }
                waiting.insert(key_of(cx), (Instant::now(), exchange));
                Err(question.suspend())
            }
        }
    }
}

#[async_trait]
impl ToolSource for McpServer {
    /// Returns the current tools. If the server cannot be used, these are the ones that it had.
    async fn tools(&self) -> Result<Vec<Arc<dyn Tool>>, ToolError> {
        let listed = self.list().await;
        let mut tools: Vec<Arc<dyn Tool>> =
            lock(&self.0.listed).iter().map(|tool| tool.clone() as Arc<dyn Tool>).collect();
        if let Ok(connection) = listed {
            tools.extend(extras::tools(self, &connection));
        }
        Ok(tools)
    }
}

fn key_of(cx: &ToolContext) -> CallKey {
    (cx.session_id().into(), cx.call_id().clone())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
