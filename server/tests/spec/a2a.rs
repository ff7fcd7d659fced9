//! A2A: access to tasks, refusals, and tasks after restarts. The official clients are tested in
//! `tests/clients`.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{Request, header};
use loopwright_core::log::InMemoryStore;
use loopwright_core::testing::Script;
use serde_json::{Value, json};

use crate::api::Api;

/// Calls a method as this version of the protocol.
async fn call_as(api: &Api, version: &str, method: &str, params: Value) -> (u16, Value) {
    let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
    let request = Request::post("/a2a/coding")
        .header(header::CONTENT_TYPE, "application/json")
        .header("a2a-version", version)
        .body(Body::from(body.to_string()));
    api.respond(request.unwrap()).await
}

async fn call(api: &Api, method: &str, params: Value) -> Value {
    let (status, body) = call_as(api, "1.0", method, params).await;
    assert_eq!((status, &body["id"]), (200, &json!(7)), "{body}");
    body
}

fn message(id: &str, context: &str) -> Value {
    json!({ "message": {
        "messageId": id, "contextId": context, "role": "ROLE_USER", "parts": [{ "text": "Go." }],
    } })
}

/// C379: A task belongs to its caller, even if another caller names the same context. It survives a
/// restart.
#[tokio::test]
async fn a_task_is_its_callers() {
    let store = Arc::new(InMemoryStore::new());
    let api = Api::over(store.clone(), [Script::text("For Ann."), Script::text("For Bob.")]);
    let (ann, bob) = (api.as_user("ann"), api.as_user("bob"));
    let mut tasks = Vec::new();
    for (user, text) in [(&ann, "For Ann."), (&bob, "For Bob.")] {
        let task = call(user, "SendMessage", message("m", "shared")).await["result"]["task"].take();
        assert_eq!(task["artifacts"][0]["parts"][0]["text"], text, "{task}");
        tasks.push(task);
    }
    assert_eq!(tasks[0]["id"], tasks[1]["id"], "each has a context of this name");
    let id = json!({ "id": tasks[0]["id"] });
    let eve = api.as_user("eve");
    for method in ["GetTask", "CancelTask", "SubscribeToTask"] {
        assert_eq!(call(&eve, method, id.clone()).await["error"]["code"], -32001, "{method}");
    }
    let list = json!({ "contextId": "shared" });
    assert_eq!(call(&eve, "ListTasks", list).await["result"]["totalSize"], 0);
    let restarted = Api::over(store, []).as_user("ann");
    assert_eq!(call(&restarted, "GetTask", id).await["result"]["status"], tasks[0]["status"]);
}

/// C379: A message that is sent twice is answered once.
#[tokio::test]
async fn a_message_is_answered_once() {
    let api = Api::new([Script::text("Once.")]);
    let first = call(&api, "SendMessage", message("m", "c")).await;
    let mut params = message("m", "c");
    params["configuration"] = json!({ "returnImmediately": true });
    let second = call(&api, "SendMessage", params).await;
    assert_eq!(second["result"], first["result"]);
}

/// C379: A task whose actions are pending ends when the next message arrives, and decides nothing
/// of that message's task.
#[tokio::test]
async fn a_later_message_ends_a_task_that_waits() {
    let write = || Script::calls([("w", "write_file", json!({ "path": "a", "content": "" }))]);
    let api = Api::new([write(), write()]);
    let mut tasks = Vec::new();
    for id in ["m", "n"] {
        let response = call(&api, "SendMessage", message(id, "c")).await;
        tasks.push(response["result"]["task"].clone());
    }
    let get = async |task: &Value| {
        let response = call(&api, "GetTask", json!({ "id": task["id"] })).await;
        response["result"]["status"].clone()
    };
    assert_eq!(get(&tasks[0]).await["state"], "TASK_STATE_CANCELED");
    let action = &get(&tasks[1]).await["message"]["parts"][1]["data"];
    let data = json!({ "call": action["call"], "digest": action["digest"], "decision": "approve" });
    let mut decision = message("d", "c");
    decision["message"]["taskId"] = tasks[0]["id"].clone();
    decision["message"]["parts"] = json!([{ "data": data }]);
    let refused = call(&api, "SendMessage", decision).await;
    assert_eq!(refused["error"]["message"], "The task has ended.", "{refused}");
    assert_eq!(get(&tasks[1]).await["state"], "TASK_STATE_INPUT_REQUIRED");
}

/// C380: Invalid requests, and requests of other versions, are refused with the codes of the
/// protocol.
#[tokio::test]
async fn refusals_have_codes() {
    let api = Api::new([]);
    for (method, params, code) in [
        ("message/send", json!({}), -32601),
        ("SendMessage", json!({}), -32602),
        ("GetTask", json!({ "id": "m.c" }), -32001),
        (
            "SendMessage",
            json!({ "message": { "messageId": "m", "taskId": "m.c", "parts": [] } }),
            -32001,
        ),
        ("CreateTaskPushNotificationConfig", json!({}), -32003),
    ] {
        let error = call(&api, method, params).await["error"].take();
        assert_eq!(error["code"], code, "{method}: {error}");
        assert!(error["message"].is_string());
    }
    for version in ["", "0.3"] {
        let (status, body) = call_as(&api, version, "SendMessage", message("m", "c")).await;
        assert_eq!((status, &body["error"]["code"]), (200, &json!(-32009)), "{body}");
    }
    let (status, _) = api.post("/a2a/wolf", json!({})).await;
    assert_eq!(status, 200, "JSON-RPC has its own codes");
    assert_eq!(api.call("GET", "/a2a/wolf/.well-known/agent-card.json", None).await.0, 404);
}

/// C380: The card has the address under which the client has reached the server.
#[tokio::test]
async fn a_card_has_the_address_of_the_request() {
    let api = Api::new([]);
    let card = |path: &'static str| {
        let api = api.clone();
        async move {
            let request = Request::get(path)
                .header(header::HOST, "agents.example")
                .header("x-forwarded-proto", "https");
            let (status, card) = api.respond(request.body(Body::empty()).unwrap()).await;
            assert_eq!(status, 200, "{card}");
            card
        }
    };
    let first = card("/.well-known/agent-card.json").await;
    let url = "https://agents.example/a2a/coding";
    assert_eq!(first["supportedInterfaces"][0]["url"], url);
    assert_eq!(first["name"], "coding");
    assert_eq!(card("/a2a/coding/.well-known/agent-card.json").await, first);
}
