//! Any lines from an MCP server, an MCP client, and an editor.

use std::io;
use std::sync::Arc;

use loopwright_core::ToolContext;
use loopwright_core::event::ExternalAction;
use loopwright_core::tool::ToolSource as _;
use loopwright_mcp::server::{AgentServer, HostSession, ServedTool, SessionHost};
use loopwright_mcp::{CommandLine, Launch, McpServer, Pipes, ServerConfig};
use loopwright_protocols::acp::{self, ClientMessage};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};

use crate::worker::run_task;

/// The size of the pipes. No answer waits for a reader.
const PIPE_BYTES: usize = 1 << 20;

/// Lists the tools of a server and calls one, with these lines before each of its answers. Then
/// serves a client with these lines, and reads them as an editor's. Panics, or never returns, if a
/// line stops one of these, or if the answer to an editor's request would not have its id.
pub fn check_frames(bytes: &[u8]) {
    for line in bytes.split(|byte| *byte == b'\n') {
        check_editor(line);
    }
    run_task("the lines of a server", async {
        let config = ServerConfig::read("s", &json!({ "command": "s" })).expect("a server");
        let server = McpServer::builder(config).launch(Lines(bytes.into())).build();
        let tools = server.tools().await.expect("tools");
        for tool in tools.iter().take(4) {
            let _ = tool.call(&json!({}), ToolContext::detached()).await;
        }
    });
    run_task("the lines of a client", async {
        let (mut client, input) = tokio::io::duplex(PIPE_BYTES);
        let (output, mut answers) = tokio::io::duplex(PIPE_BYTES);
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": "c", "version": "1" },
        });
        let start = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        client.write_all(format!("{start}\n").as_bytes()).await.expect("a pipe");
        client.write_all(bytes).await.expect("a pipe");
        drop(client);
        let _ = AgentServer::new("a", "1", Arc::new(Host)).serve(input, output).await;
        let mut text = String::new();
        answers.read_to_string(&mut text).await.expect("text");
        for line in text.lines() {
            let answer: Value = serde_json::from_str(line).expect("JSON");
            assert_eq!(answer["jsonrpc"], "2.0");
        }
    });
}

/// Panics if what is read from an editor's request has another id than the request.
fn check_editor(line: &[u8]) {
    let id = match acp::decode(line) {
        Ok(ClientMessage::Request(id, _)) | Err((id, _)) => id,
        _ => return,
    };
    let sent: Value = serde_json::from_slice(line).unwrap_or_default();
    if sent["method"].is_string() && (sent["id"].is_number() || sent["id"].is_string()) {
        assert_eq!(id, sent["id"]);
    }
}

/// A server that sends these lines before each of its answers.
#[derive(Clone)]
struct Lines(Arc<[u8]>);

impl Lines {
    /// Returns what the server sends after a message, if anything.
    fn answer(&self, message: &Value) -> Option<Vec<u8>> {
        let id = message.get("id")?;
        let result = match message["method"].as_str()? {
            "initialize" => json!({
                "protocolVersion": "2025-11-25",
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "s", "version": "1" },
            }),
            "tools/list" => json!({ "tools": [{ "name": "a", "inputSchema": {} }] }),
            "tools/call" => json!({ "content": [] }),
            _ => {
                let error = json!({ "code": -32601, "message": "unknown" });
                let answer = json!({ "jsonrpc": "2.0", "id": id, "error": error });
                return Some(format!("{answer}\n").into_bytes());
            }
        };
        let answer = json!({ "jsonrpc": "2.0", "id": id, "result": result });
        let mut lines = match message["method"] == "initialize" {
            true => Vec::new(), // the session must start
            false => self.0.to_vec(),
        };
        lines.extend_from_slice(format!("\n{answer}\n").as_bytes());
        Some(lines)
    }
}

#[async_trait::async_trait]
impl Launch for Lines {
    async fn launch(&self, _: &CommandLine) -> io::Result<Pipes> {
        let (stdout, mut to_client) = tokio::io::duplex(PIPE_BYTES);
        let (stdin, from_client) = tokio::io::duplex(PIPE_BYTES);
        let server = self.clone();
        let task = tokio::spawn(async move {
            let mut messages = BufReader::new(from_client).lines();
            while let Ok(Some(line)) = messages.next_line().await {
                let message = serde_json::from_str(&line).expect("JSON");
                let Some(answer) = server.answer(&message) else { continue };
                if to_client.write_all(&answer).await.is_err() {
                    return;
                }
            }
        });
        Ok(Pipes { stdout: Box::new(stdout), stdin: Box::new(stdin), guard: Box::new(task) })
    }
}

/// A host without sessions.
struct Host;

#[async_trait::async_trait]
impl SessionHost for Host {
    fn tools(&self) -> Vec<ServedTool> {
        vec![ServedTool::agent("work", "Works.")]
    }

    async fn open(&self, _: &str, _: Option<&str>) -> Result<HostSession, String> {
        Err("There are no sessions.".into())
    }

    fn how_to_decide(&self, _: &str, _: &ExternalAction) -> String {
        String::new()
    }
}
