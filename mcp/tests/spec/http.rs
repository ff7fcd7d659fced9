//! HTTP servers that deviate from the protocol.

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use loopwright_core::message::ResultStatus;
use loopwright_mcp::{McpServer, ServerConfig};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::net::TcpListener;

use super::{calls, offered, results, session};

/// The answer to a call: status, headers, and a body whose `ID` is the id of the call.
type Answer = (u16, &'static [(&'static str, &'static str)], &'static str);

const JSON: (&str, &str) = ("content-type", "application/json");
const EVENTS: (&str, &str) = ("content-type", "text/event-stream");

async fn mcp(State(answer): State<Answer>, body: Bytes) -> Response {
    let request: Value = serde_json::from_slice(&body).unwrap();
    let Some(id) = request.get("id") else { return StatusCode::ACCEPTED.into_response() };
    let reply = |result: Value| json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string();
    let json = |body: String| ([(header::CONTENT_TYPE, "application/json")], body).into_response();
    match request["method"].as_str().unwrap() {
        "initialize" => json(reply(json!({
            "protocolVersion": "2025-11-25",
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "http", "version": "1" },
        }))),
        "tools/list" => {
            let tool = json!({ "name": "a", "inputSchema": { "type": "object" } });
            json(reply(json!({ "tools": [{ "name": "bad" }, tool] })))
        }
        "tools/call" => {
            let (status, headers, body) = answer;
            let mut response = Response::new(body.replace("ID", &id.to_string()).into());
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            for (name, value) in headers {
                response.headers_mut().insert(*name, value.parse().unwrap());
            }
            response
        }
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

/// Returns the result of a call with this answer, and whether the connection is kept.
async fn answered(answer: Answer) -> (ResultStatus, String, bool) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let app = Router::new().route("/mcp", post(mcp)).with_state(answer);
    tokio::spawn(async move { axum::serve(listener, app).await });
    let config = ServerConfig::read("web", &json!({ "url": url })).unwrap();
    let client = McpServer::builder(config).start_wait(Duration::from_secs(60)).build();
    let harness = session(&client, calls(&["web__a"]), |agent| agent.approve_all()).await;
    harness.handle.prompt("go").await.unwrap();
    assert_eq!(offered(&harness, 0), ["web__a"]);
    let status = client.status().await;
    assert!(status.left_out[0].starts_with("`bad`"), "{:?}", status.left_out);
    let (result, text) = results(&harness).await.remove(0);
    (result, text, status.is_connected)
}

/// C460: The HTTP status of an answer is told, and a rate limit or a lost authorization is not
/// taken for a lost connection.
#[tokio::test]
async fn statuses_are_told() {
    const CHALLENGE: (&str, &str) = ("www-authenticate", "Bearer");
    let cases: [(Answer, &str, bool); 9] = [
        ((202, &[], ""), "its answer is empty", true),
        ((401, &[CHALLENGE], ""), "refused the call: HTTP 401", false),
        ((401, &[], "expired"), "refused the call: HTTP 401", false),
        ((403, &[CHALLENGE], ""), "refused the call: HTTP 403", false),
        (
            (429, &[("retry-after", "30")], ""),
            "HTTP 429, there are too many requests, Retry-After: 30",
            true,
        ),
        ((500, &[], "boom"), "its answer is HTTP 500. The call may have had effects", true),
        ((400, &[], "boom"), "HTTP 400 Bad Request: boom", true),
        ((200, &[("content-type", "text/plain")], "ok"), "the media type text/plain", true),
        ((200, &[], "ok"), "the media type unknown", true),
    ];
    for (answer, expected, is_kept) in cases {
        let (status, text, is_connected) = answered(answer).await;
        assert!(status == ResultStatus::Error && text.contains(expected), "{answer:?} {text}");
        assert_eq!(is_connected, is_kept, "{answer:?}");
    }
}

/// C458, C459: Answers over HTTP are read like answers of a command.
#[tokio::test]
async fn odd_answers_over_http_are_read() {
    let cases: [(Answer, &str); 5] = [
        ((200, &[JSON], r#"{"jsonrpc":"2.0","id":ID,"result":{"content":["ok"]}}"#), "ok"),
        ((200, &[JSON], r#"{"jsonrpc":"2.0","id":ID,"result":"ok"}"#), "ok"),
        ((200, &[EVENTS], "data: {\"id\":ID,\"result\":{\"content\":\"ok\"}}\n\n"), "ok"),
        (
            (200, &[EVENTS], "data: {\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":\"x\\ud83d\"}\n\n"),
            "x\u{fffd}",
        ),
        ((200, &[EVENTS], "data: [{\"jsonrpc\":\"2.0\",\"id\":null,\"result\":\"ok\"}]\n\n"), "ok"),
    ];
    for (answer, expected) in cases {
        let (status, text, _) = answered(answer).await;
        assert_eq!((status, text.as_str()), (ResultStatus::Ok, expected), "{answer:?}");
    }
    let (status, text, _) = answered((200, &[EVENTS], ": nothing\n\n")).await;
    assert!(status == ResultStatus::Error && text.contains("may have had effects"), "{text}");
    let cases: [Answer; 3] = [
        (200, &[JSON], r#"{"jsonrpc":"2.0","id":ID,"result":{"v":NaN}}"#),
        (200, &[EVENTS], "data: {\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"v\":NaN}}\n\n"),
        (200, &[EVENTS], "data: {\"jsonrpc\":\"2.0\",\"result\":{\"v\":NaN}}\n\n"),
    ];
    for answer in cases {
        let (status, text, is_connected) = answered(answer).await;
        assert_eq!((status, is_connected), (ResultStatus::Error, true), "{answer:?}");
        assert!(text.contains("has answered, but its answer"), "{answer:?} {text}");
    }
}
