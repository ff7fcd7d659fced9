//! A server with telemetry. Its runs belong to the traces in requests, even in another process and
//! in sub-agents.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use loopwright_core::log::InMemoryStore;
use loopwright_core::testing::{Script, ScriptedModel};
use loopwright_core::{GenericAgent, SessionStore, ToolError, TraceContext, tool_fn};
use loopwright_otel::Telemetry;
use loopwright_patterns::PiPattern;
use loopwright_server::{Server, router};
use loopwright_test_support::collector::Collector;
use serde_json::{Value, json};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

type Traces = Arc<Mutex<Vec<Option<TraceContext>>>>;

/// Returns an agent with a sub-agent, whose tool records the trace context of its call.
fn agent(traces: &Traces, needs_approval: bool) -> GenericAgent {
    let traces = traces.clone();
    let look = tool_fn("look", "Looks.", move |_: Nothing, cx| {
        traces.lock().unwrap().push(cx.trace().cloned());
        async { Ok::<_, ToolError>("Chapter 7.".to_owned()) }
    });
    let build = |model: ScriptedModel| GenericAgent::builder(model, PiPattern);
    let scripts = [Script::calls([("c1", "look", json!({}))]), Script::text("Chapter 7.")];
    let child = build(ScriptedModel::new(scripts)).tool(look);
    let child = if needs_approval { child } else { child.approve_all() };
    let task = ("c0", "librarian", json!({ "task": "Where is the whale?" }));
    let scripts = [Script::calls([task]), Script::text("In chapter 7.")];
    build(ScriptedModel::new(scripts))
        .child("librarian", "Finds passages.", child.build().unwrap())
        .build()
        .unwrap()
}

struct Api {
    server: Server,
    routes: TowerToHyperService<axum::Router>,
}

impl Api {
    fn new(store: Arc<dyn SessionStore>, agent: GenericAgent, telemetry: &Telemetry) -> Api {
        let builder = Server::builder(store).agent("boss", agent).telemetry(telemetry.clone());
        let server = builder.build().unwrap();
        Api { routes: TowerToHyperService::new(router(server.clone())), server }
    }

    async fn call(&self, method: &str, path: &str, body: Value, headers: &[(&str, &str)]) -> Value {
        let mut request = Request::builder().method(method).uri(path);
        request = request.header("host", "localhost").header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body.to_string())).unwrap();
        let response = self.routes.call(request).await.unwrap();
        assert!(response.status().is_success(), "{path}: {}", response.status());
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    async fn session(&self) -> String {
        let created = self.call("POST", "/api/sessions", json!({}), &[]).await;
        created["id"].as_str().unwrap().to_owned()
    }

    /// Sends a prompt, as part of the trace, and waits until its run has ended.
    async fn prompt(&self, session: &str) {
        let parent = format!("00-{TRACE}-{PARENT}-01");
        let headers = [("traceparent", &*parent), ("tracestate", "vendor=1")];
        let path = format!("/api/sessions/{session}/prompt");
        self.call("POST", &path, json!({ "message": "Where is it?" }), &headers).await;
        self.server.drain(std::time::Duration::from_secs(10)).await;
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Checks the spans of the agent. Each span is the child of the previous one, and the first is the
/// child of the request's span.
fn check(collector: &Collector, traces: &Traces) {
    let names = [
        "invoke_agent boss",
        "execute_tool librarian",
        "invoke_agent librarian",
        "execute_tool look",
    ];
    let mut parent = PARENT.to_owned();
    for name in names {
        let span = collector.span(name);
        assert_eq!(
            (hex(&span.trace_id), hex(&span.parent_span_id)),
            (TRACE.into(), parent),
            "{name}"
        );
        assert_eq!(span.trace_state, "vendor=1");
        parent = hex(&span.span_id);
    }
    let noted = traces.lock().unwrap().clone();
    let [Some(of_tool)] = &noted[..] else { panic!("{noted:?}") };
    assert_eq!(of_tool.traceparent(), format!("00-{TRACE}-{parent}-01"));
}

/// C394: The run of an HTTP request is a child of the span in its headers. Its calls, sub-agents
/// and their tools are descendants.
#[tokio::test]
async fn the_trace_of_a_request_goes_from_http_to_the_tool_of_a_sub_agent() {
    let collector = Collector::start().await;
    let telemetry = Telemetry::builder().endpoint(&collector.url).build().unwrap();
    let traces = Traces::default();
    let store: Arc<dyn SessionStore> = Arc::new(InMemoryStore::new());
    let api = Api::new(store, agent(&traces, false), &telemetry);
    let session = api.session().await;
    api.prompt(&session).await;
    telemetry.shutdown().await;
    check(&collector, &traces);
}

/// C395: A run that waits for an approval and is continued by another process stays in its trace:
/// the spans of both processes form one tree.
#[tokio::test]
async fn a_run_that_another_process_continues_stays_in_its_trace() {
    let collector = Collector::start().await;
    let traces = Traces::default();
    let store: Arc<dyn SessionStore> = Arc::new(InMemoryStore::new());
    let first = Telemetry::builder().endpoint(&collector.url).build().unwrap();
    let boss = agent(&traces, true);
    let api = Api::new(store.clone(), boss.clone(), &first);
    let session = api.session().await;
    api.prompt(&session).await;
    first.shutdown().await;
    drop(api);
    let is_released = async {
        while store.in_use(&session).await.unwrap() == Some(true) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(10), is_released).await.unwrap();
    assert!(traces.lock().unwrap().is_empty());
    let waiting = std::mem::take(&mut collector.received().spans);
    let name = |span: &opentelemetry_proto::tonic::trace::v1::Span| span.name.clone();
    let names: Vec<String> = waiting.iter().map(name).collect();
    assert!(names.contains(&"invoke_agent librarian".into()), "{names:?}");
    assert!(!names.contains(&"execute_tool librarian".into()), "{names:?}");

    let second = Telemetry::builder().endpoint(&collector.url).build().unwrap();
    let api = Api::new(store, boss, &second);
    let path = format!("/api/sessions/{session}/actions");
    let action = api.call("GET", &path, Value::Null, &[]).await["actions"][0].clone();
    let decision = json!({ "digest": action["digest"], "decision": "approve" });
    let path = format!("{path}/{}", action["call"].as_str().unwrap());
    api.call("POST", &path, decision, &[]).await;
    api.server.drain(std::time::Duration::from_secs(10)).await;
    second.shutdown().await;
    check(&collector, &traces);
}
