//! The messages of a client: JSON-RPC 2.0 requests, notifications and responses.

use std::path::PathBuf;
use std::sync::Arc;

use loopwright_core::message::UserMessage;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::prompt::{ContentBlock, user_message};
use crate::error::DecodeError;
use crate::rpc::{RpcError, RpcMessage};

/// The maximum number of MCP servers of a session.
const MAX_MCP_SERVERS: usize = 32;

/// A message of the client. Its ids are JSON-RPC 2.0's: numbers, strings or `null`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ClientMessage {
    /// A request, which must be answered, and its id.
    Request(Value, ClientRequest),
    /// The notification `session/cancel` for this session.
    Cancel(Arc<str>),
    /// The response to the agent's request with this id.
    Response(Value, Result<Value, RpcError>),
    /// An unknown notification, which JSON-RPC 2.0 leaves unanswered.
    Other,
}

/// A request of the client, by its method. The id of the session comes first, if the request names
/// one.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ClientRequest {
    /// The method `initialize`, which opens a connection.
    Initialize {
        /// `true` if the client shows forms: `clientCapabilities.elicitation.form`.
        has_forms: bool,
    },
    /// The method `session/new`.
    NewSession(Surroundings),
    /// `session/load`: opens a session and sends its history.
    LoadSession(Arc<str>, Surroundings),
    /// `session/resume`: opens a session without sending its history.
    ResumeSession(Arc<str>, Surroundings),
    /// The method `session/list`.
    ListSessions {
        /// The directory; `None` for sessions of all directories.
        cwd: Option<PathBuf>,
        /// The end of the previous page.
        cursor: Option<String>,
    },
    /// The method `session/close` for this session.
    CloseSession(Arc<str>),
    /// `session/set_mode` to the mode with this id.
    SetMode(Arc<str>, String),
    /// `session/prompt` with this message.
    Prompt(Arc<str>, UserMessage),
}

/// The directory and the MCP servers that the client provides for a session.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Surroundings {
    /// The working directory, an absolute path.
    pub cwd: PathBuf,
    /// The MCP servers that the user has set up in the client.
    pub mcp_servers: Vec<McpServer>,
}

/// An MCP server of the client.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct McpServer {
    /// The name of the server.
    pub name: String,
    /// The program, which speaks MCP on its standard input and output. `None` for a server with
    /// another transport, which the agent has not offered.
    pub command: Option<String>,
    /// The arguments of the program.
    #[serde(default)]
    pub args: Vec<String>,
    /// The environment variables that the program gets besides a few of the agent's.
    #[serde(default)]
    pub env: Vec<Variable>,
}

/// An environment variable.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Variable {
    /// The name of the variable.
    pub name: String,
    /// The value of the variable.
    pub value: String,
}

/// The parameters of all methods.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    session_id: Option<Arc<str>>,
    cwd: Option<PathBuf>,
    cursor: Option<String>,
    mode_id: Option<String>,
    prompt: Option<Vec<ContentBlock>>,
    mcp_servers: Option<Vec<McpServer>>,
    #[serde(default)]
    client_capabilities: Value,
}

/// Parses a line of the client.
///
/// # Errors
///
/// Returns the error response and the id of the request if the line is not a JSON-RPC 2.0 message,
/// its method is unknown, or its parameters are invalid.
pub fn decode(line: &[u8]) -> Result<ClientMessage, (Value, RpcError)> {
    let message = RpcMessage::decode(line)?;
    let method = message.method.as_deref();
    match (method, message.id) {
        (Some(method), Some(id)) => match request(method, message.params) {
            Ok(request) => Ok(ClientMessage::Request(id, request)),
            Err(error) => Err((id, error)),
        },
        (Some("session/cancel"), None) => {
            let params = Params::read(message.params).and_then(|mut params| params.session());
            params.map(ClientMessage::Cancel).map_err(|error| (Value::Null, error.into()))
        }
        (Some(_), None) => Ok(ClientMessage::Other),
        (None, Some(id)) => {
            Ok(ClientMessage::Response(id, message.error.map_or(Ok(message.result), Err)))
        }
        (None, None) => {
            let why = "The message has neither `method` nor `id`.";
            Err((Value::Null, RpcError::invalid_request(why)))
        }
    }
}

fn request(method: &str, params: Value) -> Result<ClientRequest, RpcError> {
    let mut params = Params::read(params)?;
    Ok(match method {
        "initialize" => {
            let has_forms = !params.client_capabilities["elicitation"]["form"].is_null();
            ClientRequest::Initialize { has_forms }
        }
        "session/new" => ClientRequest::NewSession(params.surroundings()?),
        "session/load" => ClientRequest::LoadSession(params.session()?, params.surroundings()?),
        "session/resume" => ClientRequest::ResumeSession(params.session()?, params.surroundings()?),
        "session/list" => ClientRequest::ListSessions { cwd: params.cwd, cursor: params.cursor },
        "session/close" => ClientRequest::CloseSession(params.session()?),
        "session/set_mode" => {
            ClientRequest::SetMode(params.session()?, required(params.mode_id, "modeId")?)
        }
        "session/prompt" => {
            let message = user_message(required(params.prompt.take(), "prompt")?)?;
            ClientRequest::Prompt(params.session()?, message)
        }
        _ => {
            let why = format!("The method `{method}` is not known.");
            return Err(RpcError::unknown_method(why));
        }
    })
}

fn required<T>(value: Option<T>, name: &str) -> Result<T, DecodeError> {
    value.ok_or_else(|| DecodeError::at(format!("/params/{name}"), "the parameter is missing"))
}

impl Params {
    fn read(params: Value) -> Result<Params, DecodeError> {
        let params = if params.is_null() { Value::Object(Map::new()) } else { params };
        Params::deserialize(params).map_err(|why| DecodeError::at("/params", why.to_string()))
    }

    fn session(&mut self) -> Result<Arc<str>, DecodeError> {
        required(self.session_id.take(), "sessionId")
    }

    fn surroundings(&mut self) -> Result<Surroundings, DecodeError> {
        let cwd = required(self.cwd.take(), "cwd")?;
        if !cwd.is_absolute() {
            return Err(DecodeError::at("/params/cwd", "the directory must be an absolute path"));
        }
        let mcp_servers = self.mcp_servers.take().unwrap_or_default();
        if mcp_servers.len() > MAX_MCP_SERVERS {
            let why = format!("there are more than {MAX_MCP_SERVERS} servers");
            return Err(DecodeError::at("/params/mcpServers", why));
        }
        Ok(Surroundings { cwd, mcp_servers })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn code(line: &[u8]) -> (Value, i32) {
        let (id, error) = decode(line).unwrap_err();
        (id, error.code)
    }

    fn read(method: &str, params: Value) -> Result<ClientMessage, (Value, RpcError)> {
        let message = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
        decode(message.to_string().as_bytes())
    }

    /// C468: An id is found even where the line is not JSON.
    #[test]
    fn what_is_no_message_is_refused_under_its_id() {
        let number = json!(7);
        for (line, id, expected) in [
            (&b"{"[..], Value::Null, -32700),
            (b"\xff", Value::Null, -32700),
            (b"", Value::Null, -32700),
            (b"[]", Value::Null, -32600),
            (br#"{"id":7,"method":"initialize"}"#, number.clone(), -32600),
            (br#"{"jsonrpc":"1.0","id":7,"method":"initialize"}"#, number.clone(), -32600),
            (br#"{"jsonrpc":"2.0"}"#, Value::Null, -32600),
            (br#"{"id":7,"result":{}}"#, Value::Null, -32600),
            (br#"{"jsonrpc":"2.0","id":[7],"method":"initialize"}"#, Value::Null, -32600),
            (br#"{"jsonrpc":"2.0","id":7,"method":"a/b"}"#, number.clone(), -32601),
            (br#"{"jsonrpc":"2.0","id":7,"method":"session/new"}"#, number, -32602),
            (br#"{"jsonrpc":"2.0","method":"session/cancel"}"#, Value::Null, -32602),
        ] {
            assert_eq!(code(line), (id, expected), "{}", String::from_utf8_lossy(line));
        }
        let deep = "[".repeat(100_000);
        assert_eq!(code(deep.as_bytes()), (Value::Null, -32700));
        let request = |params: &str| {
            let line = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"a/b","params":{params}}}"#);
            code(line.as_bytes())
        };
        assert_eq!(request(&deep), (json!(7), -32700));
        assert_eq!(request(&format!("[{}0]", "0,".repeat(300_000))), (json!(7), -32600));
        let response = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{deep}"#);
        assert_eq!(code(response.as_bytes()), (Value::Null, -32700));
    }

    #[test]
    fn parameters_that_do_not_fit_are_named() {
        let why = |method, params| read(method, params).unwrap_err().1.message;
        let relative = json!({ "cwd": "src", "mcpServers": [] });
        assert!(why("session/new", relative).starts_with("/params/cwd: "));
        assert!(why("session/prompt", json!({ "sessionId": "s" })).starts_with("/params/prompt: "));
        let audio = json!({ "sessionId": "s", "prompt": [{ "type": "audio", "data": "" }] });
        assert!(why("session/prompt", audio).starts_with("/params/prompt/0: "));
    }

    /// C469: JavaScript splits a pair when it cuts a text.
    #[test]
    fn half_an_emoji_is_replaced() {
        let prompt = br#"{"jsonrpc":"2.0","id":7,"method":"session/prompt",
            "params":{"sessionId":"s","prompt":[{"type":"text","text":"Hi \ud83d"}]}}"#;
        let Ok(ClientMessage::Request(_, ClientRequest::Prompt(_, message))) = decode(prompt)
        else {
            panic!("no prompt");
        };
        assert_eq!(message.text(), "Hi \u{fffd}");
    }

    #[test]
    fn the_servers_of_the_client_are_read() {
        let servers = json!([
            {
                "name": "Files",
                "command": "/bin/files",
                "args": ["."],
                "env": [{ "name": "A", "value": "b" }],
            },
            { "type": "http", "name": "web", "url": "https://a/b", "headers": [] },
        ]);
        let params = json!({ "cwd": "/w", "mcpServers": servers });
        let Ok(ClientMessage::Request(_, ClientRequest::NewSession(new))) =
            read("session/new", params)
        else {
            panic!("no request");
        };
        let [files, web] = &new.mcp_servers[..] else { panic!("{new:?}") };
        let command = (&*files.name, files.command.as_deref(), &files.args[..]);
        assert_eq!(command, ("Files", Some("/bin/files"), &[".".to_owned()][..]));
        assert_eq!((&*files.env[0].name, &*files.env[0].value), ("A", "b"));
        assert_eq!((&*web.name, &web.command), ("web", &None));
        let many = vec![json!({ "name": "a" }); MAX_MCP_SERVERS + 1];
        let params = json!({ "cwd": "/w", "mcpServers": many });
        let why = read("session/new", params).unwrap_err().1.message;
        assert!(why.starts_with("/params/mcpServers: "), "{why}");
    }

    #[test]
    fn requests_notifications_and_responses_are_read() {
        let initialize = |capabilities: Value| {
            let params = json!({ "protocolVersion": 2, "clientCapabilities": capabilities });
            let Ok(ClientMessage::Request(_, request)) = read("initialize", params) else {
                panic!("no request");
            };
            request == ClientRequest::Initialize { has_forms: true }
        };
        assert!(initialize(json!({ "elicitation": { "form": {} } })));
        assert!(!initialize(json!({ "elicitation": { "url": {}, "form": null } })));
        assert!(!initialize(json!({ "elicitation": null })));
        let cancel = br#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}"#;
        assert_eq!(decode(cancel), Ok(ClientMessage::Cancel("s".into())));
        let other = br#"{"jsonrpc":"2.0","method":"_x/y"}"#;
        assert_eq!(decode(other), Ok(ClientMessage::Other));
        let failed = br#"{"jsonrpc":"2.0","id":"a","error":{"code":1,"message":"no"}}"#;
        let result = Err(RpcError::new(1, "no"));
        let id = json!("a");
        assert_eq!(decode(failed), Ok(ClientMessage::Response(id, result)));
    }
}
