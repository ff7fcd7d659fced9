//! The MCP servers of the coding agent: their selection, how they run, and the command `/mcp`.

mod launch;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use loopwright_core::agent::Principal;
use loopwright_mcp::{
    Credentials, Definitions, McpServer, ProcessLimit, ServerConfig, ToolSearch, Transport,
};
use loopwright_server::{AgentRejection, AgentSetup, CodingAgentBuilder};
use loopwright_tools::Workspace;

use self::launch::Confined;
use crate::config::Config;
use crate::environment::started_as;
use crate::error::StartError;
use crate::options::{McpArg, Options};
use crate::output::{self, Verbosity};
use crate::slash::{SlashCommand, SlashReply};

/// The file with the accepted servers, in the data directory.
const ACCEPTED_FILE: &str = "mcp.json";

/// The file with the tokens of authorized servers, in the data directory.
const CREDENTIALS_FILE: &str = "mcp-credentials.json";

/// Maximum number of processes of MCP servers in `serve`: in all, and for one user.
const MAX_PROCESSES: usize = 64;
const MAX_PROCESSES_PER_USER: usize = 16;
/// Time that a session of the terminal waits for a server to start.
const TERMINAL_START_WAIT: Duration = Duration::from_secs(5);

/// The running servers of an agent. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Running(Arc<Mutex<Vec<McpServer>>>);

/// The servers that an agent is built with.
#[derive(Clone, Default)]
pub(crate) struct Servers {
    configs: Vec<ServerConfig>,
    definitions: Arc<Definitions>,
    /// The tokens of authorized servers; `None` for other users of a server.
    credentials: Option<Arc<Credentials>>,
    /// The list of the agent's running servers, if only one agent exists at a time.
    running: Option<Running>,
    /// The limit on the processes of all sessions of a server.
    processes: Option<ProcessLimit>,
}

impl Servers {
    /// Returns the MCP servers of a session: the user's, the command line's, and accepted ones of
    /// the project. Prints a notice about the others.
    ///
    /// # Errors
    ///
    /// Fails if the settings cannot be read, or if the command line names an unknown server.
    pub(crate) fn of_session(
        options: &Options,
        config: &Config,
        verbosity: Verbosity,
    ) -> Result<Self, StartError> {
        let project = config.project(&options.workspace)?.servers;
        let workspace = options.workspace.workspace()?;
        let root = workspace.root();
        let key = |server: &ServerConfig| format!("project {}/{}", root.display(), server.name());
        let definitions = Arc::new(definitions(config)?);
        let mut configs: BTreeMap<String, ServerConfig> = BTreeMap::new();
        let mut add = |server: &ServerConfig| {
            configs.insert(server.name().to_owned(), server.clone());
        };
        for server in &project {
            let is_named = options.mcp.contains(&McpArg::Accept(server.name().to_owned()));
            if is_named {
                let accepted = definitions.accept(&key(server), server.digest());
                accepted.map_err(|why| {
                    let name = server.name();
                    StartError(format!("The MCP server `{name}` cannot be accepted: {why}."))
                })?;
            }
            if definitions.get(&key(server)).as_deref() == Some(server.digest()) {
                add(server);
            } else if verbosity.notes() {
                output::notice(&proposal(server));
            }
        }
        config.user.servers.iter().for_each(&mut add); // the user's own have precedence
        for argument in &options.mcp {
            match argument {
                McpArg::Add(server) => add(server),
                McpArg::Accept(name) => {
                    let is_known = |server: &ServerConfig| server.name() == name;
                    if !project.iter().chain(&config.user.servers).any(is_known) {
                        return Err(StartError(format!(
                            "--mcp: there is no MCP server `{name}` in the settings. Describe it \
                             with `--mcp {name}=COMMAND` or `--mcp {name}=URL`."
                        )));
                    }
                }
            }
        }
        let running = Some(config.program.mcp.clone());
        let configs: Vec<_> = configs.into_values().collect();
        let credentials = match configs.is_empty() {
            true => None,
            false => Some(Arc::new(credentials(config)?)),
        };
        Ok(Servers { configs, definitions, credentials, running, processes: None })
    }

    /// Returns the MCP servers of `serve`: the user's.
    ///
    /// # Errors
    ///
    /// Fails if the accepted definitions cannot be read.
    pub(crate) fn of_server(config: &Config) -> Result<Self, StartError> {
        let configs = config.user.servers.clone();
        let definitions = match configs.is_empty() {
            true => Arc::default(),
            false => Arc::new(definitions(config)?),
        };
        let processes = Some(ProcessLimit::new(MAX_PROCESSES, MAX_PROCESSES_PER_USER));
        Ok(Servers { configs, definitions, credentials: None, running: None, processes })
    }

    /// Gives these servers to each agent that `builder` builds.
    pub(crate) fn extend(self, builder: CodingAgentBuilder) -> CodingAgentBuilder {
        if self.configs.is_empty() {
            if let Some(running) = &self.running {
                running.set(Vec::new());
            }
            return builder;
        }
        builder.extend(move |agent, setup, workspace| {
            let servers = self.configs.iter().map(|config| self.server(config, setup, workspace));
            let servers: Vec<McpServer> = servers.collect::<Result<_, _>>()?;
            if let Some(running) = &self.running {
                running.set(servers.clone());
            }
            Ok(ToolSearch::new(servers).add_to(agent))
        })
    }

    /// Returns a server for one session.
    fn server(
        &self,
        config: &ServerConfig,
        setup: &AgentSetup,
        workspace: &Workspace,
    ) -> Result<McpServer, AgentRejection> {
        let builder = McpServer::builder(config.clone())
            .definitions(self.definitions.clone())
            .root(workspace.root())
            .sampling(setup.model()?.into());
        let builder = match setup.settings().no_questions.unwrap_or_default() {
            true => builder.no_questions(),
            false => builder,
        };
        let builder = match &self.credentials {
            Some(credentials) => builder.credentials(credentials.clone()),
            None => builder,
        };
        let builder = match &self.processes {
            Some(limit) => {
                builder.process_limit(limit.clone(), setup.principal().map(Principal::as_str))
            }
            // A single prompt may have no later request in which the tools could be offered.
            None => builder.start_wait(TERMINAL_START_WAIT),
        };
        let is_confined =
            matches!(&config.transport, Transport::Stdio(command) if !command.unconfined);
        Ok(match is_confined {
            true => builder.launch(Confined::new(workspace)).build(),
            false => builder.build(),
        })
    }
}

impl Running {
    fn set(&self, servers: Vec<McpServer>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = servers;
    }

    /// Returns the command `/mcp`.
    pub(crate) fn slash_command(&self) -> SlashCommand {
        let running = self.clone();
        let run = move |_: String, _| {
            let servers = running.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let shown: futures::future::BoxFuture<'static, _> =
                Box::pin(async move { Ok(SlashReply::Show(list(&servers).await)) });
            shown
        };
        SlashCommand {
            name: "mcp".into(),
            help: "list the MCP servers, their state and tools".into(),
            run: Box::new(run),
        }
    }
}

/// Returns the list of the servers with their state and tools.
async fn list(servers: &[McpServer]) -> String {
    if servers.is_empty() {
        let name = started_as();
        return format!(
            "There are no MCP servers. `{name} --mcp NAME=COMMAND` adds one, [mcp.NAME] in your \
             settings too."
        );
    }
    let mut text = String::new();
    for server in servers {
        let status = server.status().await;
        let state = match (&status.failure, status.is_connected) {
            (Some(why), _) => format!("failed: {why}"),
            (None, true) => "connected".into(),
            (None, false) if status.is_starting => "starting".into(),
            (None, false) => "not started".into(),
        };
        text += &format!("{} ({}): {state}\n", server.name(), status.target);
        for tool in &status.tools {
            text += &format!("  {}{tool}\n", server.prefix());
        }
    }
    text.trim_end().to_owned()
}

fn definitions(config: &Config) -> Result<Definitions, StartError> {
    let Some(directory) = config.program.names.data_directory() else {
        return Ok(Definitions::in_memory());
    };
    let path = directory.join(ACCEPTED_FILE);
    Definitions::open(&path).map_err(|why| {
        let path = path.display();
        StartError(format!("{path} cannot be read: {why}. Without the file, you are asked again."))
    })
}

fn credentials(config: &Config) -> Result<Credentials, StartError> {
    let Some(directory) = config.program.names.data_directory() else {
        return Ok(Credentials::in_memory());
    };
    let path = directory.join(CREDENTIALS_FILE);
    Credentials::open(&path).map_err(|why| {
        let path = path.display();
        StartError(format!("{path} cannot be read: {why}. Without the file, you log in again."))
    })
}

/// Returns the notice about a server that the user has not accepted.
fn proposal(server: &ServerConfig) -> String {
    let (name, what) = (server.name(), server.describe());
    let grants = match server.grants() {
        grants if grants.is_empty() => String::new(),
        grants => format!(", which {}", grants.join("; ")),
    };
    format!(
        "The project's settings propose the MCP server `{name}`: `{what}`{grants}. It is not \
         started; `--mcp {name}` accepts it as it is, now and later."
    )
}
