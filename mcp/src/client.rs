//! The client: [`McpServer`] connects to a server and lists its tools.

// SEP-2577 has deprecated roots; servers of earlier versions use them.
#![allow(deprecated)]

mod authorize;
pub(crate) mod config;
mod connection;
pub(crate) mod credentials;
mod crypto;
pub(crate) mod decode;
pub(crate) mod definitions;
pub(crate) mod elicitation;
mod exchange;
mod extras;
mod handler;
pub(crate) mod launch;
mod oauth;
pub(crate) mod processes;
pub(crate) mod sampling;
pub(crate) mod search;
mod server;
mod tool;
mod visits;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use loopwright_core::tool::{ToolSource, Toolbox};
use loopwright_core::{ChatModel, Tool, ToolError};
use rmcp::model::{Root, Tool as ListedTool};
use tokio_util::task::AbortOnDropHandle;

use self::authorize::Authorize;
use self::config::{ServerConfig, Transport};
use self::connection::Connection;
use self::credentials::Credentials;
use self::definitions::Definitions;
use self::launch::{Launch, Unconfined};
use self::processes::ProcessLimit;
use self::server::{Options, Server};
use self::tool::RemoteTool;

/// How long a run waits for a server that starts, and for one that has not answered before.
const START_WAIT: Duration = Duration::from_secs(2);
const RETRY_WAIT: Duration = Duration::from_millis(300);

/// Connects to an MCP server, and is the source of its tools. Clones share one connection.
///
/// The server is started when its tools are first listed, and again if it has died. A run waits
/// [a moment](ServerBuilder::start_wait) for it and continues without its tools, or with those that
/// it had before; they are added before the next model request when the server is ready. A
/// connection belongs to one session: what a server asks during a call is put to the user of that
/// session.
///
/// Every call needs approval, unless the agent's rules allow it. The names of the tools are
/// `server__tool` in the rules and for the model, if the agent is built with the
/// [prefix](McpServer::prefix).
///
/// ```no_run
/// use loopwright_core::GenericAgent;
/// use loopwright_core::testing::ScriptedModel;
/// use loopwright_mcp::{McpServer, ServerConfig};
/// use loopwright_patterns::PiPattern;
/// use serde_json::json;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let model = ScriptedModel::new([]);
/// let settings = json!({ "command": "npx", "args": ["-y", "@example/server"] });
/// let server = McpServer::builder(ServerConfig::read("example", &settings)?).build();
/// let agent = GenericAgent::builder(model, PiPattern)
///     .tool_source(server.prefix(), server.clone())
///     .build()?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct McpServer(Arc<Inner>);

struct Inner {
    server: Arc<Server>,
    /// The tools as they were last listed.
    listed: Mutex<Vec<Arc<RemoteTool>>>,
    /// The list that is still being read.
    listing: Mutex<Option<Listing>>,
    start_wait: Duration,
}

/// A list of tools that is read in the background, also while nobody waits for it. The error is a
/// sentence without a full stop.
type Listing = Shared<BoxFuture<'static, Arc<Result<(Arc<Connection>, Vec<ListedTool>), String>>>>;

/// Configures an [`McpServer`].
#[must_use = "call build()"]
pub struct ServerBuilder {
    options: Options,
    start_wait: Duration,
}

/// Describes the state of a server, for a user interface.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerStatus {
    /// What runs, or where it is.
    pub target: String,
    /// Whether it is connected.
    pub is_connected: bool,
    /// Whether it has been started and has not listed its tools yet.
    pub is_starting: bool,
    /// Why it cannot be used, if it cannot.
    pub failure: Option<String>,
    /// The names of its tools, as they were last listed.
    pub tools: Vec<String>,
}

impl ServerBuilder {
    /// Sets how its command is started. Without it, it is not confined.
    pub fn launch(mut self, launch: impl Launch + 'static) -> Self {
        self.options.launch = Arc::new(launch);
        self
    }

    /// Adds a directory that the server is told to work in (MCP, *Roots*).
    pub fn root(mut self, directory: &Path) -> Self {
        if let Ok(url) = reqwest::Url::from_directory_path(directory) {
            let name = directory.file_name().map(|name| name.to_string_lossy().into_owned());
            let root = Root::new(url.as_str().trim_end_matches('/'));
            self.options.roots.push(match name {
                Some(name) => root.with_name(name),
                None => root,
            });
        }
        self
    }

    /// Lets the server ask this model during a call (MCP, *Sampling*), if the user allows the
    /// request, of which all is shown. The session is charged for it
    /// ([`ToolContext::generate`](loopwright_core::ToolContext::generate)).
    pub fn sampling(mut self, model: Arc<dyn ChatModel>) -> Self {
        self.options.model = Some(model);
        self
    }

    /// Refuses what the server asks the user, for sessions without one. By default it is a question
    /// (MCP, *Elicitation*).
    pub fn no_questions(mut self) -> Self {
        self.options.asks = false;
        self
    }

    /// Sets where the definitions of tools that were called are recorded; in memory by default. A
    /// tool whose definition has changed since needs approval.
    pub fn definitions(mut self, definitions: Arc<Definitions>) -> Self {
        self.options.definitions = definitions;
        self
    }

    /// Sets where the tokens of a server that requires authorization are stored. Such a server has
    /// the tool `authorize` then, which asks the user (MCP, *Authorization*). Without it, only its
    /// configured headers authorize the agent.
    pub fn credentials(mut self, credentials: Arc<Credentials>) -> Self {
        self.options.credentials = Some(credentials);
        self
    }

    /// Counts the command of the server as one of this owner. By default there is no bound.
    pub fn process_limit(mut self, limit: ProcessLimit, owner: Option<&str>) -> Self {
        self.options.processes = Some((limit, owner.map(str::to_owned)));
        self
    }

    /// Sets how long a run waits for a server that starts. Two seconds by default.
    pub fn start_wait(mut self, wait: Duration) -> Self {
        self.start_wait = wait;
        self
    }

    /// Builds the source of tools. Nothing is started yet.
    pub fn build(self) -> McpServer {
        let server = Arc::new_cyclic(|own| Server::new(self.options, own.clone()));
        let (listed, listing) = Default::default();
        McpServer(Arc::new(Inner { server, listed, listing, start_wait: self.start_wait }))
    }
}

impl McpServer {
    /// Starts to configure a server.
    pub fn builder(config: ServerConfig) -> ServerBuilder {
        let options = Options {
            config,
            launch: Arc::new(Unconfined),
            roots: Vec::new(),
            model: None,
            asks: true,
            definitions: Arc::default(),
            credentials: None,
            processes: None,
        };
        ServerBuilder { options, start_wait: START_WAIT }
    }

    /// Returns how the names of its tools begin in an agent: `server__`.
    pub fn prefix(&self) -> String {
        self.0.server.prefix()
    }

    /// Returns the name of the server.
    pub fn name(&self) -> &str {
        self.0.server.name()
    }

    /// Returns the state of the server, without starting it or waiting for it.
    pub async fn status(&self) -> ServerStatus {
        let server = &self.0.server;
        ServerStatus {
            target: server.options.config.describe(),
            is_connected: server.is_connected(),
            is_starting: self.pending().is_some(),
            failure: server.last_failure(),
            tools: self.listed().iter().map(|tool| tool.spec().name.to_string()).collect(),
        }
    }

    /// Returns the tools as they were last listed, with names without the prefix.
    fn listed(&self) -> MutexGuard<'_, Vec<Arc<RemoteTool>>> {
        self.0.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listing(&self) -> MutexGuard<'_, Option<Listing>> {
        self.0.listing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the list that is still being read. One that has come meanwhile is taken.
    fn pending(&self) -> Option<Listing> {
        let listing = self.listing().clone()?;
        let Some(listed) = listing.clone().now_or_never() else { return Some(listing) };
        *self.listing() = None;
        if let Ok((_, tools)) = &*listed {
            self.describe(tools);
        }
        None
    }

    fn start_listing(&self) -> Listing {
        let server = self.0.server.clone();
        let task = AbortOnDropHandle::new(tokio::spawn(async move { server.list_tools().await }));
        let listed = task.map(|listed| listed.unwrap_or_else(|_| Err("it has failed".into())));
        listed.map(Arc::new).boxed().shared()
    }

    /// Describes the tools that were listed. Those that an agent would refuse are left out.
    fn describe(&self, listed: &[ListedTool]) {
        let known = self.listed().clone();
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
        *self.listed() = tools;
    }

    /// Returns a tool unless an agent would refuse it, which would end the run.
    fn remote_tool(&self, tool: &ListedTool) -> Option<Arc<RemoteTool>> {
        let described = RemoteTool::new(&self.0.server, tool).map(Arc::new);
        let checked = described.and_then(|tool| {
            let added = Toolbox::new().with_all([tool.clone() as Arc<dyn Tool>]);
            added.map(|_| tool).map_err(|why| why.to_string())
        });
        let warn = |why: &String| {
            let (server, tool) = (self.name(), &*tool.name);
            tracing::warn!(server, tool, why, "a tool of an MCP server is left out");
        };
        checked.inspect_err(warn).ok()
    }

    /// Returns the tool that asks the user to authorize the server, if it requires that.
    async fn authorize_tool(&self) -> Option<Arc<dyn Tool>> {
        let server = &self.0.server;
        let Transport::Http(endpoint) = &server.options.config.transport else { return None };
        let tokens = server.tokens()?;
        let tool = || Arc::new(Authorize::new(server.clone(), &endpoint.url, tokens));
        server.awaits_authorization().await.then(|| tool() as Arc<dyn Tool>)
    }
}

#[async_trait]
impl ToolSource for McpServer {
    /// Returns the current tools. If the server cannot be used, or does not answer soon, these are
    /// the ones that it had.
    async fn tools(&self) -> Result<Vec<Arc<dyn Tool>>, ToolError> {
        let (listing, wait) = match self.pending() {
            // The session has waited for it already.
            Some(listing) => (listing, RETRY_WAIT),
            None if self.0.server.last_failure().is_some() => (self.start_listing(), RETRY_WAIT),
            None => (self.start_listing(), self.0.start_wait),
        };
        let listed = tokio::time::timeout(wait, listing.clone()).await.ok();
        *self.listing() = listed.is_none().then_some(listing);
        if let Some(Ok((_, tools))) = listed.as_deref() {
            self.describe(tools);
        }
        let own = self.listed().clone();
        let mut tools: Vec<Arc<dyn Tool>> =
            own.iter().map(|tool| tool.clone() as Arc<dyn Tool>).collect();
        match listed.as_deref() {
            Some(Ok((connection, _))) => {
                let is_free = |name: &str| own.iter().all(|tool| *tool.spec().name != *name);
                tools.extend(extras::tools(&self.0.server, connection, is_free));
            }
            Some(Err(_)) => tools.extend(self.authorize_tool().await),
            None => {}
        }
        Ok(tools)
    }

    async fn ready(&self) {
        let pending = self.listing().clone();
        if let Some(listing) = pending {
            listing.await;
        }
    }
}
