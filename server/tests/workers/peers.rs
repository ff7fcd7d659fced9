//! The server's peers, outside of its runtime: a model over HTTP, and an MCP server.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::thread;

use loopwright_core::async_trait;
use loopwright_mcp::{CommandLine, Launch, Pipes};
use serde_json::{Value, json};

/// A model (Chat Completions) with prepared replies, each an event stream.
#[derive(Clone)]
pub(crate) struct Model {
    pub(crate) address: SocketAddr,
    replies: Arc<Mutex<VecDeque<String>>>,
}

impl Model {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let model = Model { address: listener.local_addr().unwrap(), replies: Arc::default() };
        let serving = model.clone();
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let model = serving.clone();
                thread::spawn(move || model.answer(connection));
            }
        });
        model
    }

    /// Adds replies. After the last one, the reply is `done`.
    pub(crate) fn add(&self, replies: impl IntoIterator<Item = String>) {
        self.replies.lock().unwrap().extend(replies);
    }

    /// Removes the remaining replies.
    pub(crate) fn clear(&self) {
        self.replies.lock().unwrap().clear();
    }

    fn answer(&self, connection: TcpStream) -> io::Result<()> {
        let mut reader = BufReader::new(connection.try_clone()?);
        let (mut line, mut length) = (String::new(), 0);
        while reader.read_line(&mut line)? > 2 {
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
            line.clear();
        }
        io::copy(&mut reader.take(length), &mut io::sink())?;
        let reply = self.replies.lock().unwrap().pop_front();
        let reply = reply.unwrap_or_else(|| says("done"));
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n";
        let mut writer = connection;
        write!(writer, "{head}content-length: {}\r\n\r\n", reply.len())?;
        writer.write_all(reply.as_bytes())
    }
}

fn event(delta: &Value, end: Option<&str>) -> String {
    let choice = json!({ "index": 0, "delta": delta, "finish_reason": end });
    let chunk = json!({ "id": "r", "object": "chat.completion.chunk", "choices": [choice] });
    format!("data: {chunk}\n\n")
}

/// Returns a reply with this text, in one event.
pub(crate) fn says(text: &str) -> String {
    event(&json!({ "content": text }), None) + &event(&json!({}), Some("stop")) + "data: [DONE]\n\n"
}

/// Returns a reply in this many events of some bytes each.
pub(crate) fn says_in_parts(count: usize) -> String {
    let part = event(&json!({ "content": "some words " }), None);
    part.repeat(count) + &event(&json!({}), Some("stop")) + "data: [DONE]\n\n"
}

/// Returns a reply that calls a tool, with its arguments in one event.
pub(crate) fn calls(tool: &str, arguments: &str) -> String {
    let function = json!({ "name": tool, "arguments": arguments });
    let call = json!({ "index": 0, "id": "call", "type": "function", "function": function });
    event(&json!({ "tool_calls": [call] }), None)
        + &event(&json!({}), Some("tool_calls"))
        + "data: [DONE]\n\n"
}

/// An MCP server with these tools.
#[derive(Clone)]
pub(crate) struct ToolServer(pub(crate) Arc<Vec<Value>>);

impl ToolServer {
    fn answer(&self, message: &Value) -> Option<Value> {
        let id = message.get("id")?;
        let result = match message["method"].as_str()? {
            "initialize" => json!({
                "protocolVersion": "2025-11-25",
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "hostile", "version": "1" },
            }),
            "tools/list" => json!({ "tools": *self.0 }),
            _ => json!({ "content": [{ "type": "text", "text": "x".repeat(8 << 20) }] }),
        };
        Some(json!({ "jsonrpc": "2.0", "id": id, "result": result }))
    }
}

#[async_trait]
impl Launch for ToolServer {
    async fn launch(&self, _: &CommandLine) -> io::Result<Pipes> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let server = self.clone();
        thread::spawn(move || {
            let mut writer = theirs.try_clone()?;
            for line in BufReader::new(theirs).lines() {
                if let Some(answer) = server.answer(&serde_json::from_str(&line?)?) {
                    writer.write_all(format!("{answer}\n").as_bytes())?;
                }
            }
            io::Result::Ok(())
        });
        let (stdout, stdin) = tokio::net::UnixStream::from_std(ours)?.into_split();
        Ok(Pipes { stdout: Box::new(stdout), stdin: Box::new(stdin), guard: Box::new(()) })
    }
}
