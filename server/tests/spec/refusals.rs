//! What is logged of requests that are refused.

use std::sync::{Arc, Mutex};

use loopwright_core::agent::Principal;
use loopwright_core::log::InMemoryStore;
use loopwright_core::testing::Script;
use loopwright_server::{Caller, OperatorRules};
use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};

use crate::api::Api;

/// Records the fields of all warnings, as text.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

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

/// C956: a refusal is logged once, with who was refused, from where and why, also if the routes are
/// part of a host's app; what is only wrong is not.
#[tokio::test]
async fn refusals_are_logged_with_the_caller() {
    let warnings = Warnings::default();
    let _guard = tracing::subscriber::set_default(warnings.clone());
    // With a single subscriber, a test in another thread may turn the warning off for all.
    let _second = Dispatch::new(Warnings::default());
    tracing::callsite::rebuild_interest_cache();
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
        (&ann, "/api/sessions", json!({ "autoApprove": ["all"] }), 403, "ann", "not_allowed"),
        (&reader, &*prompt, say.clone(), 403, "bob", "forbidden"),
        (&ann, &other, say, 429, "ann", "too_many"),
        (&ann, "/api/sessions", json!({ "name": "n".repeat(1000) }), 413, "ann", "too_large"),
        (&api, "/api/sessions", json!({ "autoApprove": ["all"] }), 403, "the operator", "not_all"),
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
