//! [`ServerConfig`]: the settings of an MCP server.

use std::collections::BTreeMap;
use std::time::Duration;

use loopwright_core::hex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The settings of an MCP server: its name, its transport and what it may do.
///
/// ```
/// use loopwright_mcp::ServerConfig;
/// use serde_json::json;
///
/// let settings = json!({ "command": "npx", "args": ["-y", "@example/server"], "env": ["TOKEN"] });
/// let config = ServerConfig::read("example", &settings)?;
/// assert_eq!(config.name(), "example");
/// # Ok::<_, loopwright_mcp::ConfigError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ServerConfig {
    name: String,
    /// The transport to the server.
    pub transport: Transport,
    /// The time limit of a call of the server's tools. `None` for the agent's limit.
    pub timeout: Option<Duration>,
    /// `true` to trust the server's claims that a tool changes nothing: calls of such tools then
    /// run without approval.
    pub trust_annotations: bool,
    digest: String,
}

/// The transport to a server.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Transport {
    /// A command that speaks the protocol on its standard input and output.
    Stdio(CommandLine),
    /// An address that speaks streamable HTTP.
    Http(Endpoint),
}

/// The command of a server.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct CommandLine {
    /// The name or path of the program.
    pub program: String,
    /// The arguments of the program.
    pub args: Vec<String>,
    /// The names of the environment variables of this process that the command gets.
    pub env: Vec<String>,
    /// Further environment variables of the command, with their values. Settings in files have
    /// none.
    pub variables: BTreeMap<String, String>,
    /// `true` to give the command access to the network.
    pub network: bool,
    /// `true` to run the command without confinement.
    pub unconfined: bool,
    /// Readable paths, in addition to the workspace and the system's directories.
    pub readable: Vec<String>,
    /// Writable paths, in addition to the workspace.
    pub writable: Vec<String>,
}

/// The address of a server, and the headers for it.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Endpoint {
    /// The URL of the streamable HTTP endpoint.
    pub url: String,
    /// The headers of each request. `${NAME}` in a value stands for an environment variable of this
    /// process.
    pub headers: BTreeMap<String, String>,
}

/// An error in the settings of a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the MCP server `{name}`: {why}")]
pub struct ConfigError {
    name: String,
    why: String,
}

/// The maximum length of a server's name. Names of tools begin with it, and have at most 64
/// characters.
const MAX_NAME_LENGTH: usize = 32;

/// The table `[mcp.NAME]` of the settings.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: Vec<String>,
    #[serde(skip_deserializing, skip_serializing_if = "BTreeMap::is_empty")]
    variables: BTreeMap<String, String>,
    #[serde(default)]
    network: bool,
    #[serde(default)]
    unconfined: bool,
    #[serde(default)]
    readable: Vec<String>,
    #[serde(default)]
    writable: Vec<String>,
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    timeout: Option<u32>,
    #[serde(default)]
    trust_annotations: bool,
}

impl ServerConfig {
    /// Returns the settings of a server without its own time limit, whose annotations are not
    /// trusted.
    ///
    /// # Errors
    ///
    /// Fails if the name has more than 32 characters, or others than lower-case letters, digits and
    /// `-`, or if the transport is incomplete.
    pub fn new(name: impl Into<String>, transport: Transport) -> Result<Self, ConfigError> {
        let settings = Settings::of(&transport);
        Self::of(&name.into(), settings)
    }

    /// Reads the settings of a server: the table `[mcp.NAME]`.
    ///
    /// # Errors
    ///
    /// Fails if a setting is unknown, missing or invalid, and names the setting.
    pub fn read(name: &str, settings: &Value) -> Result<Self, ConfigError> {
        let settings = Settings::deserialize(settings).map_err(|why| error(name, why))?;
        Self::of(name, settings)
    }

    fn of(name: &str, settings: Settings) -> Result<Self, ConfigError> {
        let is_valid = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || name.len() > MAX_NAME_LENGTH || !name.chars().all(is_valid) {
            let why = "the name must have 1 to 32 characters: lower-case letters, digits and `-`";
            return Err(error(name, why));
        }
        let text = serde_json::to_string(&settings).map_err(|why| error(name, why))?;
        let timeout = settings.timeout.map(|seconds| Duration::from_secs(seconds.into()));
        if timeout == Some(Duration::ZERO) {
            return Err(error(name, "`timeout` must be at least 1 second"));
        }
        let trust_annotations = settings.trust_annotations;
        let transport = settings.transport().map_err(|why| error(name, why))?;
        let digest = digest(&text);
        Ok(ServerConfig { name: name.into(), transport, timeout, trust_annotations, digest })
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns a digest of all settings. It changes with each of them.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns the command line or the URL, in one line for the user.
    pub fn describe(&self) -> String {
        let line = match &self.transport {
            Transport::Stdio(command) => {
                let words = std::iter::once(&command.program).chain(&command.args);
                words.map(String::as_str).collect::<Vec<_>>().join(" ")
            }
            Transport::Http(endpoint) => endpoint.url.clone(),
        };
        line.replace(char::is_control, " ")
    }

    /// Returns what the settings grant the server. Each grant is part of a sentence for the user
    /// who accepts the server.
    pub fn grants(&self) -> Vec<String> {
        let mut grants = Vec::new();
        let mut list = |what: &str, of: &[String]| {
            if !of.is_empty() {
                grants.push(format!("{what} {}", of.join(", ")));
            }
        };
        match &self.transport {
            Transport::Stdio(command) => {
                let variables = command.env.iter().chain(command.variables.keys());
                list("gets the variables", &variables.cloned().collect::<Vec<_>>());
                list("reads", &command.readable);
                list("writes", &command.writable);
                if command.network {
                    grants.push("has the network".into());
                }
                if command.unconfined {
                    grants.push("is not confined".into());
                }
            }
            Transport::Http(endpoint) => {
                let headers = endpoint.headers.iter();
                let headers: Vec<_> = headers.map(|(name, v)| format!("{name}: {v}")).collect();
                list("gets the headers", &headers);
            }
        }
        if self.trust_annotations {
            grants.push("decides which of its tools run without approval".into());
        }
        grants
    }
}

impl Settings {
    fn of(transport: &Transport) -> Self {
        let (command, endpoint) = match transport {
            Transport::Stdio(command) => (Some(command.clone()), None),
            Transport::Http(endpoint) => (None, Some(endpoint.clone())),
        };
        let (url, headers) = endpoint.map(|e| (Some(e.url), e.headers)).unwrap_or_default();
        let program = command.as_ref().map(|command| command.program.clone());
        let CommandLine { args, env, variables, network, unconfined, readable, writable, .. } =
            command.unwrap_or_default();
        Settings {
            command: program,
            args,
            env,
            variables,
            network,
            unconfined,
            readable,
            writable,
            url,
            headers,
            timeout: None,
            trust_annotations: false,
        }
    }

    fn transport(self) -> Result<Transport, String> {
        let Settings {
            command, args, env, variables, network, unconfined, readable, writable, ..
        } = self;
        match (command, self.url) {
            (Some(_), Some(_)) => Err("`command` and `url` exclude each other".into()),
            (None, None) => Err("it needs `command` or `url`".into()),
            (Some(program), None) => {
                if program.trim().is_empty() {
                    return Err("`command` is empty".into());
                }
                if !self.headers.is_empty() {
                    return Err("`headers` belong to a `url`".into());
                }
                if let Some(name) = variables.keys().find(|name| !is_variable(name)) {
                    return Err(format!("`{name}` is not the name of a variable"));
                }
                if let Some(name) = env.iter().find(|name| !is_variable(name)) {
                    let name = name.split('=').next().unwrap_or_default();
                    return Err(format!(
                        "`env` lists the names of variables, and not their values: `{name}` is \
                         none. Set it in the environment, and name it here"
                    ));
                }
                let is_open = !readable.is_empty() || !writable.is_empty() || network;
                if unconfined && is_open {
                    return Err(
                        "`unconfined` commands can read, write and reach everything: remove \
                         `network`, `readable` and `writable`, or `unconfined`"
                            .into(),
                    );
                }
                Ok(Transport::Stdio(CommandLine {
                    program,
                    args,
                    env,
                    variables,
                    network,
                    unconfined,
                    readable,
                    writable,
                }))
            }
            (None, Some(url)) => {
                let parsed = reqwest::Url::parse(&url).map_err(|why| format!("`url`: {why}"))?;
                if !["https", "http"].contains(&parsed.scheme()) {
                    return Err("`url` must begin with `https://` or `http://`".into());
                }
                let host = parsed.host_str().unwrap_or_default();
                let is_here = ["localhost", "127.0.0.1", "[::1]"].contains(&host);
                if parsed.scheme() == "http" && !is_here && !self.headers.is_empty() {
                    return Err("`url` must begin with `https://`, since its `headers` would be \
                                sent without encryption"
                        .into());
                }
                let of_command = !args.is_empty() || !env.is_empty() || unconfined || network;
                if of_command || !readable.is_empty() || !writable.is_empty() {
                    return Err(
                        "`args`, `env`, `network`, `unconfined`, `readable` and `writable` \
                                belong to a `command`"
                            .into(),
                    );
                }
                for (name, value) in &self.headers {
                    if let Err(why) = expand(value, |_| Some("x".into())) {
                        return Err(format!("the header `{name}`: {why}"));
                    }
                    let is_secret = ["authorization", "cookie", "x-api-key"]
                        .contains(&name.to_ascii_lowercase().as_str());
                    if is_secret && !value.contains("${") {
                        return Err(format!(
                            "the header `{name}` is a secret, which does not belong into a file: \
                             write `${{NAME}}` for a variable of the environment"
                        ));
                    }
                }
                Ok(Transport::Http(Endpoint { url, headers: self.headers }))
            }
        }
    }
}

/// Returns the template with each `${NAME}` replaced by `variable(NAME)`.
pub(crate) fn expand(
    template: &str,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<String, String> {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("${") {
        let (name, after) = after.split_once('}').ok_or("`${` has no `}`")?;
        if !is_variable(name) {
            return Err(format!("`{name}` is not the name of a variable"));
        }
        let value = variable(name);
        text += before;
        text += &value.ok_or_else(|| format!("the variable `{name}` is not set"))?;
        rest = after;
    }
    Ok(text + rest)
}

fn is_variable(name: &str) -> bool {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(is_valid)
}

/// Returns the first 128 bits of the SHA-256 hash of a text, in hexadecimal digits.
pub(crate) fn digest(text: &str) -> String {
    hex::encode(&Sha256::digest(text)[..16])
}

fn error(name: &str, why: impl ToString) -> ConfigError {
    ConfigError { name: name.chars().take(64).collect(), why: why.to_string() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_server_is_a_command_or_an_address() {
        let config = ServerConfig::read("a", &json!({"command": "x", "env": ["A_B"]})).unwrap();
        let Transport::Stdio(command) = &config.transport else { panic!() };
        assert_eq!((command.program.as_str(), command.env.len()), ("x", 1));
        let headers = json!({"Authorization": "Bearer ${TOKEN}", "X-Team": "red"});
        let settings = json!({"url": "https://example.org/mcp", "headers": headers});
        let config = ServerConfig::read("b", &settings).unwrap();
        assert_eq!(config.describe(), "https://example.org/mcp");
        assert_eq!(ServerConfig::new("b", config.transport.clone()).unwrap(), config);
    }

    #[test]
    fn each_error_says_what_is_wrong() {
        for (name, settings, expected) in [
            ("A", json!({"command": "x"}), "lower-case letters"),
            ("a", json!({}), "needs `command` or `url`"),
            ("a", json!(7), "invalid type"),
            ("a", json!({"command": "x", "url": "https://a"}), "exclude each other"),
            ("a", json!({"command": " "}), "`command` is empty"),
            ("a", json!({"command": "x", "comand": 1}), "unknown field `comand`"),
            ("a", json!({"command": "x", "env": ["TOKEN=sk-1"]}), "`TOKEN` is none"),
            ("a", json!({"command": "x", "headers": {"a": "b"}}), "belong to a `url`"),
            ("a", json!({"command": "x", "unconfined": true, "network": true}), "`unconfined`"),
            ("a", json!({"command": "x", "timeout": 0}), "at least 1 second"),
            ("a", json!({"url": "ftp://a"}), "must begin with"),
            ("a", json!({"url": "https://"}), "`url`: "),
            ("a", json!({"url": "http://a", "headers": {"X": "y"}}), "without encryption"),
            ("a", json!({"url": "https://a", "args": ["b"]}), "belong to a `command`"),
            ("a", json!({"url": "https://a", "headers": {"Cookie": "s=1"}}), "is a secret"),
            ("a", json!({"url": "https://a", "headers": {"X": "${"}}), "has no `}`"),
            ("a", json!({"url": "https://a", "headers": {"X": "${a b}"}}), "not the name"),
        ] {
            let why = ServerConfig::read(name, &settings).unwrap_err().to_string();
            assert!(why.contains(expected) && !why.contains("sk-1"), "{settings}: {why}");
        }
    }

    #[test]
    fn the_digest_changes_with_each_setting() {
        let digest = |settings| ServerConfig::read("a", &settings).unwrap().digest().to_owned();
        let first = digest(json!({"command": "x"}));
        assert_eq!(first, digest(json!({"command": "x", "args": []})));
        for other in [
            json!({"command": "y"}),
            json!({"command": "x", "args": ["y"]}),
            json!({"command": "x", "unconfined": true}),
            json!({"url": "https://x"}),
        ] {
            assert_ne!(first, digest(other));
        }
    }

    #[test]
    fn what_is_granted_is_listed() {
        let grants = |settings| ServerConfig::read("a", &settings).unwrap().grants().join("; ");
        assert_eq!(grants(json!({"command": "x"})), "");
        let command = json!({
            "command": "x", "env": ["A", "B"], "readable": ["/r"], "writable": ["/w"],
            "network": true, "trust_annotations": true,
        });
        assert_eq!(
            grants(command),
            "gets the variables A, B; reads /r; writes /w; has the network; decides which of its \
             tools run without approval"
        );
        assert_eq!(grants(json!({"command": "x", "unconfined": true})), "is not confined");
        let endpoint = json!({"url": "https://x", "headers": {"X-Key": "${KEY}"}});
        assert_eq!(grants(endpoint), "gets the headers X-Key: ${KEY}");
    }

    #[test]
    fn variables_are_expanded() {
        let variable = |name: &str| (name == "A").then(|| "1".to_owned());
        assert_eq!(expand("Bearer ${A}-${A}$", variable), Ok("Bearer 1-1$".into()));
        assert!(expand("${B}", variable).unwrap_err().contains("`B` is not set"));
    }
}
