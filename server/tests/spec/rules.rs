//! The limits that a server's operator sets for its clients.

use std::sync::Arc;

use loopwright_core::SessionStore;
use loopwright_core::limits::Budget;
use loopwright_core::log::InMemoryStore;
use loopwright_core::testing::Script;
use loopwright_host::OperatorRules;
use loopwright_server::ServerBuilder;
use serde_json::{Value, json};

use crate::api::Api;

const WRITE: &str = r#"{"path": "new.txt", "content": "ten"}"#;

fn with_rules(
    rules: OperatorRules,
    store: &Arc<dyn SessionStore>,
    replies: impl IntoIterator<Item = Script>,
) -> Api {
    Api::with(store.clone(), replies, |server: ServerBuilder| server.rules(rules))
}

fn store() -> Arc<dyn SessionStore> {
    Arc::new(InMemoryStore::new())
}

fn chat(config: Value, more: Value) -> Value {
    let mut body = json!({ "message": "go", "workDir": ".", "llmConfig": config });
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

/// Checks that a request was refused because of the operator's rules.
fn refused((status, body): (u16, Value), path: &str, message: &str) {
    let error = &body["error"];
    assert_eq!((status, &error["kind"]), (403, &json!("not_allowed")), "{body}");
    assert_eq!(error["path"], path, "{body}");
    assert!(error["message"].as_str().unwrap().contains(message), "{body}");
}

/// Creates a session on a server without rules.
async fn older_session(store: &Arc<dyn SessionStore>, settings: Value) -> String {
    let api = Api::over(store.clone(), [Script::text("Hello.")]);
    let id = api.session(settings).await;
    run(&api, &id).await;
    id
}

/// Sends a message, and returns the end of its run.
async fn run(api: &Api, id: &str) -> Value {
    let seq = api.get(&format!("/api/sessions/{id}/messages")).await["seq"].as_u64();
    api.say(id, "go").await;
    api.run(id, seq).await.pop().unwrap().data
}

/// C256: Sessions and requests have only the allowed models and the server's own. A session that
/// was created with another model can be read.
#[tokio::test(start_paused = true)]
async fn only_allowed_models_are_used() {
    let store = store();
    let older = older_session(&store, json!({ "model": "openai/gpt-5-pro" })).await;
    let rules = OperatorRules::open().models(["openai/gpt-4*", "anthropic/claude"]).unwrap();
    let api = with_rules(rules, &store, (0..9).map(|_| Script::text("Yes.")));
    let allowed = "`test/scripted`, `openai/gpt-4*`, `anthropic/claude`";
    for model in [
        "openai/gpt-5-pro",
        "openai",
        "OPENAI/gpt-4o",
        " openai/gpt-4o",
        "openai-chat/gpt-4o",
        "anthropic/claude-x",
        "test/scripted2",
        "*",
    ] {
        let created = api.post("/api/sessions", json!({ "model": model })).await;
        refused(created, "/model", allowed);
    }
    for settings in [
        json!({}),
        json!({ "model": "test/scripted" }),
        json!({ "model": "openai/gpt-4o" }),
        json!({ "model": "anthropic/claude" }),
    ] {
        api.session(settings).await;
    }
    let in_chat = |config: Value| api.post("/api/agent-chat", chat(config, json!({})));
    for config in [
        json!({ "apiKey": "k", "provider": "openai", "model": "gpt-5-pro" }),
        json!({ "apiKey": "k", "model": "openai/gpt-5-pro" }),
        json!({ "apiKey": "k", "provider": "custom", "model": "openai/gpt-4o" }),
        json!({ "apiKey": "k", "model": "openai/gpt-4o", "baseUrl": "http://1.1.1.1/v1" }),
        json!({ "apiKey": "k", "model": "gpt-4o" }),
        json!({}),
    ] {
        refused(in_chat(config).await, "/llmConfig/model", allowed);
    }
    for config in [
        json!({ "apiKey": "k", "provider": "openai", "model": "gpt-4o" }),
        json!({ "apiKey": "k", "model": "anthropic/claude" }),
    ] {
        assert_eq!(in_chat(config).await.0, 200);
    }

    let path = |what: &str| format!("/api/sessions/{older}{what}");
    let prompt = api.post(&path("/prompt"), json!({ "message": "Hello again" })).await;
    refused(prompt, "/model", allowed);
    let status = api.get(&path("")).await;
    assert_eq!((&status["readOnly"], &status["model"]), (&json!(true), &json!("openai/gpt-5-pro")));
    assert_eq!(api.get(&path("/messages")).await["messages"].as_array().unwrap().len(), 2);
    let end = api.events(&older, None).await.until("agent_end").await.pop().unwrap();
    assert_eq!(end.data["text"], "Hello.");
}

/// C256, C258: A change of settings and a fork are bound by the rules too. A session's earlier
/// settings do not prevent changes of the others, and an allowed model makes it usable.
#[tokio::test(start_paused = true)]
async fn changes_are_bound_by_the_rules() {
    let store = store();
    let settings = json!({ "model": "openai/gpt-5-pro", "approve": ["all"] });
    let older = older_session(&store, settings).await;
    let rules = OperatorRules::strict().models(["openai/gpt-4*"]).unwrap();
    let api = with_rules(rules, &store, [Script::text("Yes."), Script::text("Yes.")]);
    while store.in_use(&older).await.unwrap() == Some(true) {
        tokio::task::yield_now().await; // the old server closes it
    }
    let path = format!("/api/sessions/{older}");
    let patch = |body: Value| api.call("PATCH", &path, Some(body));
    let allowed = "`openai/gpt-4*`";
    refused(patch(json!({ "name": "Old" })).await, "/model", allowed);
    refused(patch(json!({ "model": "openai/gpt-6" })).await, "/model", allowed);
    refused(api.post(&format!("{path}/fork"), json!({})).await, "/model", allowed);
    let (status, body) = patch(json!({ "model": "openai/gpt-4o", "name": "Old" })).await;
    assert!(status < 300, "{body}");
    refused(patch(json!({ "approve": ["edit_file"] })).await, "/approve/0", "none");
    assert!(patch(json!({ "approve": [] })).await.0 < 300);
    refused(patch(json!({ "approve": ["all"] })).await, "/approve/0", "none");
    assert_eq!(run(&api, &older).await["end"], "done");
    let (status, fork) = api.post(&format!("{path}/fork"), json!({})).await;
    assert_eq!(status, 201, "{fork}");
    assert_eq!(run(&api, fork["id"].as_str().unwrap()).await["end"], "done");
}

/// C258: Clients let only the allowed tools run without approval, even in sessions that were
/// created before.
#[tokio::test(start_paused = true)]
async fn only_allowed_approvals_last() {
    let store = store();
    let mut older = Vec::new();
    for approved in [json!(["all"]), json!(["write_file"]), json!(["edit_file", "read-only"])] {
        older.push(older_session(&store, json!({ "approve": approved })).await);
    }
    for (allowed, ends) in [
        (vec![], ["awaiting_action"; 3]),
        // The agent has no tool `pay`; another agent may have one.
        (vec!["write_file", "pay"], ["done", "done", "awaiting_action"]),
        (vec!["all"], ["done", "done", "awaiting_action"]),
    ] {
        for (id, end) in older.iter().zip(ends) {
            let rules = OperatorRules::strict().approvals(allowed.clone());
            let writes = Script::new().call("a", "write_file", WRITE);
            let api = with_rules(rules, &store, [writes, Script::text("Written.")]);
            let last = run(&api, id).await;
            assert_eq!(last["end"], end, "{allowed:?}: {last}");
            if end != "done" {
                let abort = api.post(&format!("/api/sessions/{id}/abort"), json!({})).await;
                assert_eq!(abort.0, 202, "{abort:?}");
            }
        }
    }
    let api = with_rules(OperatorRules::strict().approvals(["write_file"]), &store, []);
    for (approved, path) in
        [(json!(["all"]), "/approve/0"), (json!(["write_file", "execute_command"]), "/approve/1")]
    {
        let settings = json!({ "approve": approved });
        refused(api.post("/api/sessions", settings).await, path, "`write_file`");
        let config = json!({ "apiKey": "k", "model": "m" });
        let request = chat(config, json!({ "approve": approved }));
        refused(api.post("/api/agent-chat", request).await, path, "`write_file`");
    }
    api.session(json!({ "approve": ["write_file", "read-only"] })).await;
}

/// C258: While `/api/agent-chat` streams, calls that change something run only if the operator
/// allows them, whatever the request asks for.
#[tokio::test(start_paused = true)]
async fn a_request_runs_only_what_the_operator_allows() {
    for (allowed, more, runs) in [
        (vec![], json!({}), false),
        (vec![], json!({ "approve": [] }), false),
        (vec!["edit_file"], json!({}), false),
        (vec!["write_file"], json!({}), true),
        (vec!["write_file"], json!({ "approve": ["write_file"] }), true),
        (vec!["write_file"], json!({ "approve": [] }), false),
        (vec!["write_file"], json!({ "confirm": true }), false),
        (vec!["all"], json!({}), true),
    ] {
        let rules = OperatorRules::strict().approvals(allowed.clone());
        let reply = Script::new().call("a", "write_file", WRITE);
        let reads = Script::new().call("b", "read_file", r#"{"path": "notes.txt"}"#);
        let api = with_rules(rules, &store(), [reply, reads, Script::text("So it is.")]);
        let config = json!({ "apiKey": "k", "model": "m" });
        let (_, frames) = api.post("/api/agent-chat", chat(config, more.clone())).await;
        let frames = frames.as_str().unwrap();
        let what = format!("{allowed:?} {more}: {frames}");
        assert_eq!(api.root.path().join("new.txt").exists(), runs, "{what}");
        assert_eq!(frames.contains(r#""type":"confirm""#), !runs, "{what}");
        assert!(frames.contains("Nine sheep.") && frames.contains("So it is."), "{what}");
    }
}

/// C259: A session uses no more in total than the operator allows, whatever it asks for, even if it
/// was created before.
#[tokio::test(start_paused = true)]
async fn the_operator_bounds_what_a_session_uses() {
    let store = store();
    let older = older_session(&store, json!({ "maxSessionTurns": 90 })).await;
    let rules = OperatorRules::open().session_budget(Budget::default().turns(2));
    let api = with_rules(rules, &store, (0..20).map(|_| Script::text("Yes.")));
    for (id, runs) in [
        (older, 1),
        (api.session(json!({})).await, 2),
        (api.session(json!({ "maxSessionTurns": 5 })).await, 2),
        (api.session(json!({ "maxSessionTurns": 1 })).await, 1),
    ] {
        for number in 0..3 {
            let last = run(&api, &id).await;
            let expected = if number < runs { "done" } else { "limit" };
            assert_eq!(last["end"], expected, "{id}, run {number}: {last}");
        }
    }
}
