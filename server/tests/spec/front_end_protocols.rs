//! AG-UI and the AI SDK: access to conversations, invalid bodies, and the end of a stream.

use std::time::Duration;

use loopwright_core::testing::{Gate, Script, ScriptedModel, TestTool};
use loopwright_core::tool::Effect;
use loopwright_core::{GenericAgent, Principal};
use loopwright_patterns::PiPattern;
use loopwright_server::Caller;
use serde_json::{Value, json};

use crate::api::Api;

/// Returns a server whose agent pays if the message asks for it, and waits at a gate for `wait`.
fn paying(gate: &Gate) -> Api {
    let gate = gate.clone();
    let model = ScriptedModel::new([]).reply_with(move |request| {
        match request.messages.last().unwrap().text().as_str() {
            "pay" => Script::calls([("p", "pay", json!({ "amount": 3 }))]),
            "wait" => Script::new().say("Waiting").gate(&gate).say(" no more."),
            _ => Script::text("Done."),
        }
    });
    let pay = TestTool::new("pay").answers("paid").effect(Effect::AtMostOnce);
    Api::running(GenericAgent::builder(model, PiPattern).tool(pay).build().unwrap())
}

fn run(thread: &str, message: &str) -> Value {
    json!({
        "threadId": thread, "runId": "r",
        "messages": [{ "id": format!("u-{message}"), "role": "user", "content": message }],
    })
}

fn chat(chat: &str, message: &str) -> Value {
    let parts = json!([{ "type": "text", "text": message }]);
    let message = json!({ "id": format!("u-{message}"), "role": "user", "parts": parts });
    json!({ "id": chat, "messages": [message], "trigger": "submit-message" })
}

fn resume(interrupt: &Value) -> Value {
    let answer = json!({
        "interruptId": interrupt, "status": "resolved", "payload": { "approved": true },
    });
    json!({ "threadId": "t", "runId": "r2", "messages": [], "resume": [answer] })
}

/// Returns the data of the frames of a response.
fn events(body: &Value) -> Vec<Value> {
    let text = body.as_str().unwrap_or_else(|| panic!("{body}"));
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
}

async fn post(api: &Api, path: &str, body: Value) -> Vec<Value> {
    let (status, body) = api.post(path, body).await;
    assert_eq!(status, 200, "{body}");
    events(&body)
}

/// C368: A conversation belongs to its caller. The same key of another caller is another
/// conversation. The id of a session is a key only for callers who may read it, and nobody else
/// decides.
#[tokio::test(start_paused = true)]
async fn a_conversation_belongs_to_its_caller() {
    let api = paying(&Gate::new());
    let (ann, bob) = (api.as_user("ann"), api.as_user("bob"));
    let asked = post(&ann, "/ag-ui/agent", run("t", "pay")).await;
    let outcome = &asked.last().unwrap()["outcome"];
    let interrupt = outcome["interrupts"][0]["id"].clone();
    let session = asked[0]["metadata"]["session"].as_str().unwrap().to_owned();
    assert_eq!(api.get(&format!("/api/sessions/{session}")).await["session"]["owner"], "ann");

    // Bob's thread of this name is another one, so it has no such action.
    let (status, refused) = bob.post("/ag-ui/agent", resume(&interrupt)).await;
    assert_eq!((status, &refused["error"]["kind"]), (404, &json!("not_found")), "{refused}");
    let other = post(&bob, "/ag-ui/agent", run("t", "hello")).await;
    assert_ne!(other[0]["metadata"]["session"], session);
    // The id of Ann's session is not the id of a session that he may read.
    let followed = json!({ "threadId": session, "runId": "r", "messages": [] });
    let seen = post(&bob, "/ag-ui/agent", followed.clone()).await;
    assert_eq!(seen[1], json!({ "type": "MESSAGES_SNAPSHOT", "messages": [] }));
    let messages = format!("/ai-sdk/agent/{session}/messages");
    assert_eq!(bob.get(&messages).await["messages"], json!([]));
    for path in [format!("/ag-ui/agent/{session}/stop"), format!("/ai-sdk/agent/{session}/stop")] {
        assert_eq!(bob.post(&path, json!({})).await.0, 404);
    }
    // A reader reads it, and changes nothing.
    let reader = api.as_caller(Caller::new(Principal::new("eve")).role("reader"));
    let seen = post(&reader, "/ag-ui/agent", followed).await;
    assert_eq!(seen.last().unwrap()["outcome"]["interrupts"][0]["id"], interrupt);
    let mut answer = resume(&interrupt);
    answer["threadId"] = json!(session);
    for body in [answer, run(&session, "hello")] {
        assert_eq!(reader.post("/ag-ui/agent", body).await.0, 403);
    }
    // Ann continues in the other protocol, whose chat of this name is the same conversation.
    let chat = ann.get("/ai-sdk/agent/t/messages").await["messages"].clone();
    assert_eq!(chat[1]["parts"][1]["state"], "approval-requested");
    let paid = post(&ann, "/ag-ui/agent", resume(&interrupt)).await;
    assert_eq!(paid.last().unwrap()["outcome"]["type"], "success");
    let record = api.get("/api/audit").await["decisions"][0].clone();
    assert_eq!((&record["by"], &record["source"]), (&json!("ann"), &json!("http from 10.0.0.1")));
}

/// C369: a body that is sent twice changes nothing: the second response shows the same run.
#[tokio::test(start_paused = true)]
async fn a_body_that_is_sent_twice_changes_nothing() {
    let api = paying(&Gate::new());
    let types = |events: &[Value]| -> Vec<Value> {
        // Streamed events and events from the log differ only in the number of deltas.
        events.iter().map(|event| event["type"].clone()).collect()
    };
    let first = post(&api, "/ag-ui/agent", run("t", "pay")).await;
    assert_eq!(types(&post(&api, "/ag-ui/agent", run("t", "pay")).await), types(&first));
    let interrupt = first.last().unwrap()["outcome"]["interrupts"][0]["id"].clone();
    let paid = post(&api, "/ag-ui/agent", resume(&interrupt)).await;
    assert_eq!(types(&post(&api, "/ag-ui/agent", resume(&interrupt)).await), types(&paid));
    let session = first[0]["metadata"]["session"].as_str().unwrap();
    let messages = api.get(&format!("/api/sessions/{session}/messages")).await;
    assert_eq!(messages["messages"].as_array().unwrap().len(), 4);
    let chunks = post(&api, "/ai-sdk/agent", chat("c", "hello")).await;
    assert_eq!(post(&api, "/ai-sdk/agent", chat("c", "hello")).await, chunks);
}

/// C370: An invalid body is refused with the position of the error, and no session is created for
/// it.
#[tokio::test(start_paused = true)]
async fn a_bad_body_creates_nothing() {
    let api = paying(&Gate::new());
    let image = json!([{ "type": "image", "source": {
        "type": "data", "mimeType": "image/png", "value": "AAAA",
    } }]);
    let mut with_image = run("t", "x");
    with_image["messages"][0]["content"] = image;
    for (path, body, expected) in [
        ("/ag-ui/agent", json!({}), (400, json!("/threadId"))),
        ("/ag-ui/agent", run("t", " "), (400, json!("/messages/0"))),
        ("/ag-ui/agent", with_image, (400, json!("/messages/0/content/0/source/value"))),
        ("/ai-sdk/agent", json!({ "id": "c", "messages": [] }), (400, json!("/messages"))),
        ("/ag-ui/nobody", run("t", "hello"), (404, Value::Null)),
        ("/ai-sdk/nobody", chat("c", "hello"), (404, Value::Null)),
        ("/ag-ui/agent/none/stop", json!({}), (404, Value::Null)),
    ] {
        let (status, refused) = api.post(path, body).await;
        assert_eq!((status, refused["error"]["path"].clone()), expected, "{path} {refused}");
    }
    assert_eq!(api.get("/api/sessions").await["sessions"], json!([]));
    assert_eq!(api.call("GET", "/ai-sdk/agent/none/stream", None).await.0, 204);
    let (status, refused) = api.post("/ag-ui/agent", resume(&json!("approval:d:p"))).await;
    assert_eq!((status, &refused["error"]["kind"]), (404, &json!("not_found")));
}

/// C371: a stream that is cut off by a shutdown ends with the error of its protocol, and no new run
/// starts.
#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_a_stream_with_an_error() {
    let gate = Gate::new();
    let api = paying(&gate);
    let (of_ag_ui, of_ai_sdk, ()) = tokio::join!(
        post(&api, "/ag-ui/agent", run("t", "wait")),
        post(&api, "/ai-sdk/agent", chat("c", "wait")),
        async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            api.drain(Duration::from_secs(5)).await;
        }
    );
    let last = of_ag_ui.last().unwrap();
    assert_eq!((&last["type"], &last["code"]), (&json!("RUN_ERROR"), &json!("draining")));
    assert_eq!(of_ai_sdk.last().unwrap()["type"], "error");
    for (path, body) in [("/ag-ui/agent", run("t", "hello")), ("/ai-sdk/agent", chat("c", "hello"))]
    {
        assert_eq!(api.post(path, body).await.0, 503, "{path}");
    }
}
