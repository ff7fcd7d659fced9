//! An axum app that mounts the routes with its own authentication, streams a session's events on
//! its own route, and serves its own agent.

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use loopwright_core::log::InMemoryStore;
use loopwright_core::model::ModelError;
use loopwright_core::testing::{Script, ScriptedModel};
use loopwright_core::{ChatModel, GenericAgent};
use loopwright_host::{
    AgentRejection, CodingAgent, LlmConfig, Models, OperatorRules, SessionSettings,
};
use loopwright_patterns::PiPattern;
use loopwright_server::{Server, ToPublic, router, sse};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Models with a single reply.
struct OneReply(&'static str);

impl Models for OneReply {
    fn named(&self, _: &SessionSettings) -> Result<Box<dyn ChatModel>, ModelError> {
        Ok(Box::new(ScriptedModel::new([Script::text(self.0)])))
    }

    fn configured(
        &self,
        _: &LlmConfig,
        _: &OperatorRules,
    ) -> Result<Box<dyn ChatModel>, AgentRejection> {
        Ok(Box::new(ScriptedModel::new([Script::text(self.0)])))
    }
}

/// Accepts requests with the password.
async fn authenticate(request: Request, next: Next) -> Response {
    match request.headers().get("x-word").is_some_and(|word| word == "sesame") {
        true => next.run(request).await,
        false => StatusCode::IM_A_TEAPOT.into_response(),
    }
}

async fn events() -> Response {
    let agent = GenericAgent::builder(ScriptedModel::new([Script::text("By hand.")]), PiPattern)
        .build()
        .unwrap();
    let handle = agent.session().await.unwrap();
    sse(handle.prompt_stream("Hello").await.unwrap().public()).into_response()
}

async fn ask(address: &str, request: String) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    response
}

#[tokio::test]
async fn an_app_mounts_the_routes_with_its_own_authentication() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::builder(InMemoryStore::new())
        .models(OneReply("From the routes."))
        .agent("coding", CodingAgent::builder().root(dir.path()).build().unwrap())
        .build()
        .unwrap();
    let app = Router::new()
        .nest("/agent", router(server))
        .route("/events", get(events))
        .layer(from_fn(authenticate));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move { axum::serve(listener, app).await });

    let body =
        r#"{"message": "Hello", "workDir": ".", "llmConfig": {"apiKey": "k", "model": "m"}}"#;
    let post = |word: &str| {
        format!(
            "POST /agent/api/agent-chat HTTP/1.1\r\nhost: app.example\r\nx-word: {word}\r\n\
             connection: close\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    assert!(ask(&address, post("abracadabra")).await.starts_with("HTTP/1.1 418"));
    let answer = ask(&address, post("sesame")).await;
    assert!(
        answer.contains("From the routes.") && answer.contains(r#"{"type":"complete"}"#),
        "{answer}"
    );

    let get =
        "GET /events HTTP/1.1\r\nhost: app.example\r\nx-word: sesame\r\nconnection: close\r\n\r\n";
    let answer = ask(&address, get.into()).await;
    assert!(
        answer.contains("event: agent_start\n") && answer.contains("event: message_update\n"),
        "{answer}"
    );
    let ids: Vec<u64> =
        answer.lines().filter_map(|line| line.strip_prefix("id: ")?.parse().ok()).collect();
    assert_eq!(
        ids,
        (1..=ids.len() as u64).collect::<Vec<_>>(),
        "only events that have a number have an id"
    );
}

/// A given agent serves sessions and single requests, whatever the client asks for.
#[tokio::test]
async fn a_given_agent_serves_sessions_and_single_requests() {
    let model = ScriptedModel::new([]).default_reply(Script::text("Nine."));
    let agent = GenericAgent::builder(model, PiPattern).build().unwrap();
    let server = Server::builder(InMemoryStore::new()).agent("shepherd", agent).build().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move { axum::serve(listener, router(server)).await });

    let post = |path: &str, body: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nhost: app.example\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let request = post("/api/agent-chat", r#"{"message": "How many?", "workDir": "/nowhere"}"#);
    let response = ask(&address, request).await;
    assert!(
        response.contains("Nine.") && response.contains(r#"{"type":"complete"}"#),
        "{response}"
    );
    let created = ask(&address, post("/api/sessions", r#"{"model": "any/model"}"#)).await;
    let (_, body) = created.split_once("\r\n\r\n").unwrap();
    let id = serde_json::from_str::<serde_json::Value>(body).unwrap()["id"].clone();
    let path = format!("/api/sessions/{}/prompt", id.as_str().unwrap());
    let accepted = ask(&address, post(&path, r#"{"message": "How many?"}"#)).await;
    assert!(accepted.starts_with("HTTP/1.1 202"), "{accepted}");
}
