//! The client: [`McpServer`] connects to a server and lists its tools.

// SEP-2577 has deprecated roots; servers of earlier versions use them.
#![allow(deprecated)]

mod authorize;
pub(crate) mod config;
mod connection;
pub(crate) mod credentials;
pub(crate) mod decode;
pub(crate) mod definitions;
pub(crate) mod elicitation;
mod exchange;
mod extras;
mod handler;
pub(crate) mod launch;
mod oauth;
pub(crate) mod sampling;
pub(crate) mod search;
mod server;
mod tool;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use loopwright_core::tool::{ToolSource, Toolbox};
use loopwright_core::{ChatModel, Tool, ToolError};
use rmcp::model::Root;

use self::authorize::Authorize;
use self::config::{ServerConfig, Transport};
use self::credentials::Credentials;
use self::definitions::Definitions;
use self::launch::{Launch, Unconfined};
use self::server::{Options, Server};
use self::tool::RemoteTool;

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
}

/// Configures an [`McpServer`].
#[must_use = "call build()"]
pub struct ServerBuilder(Options);

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
        self.0.launch = Arc::new(launch);
        self
    }

    /// Adds a directory that the server is told to work in (MCP, *Roots*).
    pub fn root(mut self, directory: &Path) -> Self {
        if let Ok(url) = reqwest::Url::from_directory_path(directory) {
            let name = directory.file_name().map(|name| name.to_string_lossy().into_owned());
            let root = Root::new(url.as_str().trim_end_matches('/'));
            self.0.roots.push(match name {
                Some(name) => root.with_name(name),
                None => root,
            });
        }
        self
    }

    /// Lets the server ask this model during a call (MCP, *Sampling*), if the user allows the
    /// request. The tokens are not counted as those of the session.
    pub fn sampling(mut self, model: Arc<dyn ChatModel>) -> Self {
        self.0.model = Some(model);
        self
    }

    /// Refuses what the server asks the user, for sessions without one. By default it is a question
    /// (MCP, *Elicitation*).
    pub fn no_questions(mut self) -> Self {
        self.0.asks = false;
        self
    }

    /// Sets where the definitions of tools that were called are recorded; in memory by default. A
    /// tool whose definition has changed since needs approval.
    pub fn definitions(mut self, definitions: Arc<Definitions>) -> Self {
        self.0.definitions = definitions;
        self
    }

    /// Sets where the tokens of a server that requires authorization are stored. Such a server has
    /// the tool `authorize` then, which asks the user (MCP, *Authorization*). Without it, only its
    /// configured headers authorize the agent.
    pub fn credentials(mut self, credentials: Arc<Credentials>) -> Self {
        self.0.credentials = Some(credentials);
        self
    }

    /// Builds the source of tools. Nothing is started yet.
    pub fn build(self) -> McpServer {
        let server = Arc::new(Server::new(self.0));
        McpServer(Arc::new(Inner { server, listed: Mutex::default() }))
    }
}

impl McpServer {
    /// Starts to configure a server.
    pub fn builder(config: ServerConfig) -> ServerBuilder {
        ServerBuilder(Options {
            config,
            launch: Arc::new(Unconfined),
            roots: Vec::new(),
            model: None,
            asks: true,
            definitions: Arc::default(),
            credentials: None,
        })
    }

    /// Returns how the names of its tools begin in an agent: `server__`.
    pub fn prefix(&self) -> String {
        self.0.server.prefix()
    }

    /// Returns the name of the server.
    pub fn name(&self) -> &str {
        self.0.server.name()
    }

    /// Returns the state of the server, without starting it.
    pub async fn status(&self) -> ServerStatus {
        let server = &self.0.server;
        ServerStatus {
            target: server.options.config.describe(),
            is_connected: server.is_connected().await,
            failure: server.last_failure(),
            tools: self.listed().iter().map(|tool| tool.spec().name.to_string()).collect(),
        }
    }

    /// Returns the tools as they were last listed, with names without the prefix.
    fn listed(&self) -> MutexGuard<'_, Vec<Arc<RemoteTool>>> {
        self.0.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Describes the tools that were listed. Those that an agent would refuse are left out.
    fn describe(&self, listed: &[rmcp::model::Tool]) {
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
    fn remote_tool(&self, tool: &rmcp::model::Tool) -> Option<Arc<RemoteTool>> {
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
    /// Returns the current tools. If the server cannot be used, these are the ones that it had.
    async fn tools(&self) -> Result<Vec<Arc<dyn Tool>>, ToolError> {
        let listed = self.0.server.list_tools().await;
        if let Ok((_, tools)) = &listed {
            self.describe(tools);
        }
        let own = self.listed().clone();
        let mut tools: Vec<Arc<dyn Tool>> =
            own.iter().map(|tool| tool.clone() as Arc<dyn Tool>).collect();
        match listed {
            Ok((connection, _)) => {
                let is_free = |name: &str| own.iter().all(|tool| *tool.spec().name != *name);
                tools.extend(extras::tools(&self.0.server, &connection, is_free));
            }
            Err(_) => tools.extend(self.authorize_tool().await),
        }
        Ok(tools)
    }
}
