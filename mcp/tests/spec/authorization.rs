//! Authorization (OAuth 2.1), against an authorization server that approves each request.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::extract::{Form, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use loopwright_core::event::{Decision, Provided};
use loopwright_core::message::ResultStatus;
use loopwright_core::testing::Script;
use loopwright_mcp::{Credentials, McpServer, ServerBuilder, ServerConfig};
use serde_json::{Value, json};
use std::collections::HashMap;
use tokio::net::TcpListener;

use super::{offered, results, session};

type Parameters = HashMap<String, String>;

/// A client that waits for the server, however busy the machine is.
fn builder(config: ServerConfig) -> ServerBuilder {
    McpServer::builder(config).start_wait(Duration::from_secs(60))
}

/// Serves an MCP server that requires a token, and its authorization server. Returns the base URL.
async fn serve() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let app = Router::new()
        .route("/mcp", post(mcp))
        .route("/.well-known/oauth-protected-resource", get(resource))
        .route("/.well-known/oauth-protected-resource/mcp", get(resource))
        .route("/.well-known/oauth-authorization-server", get(metadata))
        .route("/register", post(register))
        .route("/authorize", get(authorize))
        .route("/token", post(token))
        .with_state(address.clone());
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

async fn resource(State(address): State<String>) -> Json<Value> {
    let resource = format!("{address}/mcp");
    Json(json!({ "resource": resource, "authorization_servers": [address] }))
}

async fn metadata(State(address): State<String>) -> Json<Value> {
    Json(json!({
        "issuer": address,
        "authorization_endpoint": format!("{address}/authorize"),
        "token_endpoint": format!("{address}/token"),
        "registration_endpoint": format!("{address}/register"),
        "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"],
    }))
}

async fn register(Json(mut client): Json<Value>) -> (StatusCode, Json<Value>) {
    client["client_id"] = json!("client-1");
    (StatusCode::CREATED, Json(client))
}

async fn authorize(Query(parameters): Query<Parameters>) -> Redirect {
    assert_eq!(parameters["code_challenge_method"], "S256");
    let (redirect, state) = (&parameters["redirect_uri"], &parameters["state"]);
    Redirect::temporary(&format!("{redirect}?code=secret-code&state={state}"))
}

async fn token(Form(parameters): Form<Parameters>) -> Json<Value> {
    assert_eq!(parameters["code"], "secret-code");
    assert!(parameters.contains_key("code_verifier"));
    Json(json!({ "access_token": "token-1", "token_type": "Bearer", "expires_in": 3600 }))
}

async fn mcp(
    State(address): State<String>,
    headers: HeaderMap,
    Json(message): Json<Value>,
) -> Response {
    if headers.get(header::AUTHORIZATION).is_none_or(|value| value != "Bearer token-1") {
        let metadata = format!("{address}/.well-known/oauth-protected-resource/mcp");
        let challenge = format!("Bearer resource_metadata=\"{metadata}\"");
        return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, challenge)]).into_response();
    }
    if message.get("id").is_none() {
        return StatusCode::ACCEPTED.into_response();
    }
    let result = match message["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": "2025-11-25",
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "private", "version": "1" },
        }),
        Some("tools/list") => json!({ "tools": [super::tool("secret", "Returns a secret.")] }),
        Some("tools/call") => json!({ "content": [{ "type": "text", "text": "42" }] }),
        _ => {
            let error = json!({ "code": -32601, "message": "unknown" });
            let id = &message["id"];
            return Json(json!({ "jsonrpc": "2.0", "id": id, "error": error })).into_response();
        }
    };
    Json(json!({ "jsonrpc": "2.0", "id": message["id"], "result": result })).into_response()
}

/// A server that requires authorization offers a tool that asks the user for it, and its own tools
/// once it has the tokens. The tokens are stored.
#[tokio::test]
async fn the_user_authorizes_a_server() {
    let address = serve().await;
    let settings = json!({ "url": format!("{address}/mcp") });
    let config = ServerConfig::read("private", &settings).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("credentials.json");
    let open = || Arc::new(Credentials::open(&path).unwrap());
    let client = builder(config.clone()).credentials(open()).build();
    let call = |name: &str| vec![Script::calls([("a", name, json!({}))]), Script::text("Done.")];
    let replies = [call("private__authorize"), call("private__secret")].concat();
    let harness = session(&client, replies, |agent| agent.approve_all()).await;
    harness.handle.prompt("go").await.unwrap();
    assert_eq!(offered(&harness, 0), ["private__authorize"]);
    // Whatever the rules are, nothing is sent before the user allows it.
    assert!(harness.pending().await[0].question().is_none());
    harness.resolve(0, Decision::Approve).await.unwrap();
    harness.handle.wait_for_idle().await;
    assert!(!harness.pending().await.is_empty(), "{:?}", results(&harness).await);
    let question = harness.pending().await[0].question().unwrap().question;
    let page = question.lines().last().unwrap();
    let browser = reqwest::get(page).await.unwrap().text().await.unwrap();
    assert!(browser.contains("close this page"), "{browser}");
    harness.resolve(0, Decision::Provide(Provided::Input(json!("done")))).await.unwrap();
    harness.handle.wait_for_idle().await;
    harness.handle.prompt("go").await.unwrap();
    let results = results(&harness).await;
    assert_eq!(results[0].0, ResultStatus::Ok, "{results:?}");
    assert_eq!(results[1], (ResultStatus::Ok, "42".into()));
    assert!(!question.contains("token-1") && !question.contains("secret-code"));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    let second = builder(config).credentials(open()).build();
    let harness = session(&second, vec![Script::text("1")], |agent| agent).await;
    harness.handle.prompt("go").await.unwrap();
    assert_eq!(offered(&harness, 0), ["private__secret"]);
}

/// Serves an MCP server that names another authorization server, and serves the latter, too,
/// counting its requests. Returns the URLs of both.
async fn naming_another(page: &str, requests: Arc<AtomicUsize>) -> (String, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let other = format!("http://{}", listener.local_addr().unwrap());
    let document = json!({
        "issuer": other,
        "authorization_endpoint": page,
        "token_endpoint": format!("{other}/token"),
        "registration_endpoint": format!("{other}/register"),
        "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"],
    });
    let app = Router::new().fallback(async move || {
        requests.fetch_add(1, Ordering::Relaxed);
        Json(document)
    });
    tokio::spawn(async move { axum::serve(listener, app).await });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let named = json!({ "resource": format!("{address}/mcp"), "authorization_servers": [other] });
    let app = Router::new()
        .route("/mcp", post(mcp))
        .fallback(async move || Json(named))
        .with_state(address.clone());
    tokio::spawn(async move { axum::serve(listener, app).await });
    (address, other)
}

/// C422: Nothing is sent to a host that a server names for its authorization before the user has
/// allowed it. No page is shown whose address the server may not name.
#[tokio::test]
async fn hosts_that_a_server_names_are_asked_about() {
    for (answer, page, expected) in [
        ("Refuse", "https://auth.example/log-in", "does not allow"),
        ("Allow", "javascript:alert(1)", "has no https"),
        ("Allow", "file:///etc/passwd", "has no https"),
        ("Allow", "https://169.254.169.254/", "private network"),
    ] {
        let requests = Arc::new(AtomicUsize::new(0));
        let (address, other) = naming_another(page, requests.clone()).await;
        let settings = json!({ "url": format!("{address}/mcp") });
        let config = ServerConfig::read("evil", &settings).unwrap();
        let client = builder(config).credentials(Arc::default()).build();
        let replies =
            vec![Script::calls([("a", "evil__authorize", json!({}))]), Script::text("Done.")];
        let harness = session(&client, replies, |agent| agent.approve_all()).await;
        harness.handle.prompt("go").await.unwrap();
        harness.resolve(0, Decision::Approve).await.unwrap();
        harness.handle.wait_for_idle().await;
        let question = harness.pending().await[0].question().unwrap().question;
        assert!(question.lines().any(|line| line == other), "{question}");
        assert_eq!(requests.load(Ordering::Relaxed), 0);
        harness.resolve(0, Decision::Provide(Provided::Input(json!(answer)))).await.unwrap();
        harness.handle.wait_for_idle().await;
        let results = results(&harness).await;
        assert!(results[0].1.contains(expected), "{page}: {results:?}");
        assert_eq!(requests.load(Ordering::Relaxed) > 0, answer == "Allow");
    }
}
