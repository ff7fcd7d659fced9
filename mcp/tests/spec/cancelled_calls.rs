//! Cancelled calls of an agent's server.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use loopwright_core::agent::InputError;
use loopwright_core::event::{Envelope, ExternalAction, InputEvent, RunOutcome};
use loopwright_mcp::server::{AgentServer, HostSession, ServedTool, SessionHost};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

/// A host that reports the sessions it opens. A session works until it is aborted, and closes once
/// `close` is notified.
struct Host {
    opened: mpsc::UnboundedSender<String>,
    close: Arc<Notify>,
}

struct Session {
    id: String,
    aborted: CancellationToken,
    close: Arc<Notify>,
}

#[async_trait]
impl SessionHost for Host {
    fn tools(&self) -> Vec<ServedTool> {
        vec![ServedTool::agent("work", "Works.")]
    }

    async fn open(&self, _: &str, id: Option<&str>) -> Result<Box<dyn HostSession>, String> {
        let id = id.unwrap_or("new").to_owned();
        self.opened.send(id.clone()).unwrap();
        let (aborted, close) = (CancellationToken::new(), self.close.clone());
        Ok(Box::new(Session { id, aborted, close }))
    }

    fn how_to_decide(&self, _: &str, _: &ExternalAction) -> String {
        String::new()
    }
}

#[async_trait]
impl HostSession for Session {
    fn id(&self) -> &str {
        &self.id
    }

    async fn send(&self, input: InputEvent) -> Result<(), InputError> {
        if matches!(input, InputEvent::Abort(_)) {
            self.aborted.cancel();
        }
        Ok(())
    }

    async fn next(&mut self) -> Option<Arc<Envelope>> {
        std::future::pending().await
    }

    fn idle(&self) -> BoxFuture<'static, ()> {
        self.aborted.clone().cancelled_owned().boxed()
    }

    async fn pending(&self) -> Result<Vec<ExternalAction>, InputError> {
        Ok(Vec::new())
    }

    async fn last_outcome(&self) -> Result<Option<Arc<RunOutcome>>, String> {
        Ok(None)
    }

    async fn close(self: Box<Self>) {
        self.close.notified().await;
    }
}

/// C358: A call waits until the cancelled calls of its session have closed it. Calls in other
/// sessions do not wait. A call that is cancelled while it waits does nothing.
#[tokio::test]
async fn a_call_waits_for_the_cancelled_ones_of_its_session() {
    let (opened, mut opens) = mpsc::unbounded_channel();
    let close = Arc::new(Notify::new());
    let host = Host { opened, close: close.clone() };
    let ((input, mut to_server), (from_server, output)) =
        (tokio::io::duplex(10_000), tokio::io::duplex(10_000));
    let server = AgentServer::new("test", "1", Arc::new(host));
    tokio::spawn(server.serve(input, output));
    let mut lines = BufReader::new(from_server).lines();
    let mut send = async |message: Value| {
        to_server.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    };
    let call = |id: u32, session: &str| {
        let arguments = json!({ "message": "Go.", "session": session });
        let params = json!({ "name": "work", "arguments": arguments });
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
    };
    let cancel = |id: u32| {
        let params = json!({ "requestId": id });
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params })
    };
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" },
    });
    send(json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params })).await;
    assert!(lines.next_line().await.unwrap().unwrap().contains("serverInfo"));
    send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;

    send(call(1, "s")).await;
    assert_eq!(opens.recv().await.unwrap(), "s");
    send(cancel(1)).await;
    for message in [call(2, "s"), cancel(2), call(3, "s"), call(4, "t")] {
        send(message).await;
    }
    assert_eq!(opens.recv().await.unwrap(), "t");
    close.notify_one();
    assert_eq!(opens.recv().await.unwrap(), "s");
    assert!(opens.try_recv().is_err(), "the call that was cancelled has opened its session");
}
