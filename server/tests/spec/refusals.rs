//! The log of refused requests.

use std::sync::{Arc, Mutex};

use loopwright_core::log::InMemoryStore;
use loopwright_core::testing::{Script, ScriptedModel};
use loopwright_core::{GenericAgent, Principal};
use loopwright_host::OperatorRules;
use loopwright_patterns::PiPattern;
use loopwright_server::{Caller, Server, serve};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};

use crate::api::Api;

/// A subscriber that records the fields of all warnings, as text.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    /// Records the warnings of this thread, until the guards are dropped.
    fn record() -> (Warnings, (DefaultGuard, Dispatch)) {
        let warnings = Warnings::default();
        let guard = tracing::subscriber::set_default(warnings.clone());
        // With a single subscriber, a test in another thread may turn the warnings off for all.
        let second = Dispatch::new(Warnings::default());
        tracing::callsite::rebuild_interest_cache();
        (warnings, (guard, second))
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0 += &format!("{}={value:?} ", field.name());
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN && metadata.target().starts_with("loopwright_server")
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// C289: A refusal is logged once, with the caller, the client's address and the reason, even if
/// the routes are part of a host's app. Invalid requests are not logged.
#[tokio::test]
async fn refusals_are_logged_with_the_caller() {
    let (warnings, _guards) = Warnings::record();
    let model = Script::new().hang();
    let api = Api::with(Arc::new(InMemoryStore::new()), [model], |server| {
        server.rules(OperatorRules::strict()).max_body(1000).max_runs(1, 9)
    });
    let ann = api.as_user("ann");
    let id = ann.session(json!({})).await;
    let reader = api.as_caller(Caller::new(Principal::new("bob")).role("reader"));
    let prompt = format!("/api/sessions/{id}/prompt");
    let other = format!("/api/sessions/{}/prompt", ann.session(json!({})).await);
    ann.say(&id, "Hang.").await;
    let say = json!({ "message": "go" });
    let refused = [
        (&ann, "/api/sessions", json!({ "approve": ["all"] }), 403, "ann", "not_allowed"),
        (&reader, &*prompt, say.clone(), 403, "bob", "forbidden"),
        (&ann, &other, say, 429, "ann", "too_many"),
        (&ann, "/api/sessions", json!({ "name": "n".repeat(1000) }), 413, "ann", "too_large"),
        (&api, "/api/sessions", json!({ "approve": ["all"] }), 403, "the operator", "not_all"),
    ];
    for (client, path, body, expected, who, kind) in refused {
        warnings.0.lock().unwrap().clear();
        let (status, body) = client.post(path, body).await;
        assert_eq!(status, expected, "{body}");
        let lines = warnings.0.lock().unwrap().clone();
        let [line] = &*lines else { panic!("{lines:?}") };
        for part in [&*format!("caller={who} "), "10.0.0.1", path, kind, "a request was refused"] {
            assert!(line.contains(part), "{part}: {line}");
        }
    }
    warnings.0.lock().unwrap().clear();
    assert_eq!(ann.post("/api/sessions", json!({ "maxTurns": 0 })).await.0, 400);
    assert_eq!(ann.call("GET", "/api/sessions/nothing", None).await.0, 404);
    assert_eq!(*warnings.0.lock().unwrap(), [""; 0]);
}

/// C289: Connections beyond a client's limit are logged, with one line for many.
#[tokio::test]
async fn refused_connections_are_logged() {
    let (warnings, _guards) = Warnings::record();
    let agent = GenericAgent::builder(ScriptedModel::new([]), PiPattern).build().unwrap();
    let server = Server::builder(InMemoryStore::new()).agent("agent", agent).max_connections(1);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(listener, server.build().unwrap(), std::future::pending()));
    let _open = TcpStream::connect(address).await.unwrap();
    for _ in 0..5 {
        let mut refused = TcpStream::connect(address).await.unwrap();
        refused.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        let mut response = String::new();
        let _ = refused.read_to_string(&mut response).await; // it may be reset after the response
        assert!(response.starts_with("HTTP/1.1 429"), "{response}");
        let head = response.to_ascii_lowercase();
        assert!(head.contains("\r\nretry-after: 2\r\n"), "{response}"); // C428
    }
    let lines = warnings.0.lock().unwrap().clone();
    assert!(!lines.is_empty() && lines.len() < 5, "{lines:?}");
    assert!(lines[0].contains("a connection was refused"), "{lines:?}");
    assert!(lines[0].contains("127.0.0.1"), "{lines:?}");
}
