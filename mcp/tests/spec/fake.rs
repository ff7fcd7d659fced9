//! [`Fake`]: an in-process server whose every message the test decides.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use loopwright_mcp::{CommandLine, Launch, McpServer, Pipes, ServerBuilder, ServerConfig};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

/// The reaction of a server to a call.
pub(crate) type OnCall = Arc<dyn Fn(Value, &Peer) + Send + Sync>;

/// A server that is started through [`Launch`]. Clones share behaviour and received messages.
#[derive(Clone, Default)]
pub(crate) struct Fake(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    tools: Vec<Value>,
    on_call: Option<OnCall>,
    is_silent: bool,
    /// The delay of the first response.
    delay: Duration,
    starts: usize,
    received: Vec<Value>,
    peer: Option<Peer>,
}

/// A sender of messages to the client. [`Peer::die`] ends the connection.
#[derive(Clone)]
pub(crate) struct Peer(mpsc::UnboundedSender<Option<Vec<u8>>>);

impl Peer {
    pub(crate) fn line(&self, line: impl Into<Vec<u8>>) {
        let _ = self.0.send(Some(line.into()));
    }

    pub(crate) fn send(&self, mut message: Value) {
        message["jsonrpc"] = json!("2.0");
        self.line(message.to_string());
    }

    pub(crate) fn reply(&self, request: &Value, result: Value) {
        self.send(json!({ "id": request["id"], "result": result }));
    }

    pub(crate) fn text(&self, request: &Value, text: &str) {
        self.reply(request, json!({ "content": [{ "type": "text", "text": text }] }));
    }

    pub(crate) fn die(&self) {
        let _ = self.0.send(None);
    }
}

impl Fake {
    /// Returns a server with these tools, each with its name and description.
    pub(crate) fn new(tools: &[(&str, &str)]) -> Self {
        let fake = Fake::default();
        fake.set_tools(tools.iter().map(|(name, about)| tool(name, about)).collect());
        fake
    }

    pub(crate) fn on_call(self, on_call: impl Fn(Value, &Peer) + Send + Sync + 'static) -> Self {
        self.0.lock().unwrap().on_call = Some(Arc::new(on_call));
        self
    }

    pub(crate) fn silent(self) -> Self {
        self.0.lock().unwrap().is_silent = true;
        self
    }

    pub(crate) fn slow(self, delay: Duration) -> Self {
        self.0.lock().unwrap().delay = delay;
        self
    }

    pub(crate) fn set_tools(&self, tools: Vec<Value>) {
        self.0.lock().unwrap().tools = tools;
    }

    pub(crate) fn starts(&self) -> usize {
        self.0.lock().unwrap().starts
    }

    pub(crate) fn peer(&self) -> Peer {
        self.0.lock().unwrap().peer.clone().unwrap()
    }

    /// Returns the received messages of this method.
    pub(crate) fn received(&self, method: &str) -> Vec<Value> {
        let state = self.0.lock().unwrap();
        state.received.iter().filter(|message| message["method"] == method).cloned().collect()
    }

    /// Returns the client's response to the server's own request with this id.
    pub(crate) fn answer(&self, id: u64) -> Option<Value> {
        let state = self.0.lock().unwrap();
        let is_answer = |m: &&Value| m["id"] == id && m.get("method").is_none();
        state.received.iter().find(is_answer).cloned()
    }

    /// Returns a client of the server.
    pub(crate) fn client(&self) -> McpServer {
        self.builder().build()
    }

    pub(crate) fn builder(&self) -> ServerBuilder {
        let config = ServerConfig::read("fake", &json!({ "command": "fake" })).unwrap();
        McpServer::builder(config).launch(self.clone())
    }

    fn handle(&self, message: Value, peer: &Peer) {
        let (tools, on_call, is_silent) = {
            let mut state = self.0.lock().unwrap();
            state.received.push(message.clone());
            (state.tools.clone(), state.on_call.clone(), state.is_silent)
        };
        if is_silent || message.get("id").is_none() {
            return;
        }
        match message["method"].as_str() {
            Some("initialize") => peer.reply(
                &message,
                json!({
                    "protocolVersion": "2025-11-25",
                    "capabilities": { "tools": { "listChanged": true } },
                    "serverInfo": { "name": "fake", "version": "1" },
                }),
            ),
            Some("tools/list") => peer.reply(&message, json!({ "tools": tools })),
            Some("tools/call") => match on_call {
                Some(on_call) => on_call(message, peer),
                None => peer.text(&message, "done"),
            },
            Some(method) => peer.send(json!({
                "id": message["id"],
                "error": { "code": -32601, "message": format!("no method {method}") },
            })),
            None => {} // a response
        }
    }
}

pub(crate) fn tool(name: &str, about: &str) -> Value {
    json!({ "name": name, "description": about, "inputSchema": { "type": "object" } })
}

#[async_trait]
impl Launch for Fake {
    async fn launch(&self, _: &CommandLine) -> io::Result<Pipes> {
        let (stdout, mut to_client) = tokio::io::duplex(64 << 10);
        let (stdin, from_client): (DuplexStream, DuplexStream) = tokio::io::duplex(64 << 10);
        let (sender, mut lines) = mpsc::unbounded_channel();
        let peer = Peer(sender);
        {
            let mut state = self.0.lock().unwrap();
            state.starts += 1;
            state.peer = Some(peer.clone());
        }
        let fake = self.clone();
        let delay = self.0.lock().unwrap().delay;
        let reader = tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            let mut received = BufReader::new(from_client).lines();
            while let Ok(Some(line)) = received.next_line().await {
                fake.handle(serde_json::from_str(&line).unwrap(), &peer);
            }
        });
        let writer = tokio::spawn(async move {
            while let Some(Some(mut line)) = lines.recv().await {
                line.push(b'\n');
                if to_client.write_all(&line).await.is_err() {
                    return;
                }
            }
        });
        let guard = (AbortOnDropHandle::new(reader), AbortOnDropHandle::new(writer));
        Ok(Pipes { stdout: Box::new(stdout), stdin: Box::new(stdin), guard: Box::new(guard) })
    }
}
