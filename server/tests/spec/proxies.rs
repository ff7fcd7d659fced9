//! A server behind a proxy, over real connections: the client that a request counts for.

use std::net::SocketAddr;

use axum::body::Body;
use axum::http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use loopwright_core::GenericAgent;
use loopwright_core::log::InMemoryStore;
use loopwright_core::testing::{Script, ScriptedModel};
use loopwright_host::OperatorRules;
use loopwright_patterns::PiPattern;
use loopwright_server::{Server, ServerBuilder, serve};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

use crate::api::retry_after;

const TOKEN: &str = "correct-horse-battery";

async fn start(proxies: &[&str], set: impl FnOnce(ServerBuilder) -> ServerBuilder) -> SocketAddr {
    let model = ScriptedModel::new((0..9).map(|_| Script::new().say("half").hang()));
    let agent = GenericAgent::builder(model, PiPattern).build().unwrap();
    let builder = Server::builder(InMemoryStore::new()).agent("agent", agent);
    let builder = builder.rules(OperatorRules::open()).trusted_proxies(proxies).unwrap();
    let server = set(builder.token(TOKEN)).build().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(listener, server, std::future::pending()));
    address
}

/// A connection of the proxy, which sends one request at a time.
struct Upstream(SendRequest<Body>, SocketAddr);

impl Upstream {
    async fn open(address: SocketAddr) -> Upstream {
        let stream = TcpStream::connect(address).await.unwrap();
        let (sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Upstream(sender, address)
    }

    /// Sends a request for a client, or for nobody.
    async fn send(&mut self, path: &str, client: &str, body: Option<Value>) -> Response<Incoming> {
        let method = if body.is_some() { "POST" } else { "GET" };
        let body = body.map_or(Body::empty(), |body| Body::from(body.to_string()));
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", self.1.to_string())
            .header("authorization", format!("Bearer {TOKEN}"))
            .header("content-type", "application/json");
        if !client.is_empty() {
            request = request.header("x-forwarded-for", client);
        }
        self.0.ready().await.unwrap();
        self.0.send_request(request.body(body).unwrap()).await.unwrap()
    }
}

async fn session(address: SocketAddr) -> String {
    let mut upstream = Upstream::open(address).await;
    let response = upstream.send("/api/sessions", "", Some(json!({}))).await;
    let body = response.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice::<Value>(&body).unwrap()["id"].as_str().unwrap().to_owned()
}

/// C261: Behind a trusted proxy, the requests in progress of each client are bounded, and the
/// connections of the proxy are not. A client at its limit affects neither other clients nor the
/// health check.
#[tokio::test]
async fn each_client_behind_a_proxy_has_its_own_bounds() {
    let address = start(&["127.0.0.0/8"], |server| server.max_connections(2)).await;
    let id = session(address).await;
    let events = format!("/api/sessions/{id}/events");
    let mut open = Vec::new();
    for client in ["203.0.113.1", "203.0.113.2", "2001:db8::1"] {
        for _ in 0..2 {
            let mut upstream = Upstream::open(address).await;
            // The client's own entry does not count.
            let hops = format!("198.51.100.7, {client}, 127.0.0.9");
            let response = upstream.send(&events, &hops, None).await;
            assert_eq!(response.status(), 200, "{client}");
            open.push((upstream, response));
        }
    }
    let mut upstream = Upstream::open(address).await;
    for client in ["203.0.113.1", "2001:db8::2"] {
        let refused = upstream.send(&events, client, None).await;
        assert_eq!(refused.status(), 429, "{client} has two");
        assert_eq!(retry_after(refused.headers()), 2); // C428
    }
    // C309: A client at its limit can still ask for the server's health.
    for client in ["203.0.113.1", "203.0.113.3", ""] {
        for path in ["/healthz", "/readyz"] {
            assert_eq!(upstream.send(path, client, None).await.status(), 200, "{client} {path}");
        }
    }
    // A stream that ends makes room for another request of its client.
    open.truncate(1);
    loop {
        if upstream.send("/api/agents", "203.0.113.1", None).await.status() == 200 {
            break;
        }
        tokio::task::yield_now().await;
    }
}

/// C261: Runs also count for the client behind the proxy.
#[tokio::test]
async fn runs_count_for_the_client_behind_a_proxy() {
    let address = start(&["127.0.0.1"], |server| server.max_runs(1, 9)).await;
    let mut upstream = Upstream::open(address).await;
    let mut statuses = Vec::new();
    for client in ["203.0.113.1", "203.0.113.1", "203.0.113.2"] {
        let path = format!("/api/sessions/{}/prompt", session(address).await);
        let response = upstream.send(&path, client, Some(json!({ "message": "go" }))).await;
        statuses.push(response.status().as_u16());
        response.into_body().collect().await.unwrap();
    }
    assert_eq!(statuses, [202, 429, 202]);
}

/// C261: Without a trusted proxy, or from an address that is not its, the header is ignored.
#[tokio::test]
async fn the_header_of_others_is_ignored() {
    for proxies in [vec![], vec!["10.0.0.0/8"]] {
        let address = start(&proxies, |server| server.max_runs(1, 9)).await;
        let mut upstream = Upstream::open(address).await;
        let mut statuses = Vec::new();
        for client in ["203.0.113.1", "203.0.113.2"] {
            let path = format!("/api/sessions/{}/prompt", session(address).await);
            let response = upstream.send(&path, client, Some(json!({ "message": "go" }))).await;
            statuses.push(response.status().as_u16());
            response.into_body().collect().await.unwrap();
        }
        assert_eq!(statuses, [202, 429]);
    }
}

/// A server that other machines can reach needs rules, besides a token.
#[tokio::test]
async fn a_server_for_others_needs_rules() {
    let serve_on_all = async |rules: Option<OperatorRules>| {
        let agent = GenericAgent::builder(ScriptedModel::new([]), PiPattern).build().unwrap();
        let mut builder = Server::builder(InMemoryStore::new()).agent("agent", agent);
        builder = builder.token("correct-horse-battery");
        if let Some(rules) = rules {
            builder = builder.rules(rules);
        }
        let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
        serve(listener, builder.build().unwrap(), std::future::ready(())).await
    };
    let error = serve_on_all(None).await.unwrap_err();
    assert!(error.to_string().contains("`ServerBuilder::rules`"), "{error}");
    serve_on_all(Some(OperatorRules::strict())).await.unwrap();
}

/// C284: Everybody behind a proxy reaches the server, so it needs a token and rules at any address.
#[tokio::test]
async fn a_server_behind_a_proxy_needs_a_token_and_rules() {
    let serve_locally = async |token: Option<&str>, has_rules: bool| {
        let agent = GenericAgent::builder(ScriptedModel::new([]), PiPattern).build().unwrap();
        let builder = Server::builder(InMemoryStore::new()).agent("agent", agent);
        let builder = builder.trusted_proxies(["127.0.0.1"]).unwrap();
        let builder = match token {
            Some(token) => builder.token(token),
            None => builder,
        };
        let builder = if has_rules { builder.rules(OperatorRules::strict()) } else { builder };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        serve(listener, builder.build().unwrap(), std::future::ready(())).await
    };
    let error = serve_locally(None, true).await.unwrap_err();
    assert!(error.to_string().contains("needs a token"), "{error}");
    let error = serve_locally(Some(TOKEN), false).await.unwrap_err();
    assert!(error.to_string().contains("`ServerBuilder::rules`"), "{error}");
    serve_locally(Some(TOKEN), true).await.unwrap();
}
