//! Calls of an agent's server.

use std::sync::Arc;

use async_trait::async_trait;
use loopwright_core::event::{ExternalAction, StreamEnd};
use loopwright_core::log::{InMemoryStore, LogEntry, MemoryError};
use loopwright_core::testing::{Gate, Script, ScriptedModel, TestTool};
use loopwright_core::tool::Effect;
use loopwright_core::{AgentHandle, GenericAgent, Memory, RunContext, SessionStore};
use loopwright_mcp::server::{AgentServer, HostSession, ServedTool, SessionHost};
use loopwright_patterns::PiPattern;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines};
use tokio::sync::{Notify, mpsc};

/// A host that reports the sessions it opens.
pub(crate) struct Host {
    agent: GenericAgent,
    store: InMemoryStore,
    opened: mpsc::UnboundedSender<AgentHandle>,
    /// Lets one session close.
    close: Arc<Notify>,
    /// Opened when a preview is computed, and when it is done.
    preview: (Gate, Gate),
}

/// A log that closes once it is notified.
struct Closing(Arc<dyn Memory>, Arc<Notify>);

#[async_trait]
impl Memory for Closing {
    async fn append(&self, at: u64, entries: Arc<[LogEntry]>) -> Result<(), MemoryError> {
        self.0.append(at, entries).await
    }

    async fn load(&self, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        self.0.load(from).await
    }

    async fn close(&self) {
        self.1.notified().await;
        self.0.close().await;
    }
}

impl Host {
    pub(crate) fn new(agent: GenericAgent) -> (Self, mpsc::UnboundedReceiver<AgentHandle>) {
        let (opened, opens) = mpsc::unbounded_channel();
        let (store, close, preview) = Default::default();
        (Host { agent, store, opened, close, preview }, opens)
    }
}

#[async_trait]
impl SessionHost for Host {
    fn tools(&self) -> Vec<ServedTool> {
        vec![ServedTool::agent("work", "Works.")]
    }

    async fn open(&self, _: &str, id: Option<&str>) -> Result<HostSession, String> {
        let id = id.unwrap_or("new");
        let memory = Closing(self.store.open(id).await.unwrap(), self.close.clone());
        let context = RunContext::new().session(id).memory(memory);
        let (handle, events) = self.agent.run(context).await.unwrap();
        self.opened.send(handle.clone()).unwrap();
        let (asked, done) = self.preview.clone();
        let session = HostSession::new(handle, events, Arc::new(self.store.clone()));
        Ok(session.preview(move |_| {
            let (asked, done) = (asked.clone(), done.clone());
            async move {
                asked.open();
                done.wait().await;
                None
            }
        }))
    }

    fn how_to_decide(&self, _: &str, _: &ExternalAction) -> String {
        String::new()
    }
}

/// A client that is connected to a server of a host.
pub(crate) struct Client {
    to_server: DuplexStream,
    lines: Lines<BufReader<DuplexStream>>,
}

impl Client {
    pub(crate) async fn connect(host: Host) -> Self {
        let ((input, to_server), (from_server, output)) =
            (tokio::io::duplex(10_000), tokio::io::duplex(10_000));
        tokio::spawn(AgentServer::new("test", "1", Arc::new(host)).serve(input, output));
        let mut client = Client { to_server, lines: BufReader::new(from_server).lines() };
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": { "elicitation": {} },
            "clientInfo": { "name": "test", "version": "1" },
        });
        client.send(json!({ "id": 0, "method": "initialize", "params": params })).await;
        assert!(client.response(0).await.to_string().contains("serverInfo"));
        client.send(json!({ "method": "notifications/initialized" })).await;
        client
    }

    async fn send(&mut self, mut message: Value) {
        message["jsonrpc"] = "2.0".into();
        self.line(message.to_string()).await;
    }

    pub(crate) async fn line(&mut self, line: impl Into<Vec<u8>>) {
        let mut line = line.into();
        line.push(b'\n');
        self.to_server.write_all(&line).await.unwrap();
    }

    pub(crate) async fn next(&mut self) -> Value {
        serde_json::from_str(&self.lines.next_line().await.unwrap().unwrap()).unwrap()
    }

    async fn call(&mut self, id: u32, session: &str) {
        let arguments = json!({ "message": "Go.", "session": session });
        let params = json!({ "name": "work", "arguments": arguments });
        self.send(json!({ "id": id, "method": "tools/call", "params": params })).await;
    }

    async fn cancel(&mut self, id: u32) {
        let params = json!({ "requestId": id });
        self.send(json!({ "method": "notifications/cancelled", "params": params })).await;
    }

    /// Waits for the response to a request. Requests of the server are not answered.
    async fn response(&mut self, id: u32) -> Value {
        loop {
            let message = self.next().await;
            if message["id"] == id && message["method"].is_null() {
                return message;
            }
        }
    }
}

/// C358: A call waits until the cancelled calls of its session have closed it. Calls in other
/// sessions do not wait. A call that is cancelled while it waits does nothing.
#[tokio::test]
async fn a_call_waits_for_the_cancelled_ones_of_its_session() {
    let model = ScriptedModel::new([]).default_reply(Script::new().hang());
    let agent = GenericAgent::builder(model, PiPattern).build().unwrap();
    let (host, mut opens) = Host::new(agent);
    let close = host.close.clone();
    let mut client = Client::connect(host).await;
    client.call(1, "s").await;
    assert_eq!(&**opens.recv().await.unwrap().id(), "s");
    client.cancel(1).await;
    client.call(2, "s").await;
    client.cancel(2).await;
    client.call(3, "s").await;
    client.call(4, "t").await;
    assert_eq!(&**opens.recv().await.unwrap().id(), "t");
    close.notify_one();
    assert_eq!(&**opens.recv().await.unwrap().id(), "s");
    assert!(opens.try_recv().is_err(), "the call that was cancelled has opened its session");
}

/// C358: A call that was slow to read the events of its session misses none of them.
#[tokio::test]
async fn a_call_that_lags_learns_of_decisions_and_the_end() {
    let model =
        ScriptedModel::new([Script::calls([("c", "pay", json!({}))]), Script::text("It is paid.")]);
    let tool = TestTool::new("pay").effect(Effect::AtMostOnce).answers("paid");
    let agent = GenericAgent::builder(model, PiPattern).tool(tool).build().unwrap();
    let (host, mut opens) = Host::new(agent);
    host.close.notify_one();
    let (asked, done) = host.preview.clone();
    let mut client = Client::connect(host).await;
    client.call(1, "s").await;
    let handle = opens.recv().await.unwrap();
    asked.wait().await; // the call reads no events meanwhile
    let stream = handle.subscribe();
    let text = "x".repeat(1_000_000);
    while stream.end() != Some(StreamEnd::Lagged) {
        handle.follow_up(text.as_str()).await.unwrap();
        handle.clear_queues().await.unwrap();
    }
    let action = handle.pending().await.unwrap().remove(0);
    handle.approve(&action).await.unwrap();
    handle.wait_for_idle().await;
    done.open();
    let response = client.response(1).await.to_string();
    assert!(response.contains("It is paid."), "{response}");
}
