//! A server that listens, over HTTP/2 with prior knowledge: one connection has many requests.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{Method, Request, Response, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use loopwright_core::GenericAgent;
use loopwright_core::log::InMemoryStore;
use loopwright_core::testing::{Script, ScriptedModel};
use loopwright_patterns::PiPattern;
use loopwright_server::{Server, ServerBuilder, serve};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::api::Reader;

const TOKEN: &str = "correct-horse-battery";

pub(crate) struct Served {
    address: SocketAddr,
    shutdown: Arc<Notify>,
    ended: JoinHandle<std::io::Result<()>>,
}

impl Served {
    pub(crate) async fn start(
        replies: Vec<Script>,
        set: impl FnOnce(ServerBuilder) -> ServerBuilder,
    ) -> Self {
        let agent = GenericAgent::builder(ScriptedModel::new(replies), PiPattern).build().unwrap();
        let server =
            set(Server::builder(InMemoryStore::new()).agent("agent", agent)).build().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, shutdown) = (listener.local_addr().unwrap(), Arc::new(Notify::new()));
        let stop = shutdown.clone();
        let ended =
            tokio::spawn(async move { serve(listener, server, stop.notified_owned()).await });
        Served { address, shutdown, ended }
    }

    pub(crate) async fn connect(&self) -> Client {
        let stream = TcpStream::connect(self.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (sender, connection) =
            handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Client { sender, base: format!("http://{}", self.address) }
    }
}

pub(crate) struct Client {
    sender: SendRequest<Body>,
    base: String,
}

impl Client {
    /// Builds a request for JSON with the server's name.
    pub(crate) fn request(&self, method: Method, path: &str, body: &Value) -> Request<Body> {
        let request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        let request = request.header(header::CONTENT_TYPE, "application/json");
        request.body(Body::from(body.to_string())).unwrap()
    }

    pub(crate) async fn send(&mut self, request: Request<Body>) -> Response<Incoming> {
        self.sender.send_request(request).await.unwrap()
    }

    /// Returns the status and the JSON of the response.
    pub(crate) async fn call(&mut self, request: Request<Body>) -> (u16, Value) {
        let response = self.send(request).await;
        let status = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    pub(crate) async fn get(&mut self, path: &str) -> (u16, Value) {
        let request = self.request(Method::GET, path, &Value::Null);
        self.call(request).await
    }

    async fn post(&mut self, path: &str, body: Value) -> (u16, Value) {
        let request = self.request(Method::POST, path, &body);
        self.call(request).await
    }

    async fn events(&mut self, session: &str) -> Reader {
        let path = format!("/api/sessions/{session}/events");
        let request = self.request(Method::GET, &path, &Value::Null);
        let response = self.send(request).await;
        assert_eq!(response.status(), 200);
        Reader::of(Body::new(response.into_body()))
    }
}

/// C204: Twenty conversations, each with its stream of events, share a connection.
#[tokio::test]
async fn twenty_conversations_share_a_connection() {
    let replies = (0..20).map(|_| Script::text("Nine.")).collect();
    let served = Served::start(replies, |builder| builder.max_connections(50)).await;
    let mut client = served.connect().await;
    let mut readers = Vec::new();
    for _ in 0..20 {
        let (status, created) = client.post("/api/sessions", json!({})).await;
        assert_eq!(status, 201, "{created}");
        let id = created["id"].as_str().unwrap().to_owned();
        readers.push((client.events(&id).await, id));
    }
    for (_, id) in &readers {
        let path = format!("/api/sessions/{id}/prompt");
        assert_eq!(client.post(&path, json!({ "message": "How many?" })).await.0, 202);
    }
    for (reader, _) in &mut readers {
        assert_eq!(reader.until("agent_end").await.last().unwrap().data["text"], "Nine.");
    }
}

/// C99: Requests that are refused over HTTP/1.1 are refused over HTTP/2.
#[tokio::test]
async fn what_is_meant_as_harm_is_refused() {
    let served = Served::start(Vec::new(), |builder| builder.token(TOKEN).max_body(1000)).await;
    let mut client = served.connect().await;
    let usual = |client: &Client| {
        let mut request = client.request(Method::POST, "/api/sessions", &json!({}));
        let token = format!("Bearer {TOKEN}").parse().unwrap();
        request.headers_mut().insert(header::AUTHORIZATION, token);
        request
    };
    let request = usual(&client);
    assert_eq!(client.call(request).await.0, 201, "it is allowed as it is");

    let own = served.address.to_string();
    for (name, value, status) in [
        (header::AUTHORIZATION, "Bearer another-token-12345", 401),
        (header::HOST, "evil.example", 403),
        (header::ORIGIN, "http://evil.example", 403),
        (header::ORIGIN, "null", 403),
        (header::CONTENT_TYPE, "text/plain", 415),
    ] {
        let mut request = usual(&client);
        request.headers_mut().insert(name.clone(), value.parse().unwrap());
        let (got, body) = client.call(request).await;
        assert_eq!(got, status, "{name}: {value}: {body}");
    }
    for authority in ["evil.example", "localhost.evil.example:80", "192.168.0.1"] {
        let mut request = usual(&client);
        *request.uri_mut() = format!("http://{authority}/api/sessions").parse().unwrap();
        assert_eq!(client.call(request).await.0, 403, "{authority}");
    }
    let mut two_hosts = usual(&client);
    two_hosts.headers_mut().append(header::HOST, own.parse().unwrap());
    two_hosts.headers_mut().append(header::HOST, "evil.example".parse().unwrap());
    assert_eq!(client.call(two_hosts).await.0, 400);
    let mut same_origin = usual(&client);
    let origin = format!("http://{own}").parse().unwrap();
    same_origin.headers_mut().insert(header::ORIGIN, origin);
    assert_eq!(client.call(same_origin).await.0, 201);
    let mut large = usual(&client);
    *large.body_mut() = Body::from(json!({ "name": "n".repeat(2000) }).to_string());
    assert_eq!(client.call(large).await.0, 413);
    assert_eq!(client.get("/healthz").await.0, 200);
    // All are counted.
    let mut metrics = client.request(Method::GET, "/metrics", &Value::Null);
    let token = format!("Bearer {TOKEN}").parse().unwrap();
    metrics.headers_mut().insert(header::AUTHORIZATION, token);
    let text = client.send(metrics).await.into_body().collect().await.unwrap().to_bytes();
    let text = String::from_utf8(text.to_vec()).unwrap();
    for line in ["http_responses_total{status=\"201\"} 2", "http_responses_total{status=\"403\"} 6"]
    {
        assert!(text.contains(&format!("loopwright_{line}\n")), "{line}: {text}");
    }
    for line in ["token\"} 1", "forbidden\"} 6", "too_large\"} 1"] {
        assert!(text.contains(&format!("loopwright_refusals_total{{kind=\"{line}\n")), "{text}");
    }
}

/// C204: A shutdown notifies the readers of a connection, ends their streams, and then the server.
#[tokio::test]
async fn a_shutdown_ends_the_streams_of_a_connection() {
    let served = Served::start(vec![Script::text("Nine.")], |builder| builder).await;
    let mut client = served.connect().await;
    let (_, created) = client.post("/api/sessions", json!({})).await;
    let mut reader = client.events(created["id"].as_str().unwrap()).await;
    served.shutdown.notify_one();
    reader.until("draining").await;
    assert!(reader.next().await.is_none());
    served.ended.await.unwrap().unwrap();
}

/// C419: A request without a valid token is answered with 401 and a challenge that shows whether a
/// token was wrong. The agents' cards need no token, and announce that the agents need one.
#[tokio::test]
async fn a_missing_token_is_asked_for() {
    let served = Served::start(Vec::new(), |builder| builder.token(TOKEN)).await;
    let mut client = served.connect().await;
    for path in ["/api/sessions", "/api/inbox/events", "/v1/models", "/metrics", "/a2a/agent", "/x"]
    {
        for (authorization, wrong) in [
            (None, false),
            (Some("Basic YTpi"), false),
            (Some("Bearer another-token-12345"), true),
            (Some("Bearer a.b.c"), true),
        ] {
            let mut request = client.request(Method::GET, path, &Value::Null);
            if let Some(value) = authorization {
                request.headers_mut().insert(header::AUTHORIZATION, value.parse().unwrap());
            }
            let response = client.send(request).await;
            assert_eq!(response.status(), 401, "{path} {authorization:?}");
            let challenge = response.headers()[header::WWW_AUTHENTICATE].to_str().unwrap();
            assert!(challenge.starts_with("Bearer realm="), "{challenge}");
            assert_eq!(challenge.contains("error=\"invalid_token\""), wrong, "{path} {challenge}");
        }
    }
    let own = client.get("/.well-known/agent-card.json").await;
    assert_eq!(own, client.get("/a2a/agent/.well-known/agent-card.json").await);
    assert_eq!((own.0, &own.1["name"]), (200, &json!("agent")), "{own:?}");
    assert!(own.1["securitySchemes"]["token"].is_object(), "{own:?}");
    assert_eq!(client.get("/a2a/other/.well-known/agent-card.json").await.0, 404);
    for path in ["/a2a/agent/x/.well-known/agent-card.json", "/x/.well-known/agent-card.json"] {
        assert_eq!(client.get(path).await.0, 401, "{path}");
    }
    let mut foreign = client.request(Method::GET, "/api/sessions", &Value::Null);
    foreign.headers_mut().insert(header::ORIGIN, "http://evil.example".parse().unwrap());
    let refused = client.send(foreign).await;
    assert_eq!(refused.status(), 403, "no token would help");
    assert!(!refused.headers().contains_key(header::WWW_AUTHENTICATE));
}
