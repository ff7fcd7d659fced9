//! [`Consent`]: the user's consent to start the MCP servers of an editor.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use loopwright_core::excerpt;
use loopwright_mcp::{
    CommandLine, Definitions, Launch, Pipes, ServerConfig, Transport, Unconfined,
};
use loopwright_protocols::acp::McpServer;

/// The maximum length of a server's name.
const MAX_NAME_LENGTH: usize = 32;
/// The maximum length of the description of a server, which the user is shown as a whole.
const MAX_DESCRIPTION_BYTES: usize = 8 << 10;

/// The user's decision about the start of a server: once accepted, always in this directory, until
/// its command changes. It is started as the editor would start it: without confinement, in the
/// directory of the session.
#[derive(Clone)]
pub(crate) struct Consent {
    definitions: Arc<Definitions>,
    directory: PathBuf,
    key: String,
    digest: String,
    /// The name of the server.
    pub(crate) name: String,
    /// The command line and the names of the variables, for the user.
    pub(crate) description: String,
}

impl Consent {
    pub(super) fn new(definitions: Arc<Definitions>, root: &Path, server: &ServerConfig) -> Self {
        let name = server.name().to_owned();
        Consent {
            definitions,
            directory: root.to_owned(),
            key: format!("editor {}/{name}", root.display()),
            digest: server.digest().to_owned(),
            description: describe(server),
            name,
        }
    }

    /// Returns whether the user has accepted the server.
    pub(crate) fn is_given(&self) -> bool {
        self.definitions.get(&self.key).as_deref() == Some(&*self.digest)
    }

    /// Records that the user accepts the server.
    pub(crate) fn give(&self) -> io::Result<()> {
        self.definitions.accept(&self.key, &self.digest)
    }
}

#[async_trait]
impl Launch for Consent {
    async fn launch(&self, command: &CommandLine) -> io::Result<Pipes> {
        if !self.is_given() {
            return Err(io::Error::other("you have not accepted that it starts"));
        }
        Unconfined::in_directory(&self.directory).launch(command).await
    }
}

/// Returns the settings of an editor's servers, whose names become valid, and a sentence for the
/// user about each that is left out.
pub(crate) fn editor_servers(given: &[McpServer]) -> (Vec<ServerConfig>, Vec<String>) {
    let (mut servers, mut left_out) = (Vec::<ServerConfig>::new(), Vec::new());
    for server in given {
        let name = &server.name;
        let config = match &server.command {
            Some(command) => {
                let mut line = CommandLine::default();
                line.program.clone_from(command);
                line.args.clone_from(&server.args);
                let variables = server.env.iter();
                line.variables =
                    variables.map(|one| (one.name.clone(), one.value.clone())).collect();
                line.unconfined = true;
                let config = ServerConfig::new(valid_name(name), Transport::Stdio(line));
                config.map_err(|why| why.to_string()).and_then(shown)
            }
            None => {
                let why = "only commands are supported; add its `url` to your loopwright.toml";
                Err(why.to_owned())
            }
        };
        let config = config.and_then(|config| {
            match servers.iter().any(|other| other.name() == config.name()) {
                true => Err(format!("another server of the editor is `{}`", config.name())),
                false => Ok(config),
            }
        });
        match config {
            Ok(config) => servers.push(config),
            Err(why) => {
                let name = excerpt::chars(name, MAX_NAME_LENGTH);
                left_out.push(not_started(&name, &why));
            }
        }
    }
    (servers, left_out)
}

/// Returns a sentence for the user about a server that is left out.
pub(super) fn not_started(name: &str, why: &str) -> String {
    format!("The editor's MCP server `{name}` is left out: {why}.")
}

/// Returns the server if the user can be shown what starts.
fn shown(config: ServerConfig) -> Result<ServerConfig, String> {
    match describe(&config).len() <= MAX_DESCRIPTION_BYTES {
        true => Ok(config),
        false => Err(format!("its command has more than {MAX_DESCRIPTION_BYTES} bytes")),
    }
}

fn describe(server: &ServerConfig) -> String {
    format!("{} ({})", server.describe(), server.grants().join("; "))
}

fn valid_name(name: &str) -> String {
    let letters = name.chars().flat_map(char::to_lowercase);
    let valid = letters.map(|c| if c.is_ascii_alphanumeric() { c } else { '-' });
    valid.take(MAX_NAME_LENGTH).collect()
}
