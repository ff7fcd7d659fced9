//! [`Service`]: a server in a monitored runtime with one worker. Its client, its model and its MCP
//! server run on other threads.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, header};
use http_body_util::BodyExt;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use loopwright_core::ChatModel;
use loopwright_core::model::ModelError;
use loopwright_host::{
    AgentRejection, CodingAgent, LlmConfig, Models, OperatorRules, SessionSettings,
};
use loopwright_mcp::{McpServer, ServerConfig};
use loopwright_memory::Sqlite;
use loopwright_providers::OpenAiChat;
use loopwright_server::{Server, router};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Handle};

use crate::heartbeat::{Gap, Heartbeat};
use crate::peers::{Model, ToolServer};

/// Maximum size of a request's body.
const MAX_BODY_BYTES: usize = 32 << 20;

/// A server with its client.
pub(crate) struct Service {
    pub(crate) root: tempfile::TempDir,
    pub(crate) model: Model,
    runtime: Handle,
    routes: TowerToHyperService<axum::Router>,
    heartbeat: Heartbeat,
    /// The number of the last event read of each session.
    read: Mutex<HashMap<String, u64>>,
}

struct One(Model);

impl One {
    fn model(&self) -> Result<Box<dyn ChatModel>, ModelError> {
        let url = format!("http://{}/v1", self.0.address);
        Ok(Box::new(OpenAiChat::builder("m").base_url(url).build()?))
    }
}

impl Models for One {
    fn named(&self, _: &SessionSettings) -> Result<Box<dyn ChatModel>, ModelError> {
        self.model()
    }

    fn configured(
        &self,
        _: &LlmConfig,
        _: &OperatorRules,
    ) -> Result<Box<dyn ChatModel>, AgentRejection> {
        self.model().map_err(|why| AgentRejection::internal(why.to_string()))
    }
}

impl Service {
    /// Starts a server whose sessions have these tools of an MCP server.
    pub(crate) fn start(tools: Vec<Value>) -> Self {
        let mut builder = Builder::new_current_thread();
        let runtime = builder.enable_all().event_interval(1).build().unwrap();
        let handle = runtime.handle().clone();
        thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
        let root = tempfile::tempdir().unwrap();
        let (model, tools) = (Model::start(), ToolServer(Arc::new(tools)));
        let _inside = handle.enter();
        let agent = CodingAgent::builder().root(root.path()).extend(move |agent, _, _| {
            let config = ServerConfig::read("hostile", &json!({ "command": "hostile" })).unwrap();
            let server = McpServer::builder(config).launch(tools.clone());
            let server = server.start_wait(Duration::from_secs(60)).build();
            Ok(agent.tool_source(server.prefix(), server))
        });
        let mut defaults = SessionSettings::new();
        defaults.model = Some("test/m".into());
        let store = Sqlite::open(root.path().join("sessions.db")).unwrap();
        let server = Server::builder(store)
            .models(One(model.clone()))
            .agent("coding", agent.build().unwrap())
            .defaults(defaults)
            .max_body(MAX_BODY_BYTES)
            .build()
            .unwrap();
        let routes = TowerToHyperService::new(router(server));
        let heartbeat = Heartbeat::start(handle.clone());
        Service { root, model, runtime: handle, routes, heartbeat, read: Mutex::default() }
    }

    /// Sends a request and returns the status and the whole body of the response.
    pub(crate) fn send(&self, method: &str, path: &str, body: Option<String>) -> (u16, String) {
        let request = Request::builder().method(method).uri(path);
        let request = request.header(header::CONTENT_TYPE, "application/json");
        let request = request.body(body.map_or(Body::empty(), Body::from)).unwrap();
        let response = self.routes.call(request);
        let task = self.runtime.spawn(async move {
            let response = response.await.unwrap();
            (response.status().as_u16(), response.into_body().collect().await.unwrap().to_bytes())
        });
        let (status, bytes) = self.runtime.block_on(task).unwrap();
        (status, String::from_utf8(bytes.to_vec()).unwrap())
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        let (status, body) = self.send("GET", path, None);
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let (status, body) = self.send("POST", path, Some(body.to_string()));
        (status, serde_json::from_str(&body).unwrap_or(Value::Null))
    }

    /// Creates a session, and returns its path.
    pub(crate) fn session(&self) -> String {
        let (status, created) = self.post("/api/sessions", &json!({}));
        assert_eq!(status, 201, "{created}");
        format!("/api/sessions/{}", created["id"].as_str().unwrap())
    }

    /// Prompts a session and returns its new events up to the end of the run.
    pub(crate) fn run(&self, session: &str, prompt: &str) -> String {
        let (status, answer) =
            self.post(&format!("{session}/prompt"), &json!({ "message": prompt }));
        assert_eq!(status, 202, "{answer}");
        self.events(session)
    }

    /// Returns the unread events of a session, up to the end of a run.
    pub(crate) fn events(&self, session: &str) -> String {
        let mut read = self.read.lock().unwrap();
        let last = read.entry(session.to_owned()).or_insert(0);
        let request = Request::get(format!("{session}/events?after={last}"));
        let response = self.routes.call(request.body(Body::empty()).unwrap());
        let task = self.runtime.spawn(async move {
            let mut body = response.await.unwrap().into_body();
            let (mut text, mut has_ended) = (Vec::new(), false);
            while let Some(frame) = body.frame().await {
                let part = frame.unwrap().into_data().unwrap();
                has_ended |= has_end(&part);
                let is_whole = part.ends_with(b"\n\n");
                text.push(part);
                if has_ended && is_whole {
                    break;
                }
            }
            text
        });
        let text = self.runtime.block_on(task).unwrap().concat();
        let text = String::from_utf8(text).unwrap();
        let mut ids = text.lines().filter_map(|line| line.strip_prefix("id:"));
        *last = ids.next_back().unwrap_or_else(|| panic!("{text}")).trim().parse().unwrap();
        text
    }

    /// Returns the longest time that the worker was busy since the last call.
    pub(crate) fn max_gap(&mut self) -> Gap {
        self.heartbeat.take()
    }
}

/// Returns whether a part of a stream has the event that ends a run. Its name is at the beginning.
fn has_end(frame: &[u8]) -> bool {
    let head = &frame[..frame.len().min(200)];
    head.windows(16).any(|part| part == b"event: agent_end")
}
