//! Addresses and headers of models that clients choose, over real connections.

use std::sync::Arc;
use std::time::Duration;

use loopwright_core::log::InMemoryStore;
use loopwright_host::{EnvModels, OperatorRules, SessionSettings};
use loopwright_server::ServerBuilder;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::api::Api;

/// A text that only clients of the inner server can read.
const SECRET: &str = "the inner server's secret";

/// Timeout for the arrival of a request.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A server that only this machine should reach. It answers every request with an error.
struct Inner {
    port: u16,
    listener: TcpListener,
}

impl Inner {
    async fn start() -> Inner {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Inner { port: listener.local_addr().unwrap().port(), listener }
    }

    /// Answers one request, and returns its head.
    async fn answer(&self) -> String {
        let accepted = tokio::time::timeout(TIMEOUT, self.listener.accept()).await;
        let (mut stream, _) = accepted.unwrap().unwrap();
        let mut head = Vec::new();
        while !head.windows(4).any(|end| end == b"\r\n\r\n") {
            assert!(stream.read_buf(&mut head).await.unwrap() > 0);
        }
        let body = json!({ "error": { "message": SECRET } }).to_string();
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\nconnection: close\r\n\r\n{body}"
        );
        stream.write_all(answer.as_bytes()).await.unwrap();
        String::from_utf8_lossy(&head).into_owned()
    }

    /// Checks that nobody has connected, by making the first connection.
    async fn is_unasked(&self) {
        let own = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        let (_, first) = self.listener.accept().await.unwrap();
        assert_eq!(first, own.local_addr().unwrap(), "a connection was made");
    }

    fn url(&self, host: &str) -> String {
        format!("http://{host}:{}/v1", self.port)
    }
}

fn api(rules: OperatorRules, set: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Api {
    Api::with(Arc::new(InMemoryStore::new()), [], |server| {
        set(server.models(EnvModels::default().retries(1, Duration::ZERO)).rules(rules))
    })
}

async fn ask(api: &Api, config: Value) -> (u16, Value) {
    let body = json!({ "message": "go", "workDir": ".", "llmConfig": config });
    api.post("/api/agent-chat", body).await
}

fn at(url: &str) -> Value {
    json!({ "apiKey": "k", "model": "m", "baseUrl": url })
}

/// C257: An address of this machine, of a private network or of a cloud's metadata is refused in
/// any notation. So is a name that resolves to one. Nothing is sent there.
#[tokio::test]
async fn clients_do_not_reach_inner_addresses() {
    let inner = Inner::start().await;
    for rules in [
        OperatorRules::strict(),
        OperatorRules::open().addresses(["10.1.0.0/16", "localhost:1", "127.0.0.1:1"]).unwrap(),
    ] {
        let api = api(rules, |server| server);
        for host in [
            "127.0.0.1",
            "127.1",
            "2130706433",
            "0x7f.1",
            "0177.0.0.1",
            "0",
            "[::1]",
            "[::]",
            "[::ffff:127.0.0.1]",
            "[64:ff9b::7f00:1]",
            "user:password@127.0.0.1",
            "10.0.0.1",
            "100.64.0.1",
            "169.254.169.254",
            "192.168.0.1",
            "[fd00:ec2::254]",
            "[fe80::1]",
            "224.0.0.1",
        ] {
            let (status, body) = ask(&api, at(&inner.url(host))).await;
            let error = &body["error"];
            assert_eq!((status, &error["kind"]), (403, &json!("not_allowed")), "{host}: {body}");
            assert_eq!(error["path"], "/llmConfig/baseUrl", "{host}");
            assert!(!body.to_string().contains("password"), "{body}");
        }
        for host in ["localhost", "LOCALHOST", "%6cocalhost"] {
            let (status, frames) = ask(&api, at(&inner.url(host))).await;
            let frames = frames.as_str().unwrap();
            assert_eq!(status, 200, "{host}: {frames}");
            assert!(frames.contains("may not be reached"), "{host}: {frames}");
            assert!(!frames.contains(SECRET), "{host}: {frames}");
        }
        inner.is_unasked().await;
    }
}

/// C257: Addresses that the operator allows are reached, by their network or by name. On a server
/// without such rules, all addresses are reached.
#[tokio::test]
async fn clients_reach_what_the_operator_allows() {
    let inner = Inner::start().await;
    let port = inner.port;
    let strict = |allowed: &str| OperatorRules::strict().addresses([allowed]).unwrap();
    for (rules, host, is_allowed) in [
        (strict("127.0.0.0/8"), "127.0.0.1", true),
        (strict("127.0.0.0/8"), "localhost", true),
        (strict("127.0.0.1"), "localhost", true),
        (strict(&format!("localhost:{port}")), "localhost", true),
        (strict("localhost"), "LocalHost", true),
        (strict(&format!("localhost:{port}")), "127.0.0.1", false),
        (strict("localhost:1"), "localhost", false),
        (strict("all"), "127.0.0.1", true),
        (OperatorRules::open(), "127.0.0.1", true),
    ] {
        let (api, url) = (api(rules.clone(), |server| server), inner.url(host));
        let asked = ask(&api, at(&url));
        if is_allowed {
            let ((status, frames), _) = tokio::join!(asked, inner.answer());
            assert_eq!(status, 200, "{frames}");
            assert!(frames.as_str().unwrap().contains(SECRET), "{rules:?} {host}: {frames}");
        } else {
            let (_, body) = asked.await;
            assert!(!body.to_string().contains(SECRET), "{rules:?} {host}: {body}");
            inner.is_unasked().await;
        }
    }
}

/// C257: The operator's address for the server's own model is always allowed, and a client cannot
/// give a session an address.
#[tokio::test]
async fn the_operator_s_own_model_is_anywhere() {
    let inner = Inner::start().await;
    let mut defaults = SessionSettings::new();
    defaults.model = Some("custom/local".into());
    defaults.base_url = Some(inner.url("127.0.0.1"));
    let api = api(OperatorRules::strict(), |server| server.defaults(defaults));
    let id = api.session(json!({})).await;
    api.say(&id, "go").await;
    let (frames, _) = tokio::join!(api.run(&id, None), inner.answer());
    assert_eq!(frames.last().unwrap().data["end"], "error", "{frames:?}");
    let other = json!({ "model": "custom/local", "baseUrl": inner.url("localhost") });
    let (status, body) = api.post("/api/sessions", other).await;
    assert_eq!((status, &body["error"]["path"]), (400, &json!("/baseUrl")), "{body}");
}

/// C285: A model whose name alone leads to a server on this machine is refused like its address, in
/// requests and in sessions. It is allowed if the operator allows it or has chosen it.
#[tokio::test]
async fn clients_do_not_reach_local_models_by_name() {
    let strict = api(OperatorRules::strict(), |server| server);
    let port = OperatorRules::strict().addresses(["127.0.0.1:8080"]).unwrap();
    let allowed = api(port, |server| server);
    let mut defaults = SessionSettings::new();
    defaults.model = Some("vllm/own".into());
    let own = api(OperatorRules::strict(), |server| server.defaults(defaults));
    let id = strict.session(json!({ "model": "offline" })).await;
    for name in ["ollama", "llamacpp", "llama.cpp", "vllm", "lmstudio"] {
        let model = format!("{name}/x");
        for config in
            [json!({ "provider": name, "model": "x" }), json!({ "apiKey": "k", "model": model })]
        {
            let (status, body) = ask(&strict, config).await;
            let error = &body["error"];
            assert_eq!((status, &error["kind"]), (403, &json!("not_allowed")), "{name}: {body}");
            assert_eq!(error["path"], "/llmConfig/model", "{name}");
        }
        let (status, body) = strict.post("/api/sessions", json!({ "model": model })).await;
        assert_eq!((status, &body["error"]["path"]), (403, &json!("/model")), "{name}: {body}");
        let change = Some(json!({ "model": model }));
        let (status, body) = strict.call("PATCH", &format!("/api/sessions/{id}"), change).await;
        assert_eq!((status, &body["error"]["path"]), (403, &json!("/model")), "{name}: {body}");
        let expected = if name.starts_with("llama") { 201 } else { 403 };
        let created = allowed.post("/api/sessions", json!({ "model": model })).await;
        assert_eq!(created.0, expected, "{name}: {created:?}");
    }
    own.session(json!({})).await;
    own.session(json!({ "model": "vllm/own" })).await;
    assert_eq!(own.post("/api/sessions", json!({ "model": "vllm/other" })).await.0, 403);
    let open = api(OperatorRules::open(), |server| server);
    open.session(json!({ "model": "lmstudio/x" })).await;
}

/// C286: A local model is stored with its address, so that the session is sent nowhere else.
#[tokio::test]
async fn a_local_model_is_stored_with_its_address() {
    let api = api(OperatorRules::open(), |server| server);
    let id = api.session(json!({ "model": "llamacpp/x" })).await;
    let settings = api.get(&format!("/api/sessions/{id}")).await["session"]["settings"].clone();
    assert_eq!(settings["baseUrl"], "http://127.0.0.1:8080/v1", "{settings}");
}

/// C262: Headers that frame a request or belong to its connection are refused, in upper or lower
/// case. Others are sent, and a header with a key replaces `apiKey`.
#[tokio::test]
async fn headers_of_the_connection_are_refused() {
    let inner = Inner::start().await;
    let api = api(OperatorRules::open(), |server| server);
    let with = |headers: Value| {
        let mut config = at(&inner.url("127.0.0.1"));
        config["headers"] = headers;
        config
    };
    for name in [
        "Content-Length",
        "content-length",
        "Transfer-Encoding",
        "Host",
        "Expect",
        "Connection",
        "Keep-Alive",
        "TE",
        "Trailer",
        "Upgrade",
        "HTTP2-Settings",
        "Proxy-Authorization",
        "Proxy-Connection",
    ] {
        let (status, body) = ask(&api, with(json!({ "x-a": "1", name: "5" }))).await;
        let path = json!(format!("/llmConfig/headers/{name}"));
        assert_eq!((status, &body["error"]["path"]), (403, &path), "{body}");
        assert_eq!(body["error"]["kind"], "not_allowed");
    }
    inner.is_unasked().await;
    let headers = json!({ "x-tenant": "me", "authorization": "Bearer mine" });
    let ((status, _), head) = tokio::join!(ask(&api, with(headers)), inner.answer());
    let head = head.to_lowercase();
    assert_eq!(status, 200);
    assert!(head.contains("\r\nx-tenant: me\r\n"), "{head}");
    assert_eq!(head.matches("\r\nauthorization: ").count(), 1, "{head}");
    assert!(head.contains("\r\nauthorization: bearer mine\r\n"), "{head}");
}
