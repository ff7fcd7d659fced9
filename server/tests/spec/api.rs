//! A server in this process, called without sockets, so that time can be paused.

use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{HeaderMap, Request, header};
use futures::FutureExt;
use http_body_util::BodyExt;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use loopwright_core::log::InMemoryStore;
use loopwright_core::model::ModelError;
use loopwright_core::testing::{Script, ScriptedModel};
use loopwright_core::{ChatModel, Principal, SessionStore};
use loopwright_host::{
    AgentFactory, AgentRejection, CodingAgent, LlmConfig, Models, OperatorRules, SessionSettings,
};
use loopwright_memory::long_term::LongTerm;
use loopwright_server::{Caller, Server, ServerBuilder, router};
use serde_json::{Value, json};

/// A server whose sessions share a scripted model, and a client of it.
#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) server: Server,
    routes: TowerToHyperService<axum::Router>,
    pub(crate) store: Arc<dyn SessionStore>,
    pub(crate) root: Arc<tempfile::TempDir>,
    client: SocketAddr,
    /// The caller that a layer of the host inserts.
    caller: Option<Caller>,
}

struct Scripted(ScriptedModel);

impl Models for Scripted {
    fn named(&self, _: &SessionSettings) -> Result<Box<dyn ChatModel>, ModelError> {
        Ok(Box::new(self.0.clone()))
    }

    fn configured(
        &self,
        _: &LlmConfig,
        _: &OperatorRules,
    ) -> Result<Box<dyn ChatModel>, AgentRejection> {
        Ok(Box::new(self.0.clone()))
    }
}

/// Returns the delay before the client should try again, in seconds.
pub(crate) fn retry_after(headers: &HeaderMap) -> u64 {
    let seconds = headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
    seconds.and_then(|seconds| seconds.parse().ok()).unwrap_or_else(|| panic!("{headers:?}"))
}

/// Returns the settings of sessions that name no model.
pub(crate) fn scripted() -> SessionSettings {
    let mut settings = SessionSettings::new();
    settings.model = Some("test/scripted".into());
    settings
}

impl Api {
    pub(crate) fn new(replies: impl IntoIterator<Item = Script>) -> Api {
        Api::over(Arc::new(InMemoryStore::new()), replies)
    }

    pub(crate) fn over(
        store: Arc<dyn SessionStore>,
        replies: impl IntoIterator<Item = Script>,
    ) -> Api {
        Api::with(store, replies, |builder| builder)
    }

    /// Creates a server with further configuration.
    pub(crate) fn with(
        store: Arc<dyn SessionStore>,
        replies: impl IntoIterator<Item = Script>,
        set: impl FnOnce(ServerBuilder) -> ServerBuilder,
    ) -> Api {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("notes.txt"), "Nine sheep.\n").unwrap();
        let model = ScriptedModel::new(replies).discard_requests();
        let agent = CodingAgent::builder().root(root.path()).build().unwrap();
        let server = Server::builder(store.clone()).models(Scripted(model)).agent("coding", agent);
        Api::of(store, set(server.defaults(scripted())).build().unwrap(), root)
    }

    /// Creates a server whose agents remember facts.
    pub(crate) fn remembering(
        memory: &LongTerm,
        model: ScriptedModel,
        set: impl FnOnce(ServerBuilder) -> ServerBuilder,
    ) -> Api {
        let root = tempfile::tempdir().unwrap();
        let store: Arc<dyn SessionStore> = Arc::new(InMemoryStore::new());
        let agent = CodingAgent::builder().root(root.path()).long_term(memory.clone());
        let server = Server::builder(store.clone())
            .models(Scripted(model))
            .agent("coding", agent.build().unwrap())
            .defaults(scripted())
            .long_term(memory.clone());
        Api::of(store, set(server).build().unwrap(), root)
    }

    /// Creates a server that runs this agent.
    pub(crate) fn running(agent: impl AgentFactory + 'static) -> Api {
        let store: Arc<dyn SessionStore> = Arc::new(InMemoryStore::new());
        let server = Server::builder(store.clone()).agent("agent", agent).build().unwrap();
        Api::of(store, server, tempfile::tempdir().unwrap())
    }

    /// Wraps a server of this store.
    pub(crate) fn serving(store: Arc<dyn SessionStore>, server: Server) -> Api {
        Api::of(store, server, tempfile::tempdir().unwrap())
    }

    fn of(store: Arc<dyn SessionStore>, server: Server, root: tempfile::TempDir) -> Api {
        let root = Arc::new(root);
        Api {
            routes: TowerToHyperService::new(router(server.clone())),
            server,
            store,
            root,
            client: ([10, 0, 0, 1], 40_000).into(),
            caller: None,
        }
    }

    /// Returns the same server, for a client at another address.
    pub(crate) fn at_another_address(&self) -> Api {
        Api { client: ([10, 0, 0, 2], 40_000).into(), ..self.clone() }
    }

    /// Returns the same server, for a client known to a layer of the host.
    pub(crate) fn as_user(&self, name: &str) -> Api {
        self.as_caller(Caller::new(Principal::new(name)))
    }

    /// Returns the same server, for this client.
    pub(crate) fn as_caller(&self, caller: Caller) -> Api {
        Api { caller: Some(caller), ..self.clone() }
    }

    /// Kills the process, and starts another one with its log.
    pub(crate) async fn killed(
        &self,
        session: &str,
        replies: impl IntoIterator<Item = Script>,
    ) -> Api {
        let (items, store) = (self.store.read(session, 0).await.unwrap(), InMemoryStore::new());
        store.open(session).await.unwrap().append(0, items.into()).await.unwrap();
        Api::over(Arc::new(store), replies)
    }

    pub(crate) async fn run_due(&self) {
        self.server.run_due().await
    }

    pub(crate) async fn keep_running_due(&self) {
        self.server.keep_running_due().await
    }

    pub(crate) async fn drain(&self, grace: Duration) {
        self.server.drain(grace).await
    }

    /// Returns the response without reading its body.
    pub(crate) async fn send(&self, mut request: Request<Body>) -> axum::response::Response {
        request.extensions_mut().insert(ConnectInfo(self.client));
        if let Some(caller) = &self.caller {
            match (caller.principal(), caller.roles()) {
                (Some(principal), []) => {
                    request.extensions_mut().insert(principal.clone()).is_some()
                }
                _ => request.extensions_mut().insert(caller.clone()).is_some(),
            };
        }
        self.routes.call(request).await.unwrap()
    }

    pub(crate) async fn call(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, "application/json");
        let body = body.map_or(Body::empty(), |body| Body::from(body.to_string()));
        self.respond(request.body(body).unwrap()).await
    }

    /// Returns the status and the body of the response, as JSON if it is JSON.
    pub(crate) async fn respond(&self, request: Request<Body>) -> (u16, Value) {
        let response = self.send(request).await;
        let status = response.status().as_u16();
        if status == 429 {
            retry_after(response.headers()); // C428
        }
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    /// Sends a request whose client disconnects after this many wake-ups. Returns whether the
    /// response came before.
    pub(crate) async fn disconnect(
        &self,
        wakes: u32,
        method: &str,
        path: &str,
        body: Value,
    ) -> bool {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, "application/json");
        let mut response =
            std::pin::pin!(self.send(request.body(Body::from(body.to_string())).unwrap()));
        let mut polled = 0;
        std::future::poll_fn(move |cx| {
            if polled > wakes {
                return Poll::Ready(false);
            }
            polled += 1;
            response.as_mut().poll(cx).map(|_| true)
        })
        .await
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let (status, body) = self.call("GET", path, None).await;
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        self.call("POST", path, Some(body)).await
    }

    /// Creates a session.
    pub(crate) async fn session(&self, settings: Value) -> String {
        let (status, body) = self.post("/api/sessions", settings).await;
        assert_eq!(status, 201, "{body}");
        body["id"].as_str().unwrap().to_owned()
    }

    /// Sends a message that is accepted.
    pub(crate) async fn say(&self, session: &str, message: &str) {
        let (status, body) = self
            .post(&format!("/api/sessions/{session}/prompt"), json!({ "message": message }))
            .await;
        assert_eq!(status, 202, "{body}");
    }

    /// Returns a reader of the response, as it streams.
    pub(crate) async fn stream(&self, path: &str, body: Value) -> Reader {
        let request = Request::post(path).header(header::CONTENT_TYPE, "application/json");
        let response = self.send(request.body(Body::from(body.to_string())).unwrap()).await;
        Reader::of(response.into_body())
    }

    /// Returns the events after this number, or the error.
    pub(crate) async fn try_events(
        &self,
        session: &str,
        last: Option<u64>,
    ) -> Result<Reader, (u16, Value)> {
        let mut request = Request::builder().uri(format!("/api/sessions/{session}/events"));
        if let Some(last) = last {
            request = request.header("last-event-id", last.to_string());
        }
        let response = self.send(request.body(Body::empty()).unwrap()).await;
        let status = response.status().as_u16();
        if status != 200 {
            let bytes = response.into_body().collect().await.unwrap().to_bytes();
            return Err((status, serde_json::from_slice(&bytes).unwrap()));
        }
        assert_eq!(response.headers()[header::CONTENT_TYPE], "text/event-stream");
        Ok(Reader::of(response.into_body()))
    }

    /// Returns the events of a session and of its sub-agents.
    pub(crate) async fn tree(&self, session: &str, last: u64) -> Reader {
        self.stream_of(&format!("/api/sessions/{session}/events?tree=true&after={last}")).await
    }

    /// Returns a reader of the stream at this path.
    pub(crate) async fn stream_of(&self, path: &str) -> Reader {
        let response = self.send(Request::get(path).body(Body::empty()).unwrap()).await;
        assert_eq!(response.status().as_u16(), 200);
        Reader::of(response.into_body())
    }

    pub(crate) async fn events(&self, session: &str, last: Option<u64>) -> Reader {
        self.try_events(session, last).await.unwrap_or_else(|refused| panic!("{refused:?}"))
    }

    /// Returns all events up to the end of the first run after this number.
    pub(crate) async fn run(&self, session: &str, last: Option<u64>) -> Vec<Frame> {
        self.events(session, last).await.until("agent_end").await
    }
}

/// A client that reads a stream of events.
pub(crate) struct Reader {
    body: Body,
    text: String,
}

/// A frame of a stream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Frame {
    pub(crate) id: Option<u64>,
    pub(crate) event: String,
    pub(crate) data: Value,
}

impl Frame {
    fn of(text: &str) -> Option<Frame> {
        let field =
            |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim_start);
        let data = field("data:")?;
        assert_eq!(text.lines().filter(|line| line.starts_with("data:")).count(), 1, "{text}");
        Some(Frame {
            id: field("id:").map(|id| id.parse().unwrap()),
            event: field("event:").unwrap().to_owned(),
            data: serde_json::from_str(data).unwrap(),
        })
    }
}

impl Reader {
    pub(crate) fn of(body: Body) -> Reader {
        Reader { body, text: String::new() }
    }

    /// Returns the next frame if it has already arrived.
    pub(crate) fn ready(&mut self) -> Option<Frame> {
        self.next().now_or_never().flatten()
    }

    /// Returns the next frame, or `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        loop {
            let text = self.next_text().await?;
            if let Some(frame) = Frame::of(&text) {
                return Some(frame);
            }
        }
    }

    /// Returns the text of the next frame or comment.
    pub(crate) async fn next_text(&mut self) -> Option<String> {
        loop {
            if let Some((frame, rest)) = self.text.split_once("\n\n") {
                let (frame, rest) = (frame.to_owned(), rest.to_owned());
                self.text = rest;
                return Some(frame);
            }
            let bytes = self.body.frame().await?.unwrap().into_data().unwrap();
            self.text.push_str(std::str::from_utf8(&bytes).unwrap());
        }
    }

    /// Returns the frames up to the one of this number.
    pub(crate) async fn until_seq(&mut self, seq: u64) -> Vec<Frame> {
        let mut frames = Vec::new();
        while frames.last().is_none_or(|frame: &Frame| frame.id != Some(seq)) {
            frames.push(self.next().await.unwrap());
        }
        frames
    }

    /// Returns the frames up to the first of this type.
    pub(crate) async fn until(&mut self, event: &str) -> Vec<Frame> {
        let mut frames = Vec::new();
        loop {
            let frame = self.next().await.unwrap_or_else(|| panic!("no {event} came: {frames:#?}"));
            frames.push(frame.clone());
            if frame.event == event {
                return frames;
            }
        }
    }
}

pub(crate) fn numbered(frames: &[Frame]) -> Vec<&Frame> {
    frames.iter().filter(|frame| frame.id.is_some()).collect()
}

/// The state of a page, derived from frames alone.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Screen {
    pub(crate) seq: u64,
    pub(crate) streaming: std::collections::BTreeMap<String, String>,
    pub(crate) messages: Vec<Value>,
    pub(crate) numbered: Vec<Value>,
}

impl Screen {
    pub(crate) fn apply(&mut self, frame: &Frame) {
        if let Some(id) = frame.id {
            assert_eq!(id, self.seq + 1, "lost or doubled: {frame:?}");
            self.seq = id;
            self.numbered.push(json!([
                frame.event,
                frame.data["call"],
                frame.data["message"],
                frame.data["decision"]
            ]));
        }
        let id = || frame.data["message_id"].as_str().unwrap().to_owned();
        match frame.event.as_str() {
            "message_start" if frame.data["role"] == "assistant" => {
                assert!(
                    self.streaming.insert(id(), String::new()).is_none(),
                    "{frame:?} began twice"
                );
            }
            "message_update" if frame.data["kind"] == "withdrawn" => {
                drop(self.streaming.remove(&id()))
            }
            "message_update" => {
                let delta = frame.data["delta"].as_str().unwrap_or_default();
                self.streaming.entry(id()).or_default().push_str(delta);
            }
            "message_end" => {
                self.streaming.remove(frame.data["message"]["id"].as_str().unwrap());
                self.messages.push(frame.data["message"].clone());
            }
            _ => {}
        }
    }

    pub(crate) fn of(frames: &[Frame]) -> Screen {
        let mut screen = Screen::default();
        frames.iter().for_each(|frame| screen.apply(frame));
        screen
    }
}
