//! The MCP servers of the coding agent: their selection from settings and the command line.

mod consent;
mod launch;
mod login;
pub(crate) mod servers;

use std::collections::BTreeMap;
use std::sync::Arc;

use loopwright_mcp::{Definitions, ProcessLimit, ServerConfig};

use self::consent::not_started;
pub(crate) use self::consent::{Consent, editor_servers};
use self::login::Logins;
pub(crate) use self::servers::Servers;
use crate::config::Config;
use crate::error::StartError;
use crate::options::McpArg;
use crate::output::{self, Verbosity};
use crate::settings::Settings;

/// The file with the accepted servers, in the data directory.
const ACCEPTED_FILE: &str = "mcp.json";

/// Maximum number of processes of MCP servers in `serve`: in all, and for one user.
const MAX_PROCESSES: usize = 64;
const MAX_PROCESSES_PER_USER: usize = 16;

impl Servers {
    /// Returns the MCP servers of a session: the user's, the command line's, and accepted ones of
    /// the project. Prints a notice about the others.
    ///
    /// # Errors
    ///
    /// Fails if the settings cannot be read, or if the command line names an unknown server.
    pub(crate) fn of_session(
        settings: &Settings,
        config: &Config,
        verbosity: Verbosity,
    ) -> Result<Self, StartError> {
        let project = config.project(&settings.active)?.servers;
        let workspace = settings.active.workspace()?;
        let root = workspace.root();
        let key = |server: &ServerConfig| format!("project {}/{}", root.display(), server.name());
        let definitions = Arc::new(definitions(config)?);
        let mut configs: BTreeMap<String, ServerConfig> = BTreeMap::new();
        let mut add = |server: &ServerConfig| {
            configs.insert(server.name().to_owned(), server.clone());
        };
        for server in &project {
            let is_named = settings.mcp.contains(&McpArg::Accept(server.name().to_owned()));
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
        for argument in &settings.mcp {
            match argument {
                McpArg::Add(server) => add(server),
                McpArg::Editor(_) => {}
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
        let (mut editor, mut left_out) = (Vec::new(), Vec::new());
        for argument in &settings.mcp {
            match argument {
                McpArg::Editor(server) if configs.contains_key(server.name()) => {
                    left_out.push(not_started(server.name(), "another server has this name"));
                }
                McpArg::Editor(server) => {
                    let consent = Consent::new(definitions.clone(), root, server);
                    editor.push((server.clone(), consent));
                }
                _ => {}
            }
        }
        let configs: Vec<_> = configs.into_values().collect();
        let logins = match configs.is_empty() {
            true => Logins::default(),
            false => Logins::open(config.program.names.data_directory().as_deref())?,
        };
        Ok(Servers { configs, editor, left_out, definitions, logins, running, processes: None })
    }

    /// Returns no servers, for an agent that has none, whatever the user's editor passes.
    pub(crate) fn none(settings: &Settings) -> Self {
        let of_editor = settings.mcp.iter().filter_map(|argument| match argument {
            McpArg::Editor(server) => Some(not_started(server.name(), "this agent uses none")),
            _ => None,
        });
        Servers { left_out: of_editor.collect(), ..Servers::default() }
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
        let logins = Logins::default(); // users of a server have no browser beside it
        let (editor, left_out) = (Vec::new(), Vec::new());
        Ok(Servers { configs, editor, left_out, definitions, logins, running: None, processes })
    }
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
