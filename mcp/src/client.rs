//! The client: [`McpServer`] connects to a server and lists its tools.

// SEP-2577 has deprecated roots; servers of earlier versions use them.
#![allow(deprecated)]

pub(crate) mod config;
mod connection;
mod crypto;
pub(crate) mod decode;
pub(crate) mod definitions;
pub(crate) mod elicitation;
mod exchange;
mod extras;
mod frames;
mod handler;
mod http_client;
mod http_frames;
pub(crate) mod launch;
#[cfg(feature = "oauth")]
pub(crate) mod oauth;
#[cfg(not(feature = "oauth"))]
#[path = "client/without_oauth.rs"]
mod oauth;
pub(crate) mod processes;
mod repair;
pub(crate) mod sampling;
pub(crate) mod search;
mod server;
mod tool;

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

use self::config::ServerConfig;
use self::connection::{Connection, Listed};
use self::definitions::Definitions;
use self::launch::{Launch, Unconfined};
use self::oauth::Authorization;
use self::processes::ProcessLimit;
use self::repair::{bound, named};
use self::server::{Options, Server};
use self::tool::RemoteTool;

/// The default wait of a run for a starting server, and the wait for a server that has failed or is
/// late.
const START_WAIT: Duration = Duration::from_secs(2);
const RETRY_WAIT: Duration = Duration::from_millis(300);

/// A connection to an MCP server, and the source of its tools. Clones share the connection.
///
/// The server starts when its tools are first listed, and restarts if it has died. A run waits
/// [briefly](ServerBuilder::start_wait) for it, then continues without its tools, or with those
/// listed before. The tools are added before the next model request once the server is ready. A
/// connection belongs to one session, whose user answers what the server asks during a call.
///
/// Every call needs approval, unless the agent's rules allow it. With the
/// [prefix](McpServer::prefix), the tools are named `server__tool`, both in the rules and for the
/// model.
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
    /// The last list.
    listed: Mutex<Known>,
    /// The list that is being read.
    listing: Mutex<Option<Listing>>,
    start_wait: Duration,
}

#[derive(Default)]
struct Known {
    tools: Vec<Arc<RemoteTool>>,
    left_out: Vec<String>,
}

/// A list of tools that is read in the background, even while nobody awaits it. The error is a
/// sentence without a full stop.
type Listing = Shared<BoxFuture<'static, Arc<Result<(Arc<Connection>, Listed), String>>>>;

/// A builder of an [`McpServer`].
#[must_use = "call build()"]
pub struct ServerBuilder {
    options: Options,
    start_wait: Duration,
}

/// The state of a server, for a user interface.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerStatus {
    /// The command line or the URL of the server, in one line.
    pub target: String,
    /// `true` while the session with the server is open.
    pub is_connected: bool,
    /// `true` from the start of the server until it has listed its tools.
    pub is_starting: bool,
    /// The reason why the server cannot be used; `None` if it can.
    pub failure: Option<String>,
    /// The names of the tools in the last list, without the prefix.
    pub tools: Vec<String>,
    /// The tools of the last list that cannot be used: the name of each, and the reason.
    pub left_out: Vec<String>,
}

impl ServerBuilder {
    /// Sets how the command of the server is started. By default it is not confined.
    pub fn launch(mut self, launch: impl Launch + 'static) -> Self {
        self.options.launch = Arc::new(launch);
        self
    }

    /// Adds a directory to the roots of the server (MCP, *Roots*).
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

    /// Lets the server ask this model during a call (MCP, *Sampling*). The user sees the whole
    /// request and must allow it. The session is charged for it
    /// ([`ToolContext::generate`](loopwright_core::ToolContext::generate)).
    pub fn sampling(mut self, model: Arc<dyn ChatModel>) -> Self {
        self.options.model = Some(model);
        self
    }

    /// Refuses the server's questions to the user, for sessions without a user. By default the user
    /// is asked (MCP, *Elicitation*).
    pub fn no_questions(mut self) -> Self {
        self.options.asks = false;
        self
    }

    /// Sets where the definitions of called tools are recorded: in memory by default. A tool needs
    /// approval if its definition has changed since.
    pub fn definitions(mut self, definitions: Arc<Definitions>) -> Self {
        self.options.definitions = definitions;
        self
    }

    /// Sets where the tokens of a server that requires authorization are stored. Such a server then
    /// has the tool `authorize`, which asks the user (MCP, *Authorization*). Without a store, only
    /// the configured headers authorize the agent.
    #[cfg(feature = "oauth")]
    #[cfg_attr(docsrs, doc(cfg(feature = "oauth")))]
    pub fn credentials(mut self, credentials: Arc<oauth::credentials::Credentials>) -> Self {
        self.options.authorization.credentials = Some(credentials);
        self
    }

    /// Counts the command of the server towards this limit, as a command of `owner`. By default
    /// there is no limit.
    pub fn process_limit(mut self, limit: ProcessLimit, owner: Option<&str>) -> Self {
        self.options.processes = Some((limit, owner.map(str::to_owned)));
        self
    }

    /// Sets how long a run waits for a server that is starting. The default is two seconds.
    pub fn start_wait(mut self, wait: Duration) -> Self {
        self.start_wait = wait;
        self
    }

    /// Builds the source of tools, without starting the server.
    pub fn build(self) -> McpServer {
        let server = Arc::new_cyclic(|own| Server::new(self.options, own.clone()));
        let (listed, listing) = Default::default();
        McpServer(Arc::new(Inner { server, listed, listing, start_wait: self.start_wait }))
    }
}

impl McpServer {
    /// Returns a builder with the default options.
    pub fn builder(config: ServerConfig) -> ServerBuilder {
        let options = Options {
            config,
            launch: Arc::new(Unconfined::default()),
            roots: Vec::new(),
            model: None,
            asks: true,
            definitions: Arc::default(),
            authorization: Authorization::default(),
            processes: None,
        };
        ServerBuilder { options, start_wait: START_WAIT }
    }

    /// Returns the prefix of the server's tools in an agent: `server__`.
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
        // A list that has ended since it was last asked for counts.
        let is_starting = self.pending().is_some();
        let known = self.listed();
        ServerStatus {
            target: server.options.config.describe(),
            is_connected: server.is_connected(),
            is_starting,
            failure: server.last_failure(),
            tools: known.tools.iter().map(|tool| tool.spec().name.to_string()).collect(),
            left_out: known.left_out.clone(),
        }
    }

    /// Returns the last list. The names of its tools have no prefix.
    fn listed(&self) -> MutexGuard<'_, Known> {
        self.0.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listing(&self) -> MutexGuard<'_, Option<Listing>> {
        self.0.listing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the list that is still being read. A list that is complete by now is stored instead.
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

    /// Replaces the known tools with the listed ones. Tools that an agent would refuse are left
    /// out.
    fn describe(&self, listed: &Listed) {
        let known = self.listed().tools.clone();
        let mut left_out = listed.left_out.clone();
        let tools = listed.tools.iter().filter_map(|tool| {
            let new = self.remote_tool(tool);
            let new =
                new.map_err(|why| left_out.push(named(&format!("`{}`", tool.name), &why))).ok()?;
            // The agent has compiled the schema of a known tool.
            let same = |old: &&Arc<RemoteTool>| {
                old.name == new.name
                    && old.definition == new.definition
                    && old.is_changed == new.is_changed
            };
            Some(known.iter().find(same).cloned().unwrap_or(new))
        });
        let tools = tools.collect();
        bound(&mut left_out);
        let mut last = self.listed();
        if left_out != last.left_out {
            let (server, left_out) = (self.name(), left_out.join("; "));
            tracing::warn!(server, left_out, "tools of an MCP server are left out");
        }
        *last = Known { tools, left_out };
    }

    /// Returns the tool. Fails if an agent would refuse it, which would end the run.
    fn remote_tool(&self, tool: &ListedTool) -> Result<Arc<RemoteTool>, String> {
        let tool = Arc::new(RemoteTool::new(&self.0.server, tool)?);
        let added = Toolbox::new().with_all([tool.clone() as Arc<dyn Tool>]);
        added.map(|_| tool).map_err(|why| why.to_string())
    }
}

#[async_trait]
impl ToolSource for McpServer {
    /// Returns the current tools, or the last known ones if the server fails or does not answer in
    /// time.
    async fn tools(&self) -> Result<Vec<Arc<dyn Tool>>, ToolError> {
        let (listing, wait) = match self.pending() {
            // The session has already waited for this list.
            Some(listing) => (listing, RETRY_WAIT),
            None if self.0.server.last_failure().is_some() => (self.start_listing(), RETRY_WAIT),
            None => (self.start_listing(), self.0.start_wait),
        };
        let listed = tokio::time::timeout(wait, listing.clone()).await.ok();
        *self.listing() = listed.is_none().then_some(listing);
        if let Some(Ok((_, tools))) = listed.as_deref() {
            self.describe(tools);
        }
        let own = self.listed().tools.clone();
        let mut tools: Vec<Arc<dyn Tool>> =
            own.iter().map(|tool| tool.clone() as Arc<dyn Tool>).collect();
        match listed.as_deref() {
            Some(Ok((connection, _))) => {
                let is_free = |name: &str| own.iter().all(|tool| *tool.spec().name != *name);
                tools.extend(extras::tools(&self.0.server, connection, is_free));
            }
            #[cfg(feature = "oauth")]
            Some(Err(_)) => tools.extend(oauth::authorize::tool(&self.0.server)),
            _ => {}
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
