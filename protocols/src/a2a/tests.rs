//! Tests of the decoder and of the encoder.

use std::collections::VecDeque;
use std::sync::Arc;

use loopwright_core::event::{
    AgentEvent, Decision, ExternalAction, Input, InputEvent, Provided, RunCause, RunStatus,
};
use loopwright_core::message::InputId;
use serde_json::{Value, json};

use super::{Call, Encoder, Request, TaskId, TaskState, tasks};
use crate::encode::{Encode, Progress};
use crate::shown_runs::{Awaited, ShownRuns};
use crate::testing::Run;

fn decode(body: Value) -> Result<Call, i32> {
    let request = Request::decode(body.to_string().as_bytes());
    request.map(|request| request.call).map_err(|(_, error)| error.code)
}

fn rpc(method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
}

fn message(fields: Value) -> Value {
    let mut message =
        json!({ "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "Go." }] });
    message.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    rpc("SendMessage", json!({ "message": message }))
}

fn inputs(fields: Value, pending: &[ExternalAction]) -> Result<Vec<Input>, String> {
    match decode(message(fields)).unwrap() {
        Call::SendMessage { message, .. } => message.inputs(pending).map_err(|why| why.message),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_bad_request_has_a_code() {
    for (body, code) in [
        (json!([]), -32600),
        (json!({ "jsonrpc": "1.0", "id": 1, "method": "GetTask" }), -32600),
        (json!({ "jsonrpc": "2.0", "method": "GetTask" }), -32600),
        (rpc("message/send", json!({})), -32601),
        (rpc("SendMessage", json!({})), -32602),
        (rpc("SendMessage", json!({ "message": { "messageId": "m" } })), -32602),
        (message(json!({ "messageId": "" })), -32602),
        (message(json!({ "role": "ROLE_AGENT" })), -32602),
        (message(json!({ "parts": [{}] })), -32602),
        (message(json!({ "parts": [{ "url": "https://example.com" }] })), -32005),
        (message(json!({ "parts": [{ "raw": "?", "mediaType": "image/png" }] })), -32005),
        (message(json!({ "taskId": "none" })), -32001),
        (message(json!({ "taskId": "m.a", "contextId": "b" })), -32602),
        (message(json!({ "taskId": "m.a", "parts": [{ "data": {} }] })), -32602),
        (rpc("GetTask", json!({})), -32602),
        (rpc("GetTask", json!({ "id": "none" })), -32001),
        (rpc("ListTasks", json!({})), -32602),
        (rpc("ListTasks", json!({ "contextId": "a", "pageToken": "b" })), -32602),
        (rpc("CreateTaskPushNotificationConfig", json!({})), -32003),
        (rpc("GetExtendedAgentCard", json!({})), -32007),
    ] {
        assert_eq!(decode(body.clone()).unwrap_err(), code, "{body}");
    }
    assert_eq!(Request::decode(b"{").unwrap_err().1.code, -32700);
}

#[test]
fn the_id_of_a_task_has_the_ids_of_the_message_and_of_the_context() {
    for message in ["m", "a.b", "ä%2E", "%", "a b/c?d"] {
        let id = TaskId::new(message, "ctx.1");
        assert_eq!(TaskId::parse(&id.to_string()), Some(id.clone()), "{id}");
    }
    for text in ["", "m", ".a", "m.", "%.a", "%4.a", "%zz.a", "%FF.a", "%+1.a"] {
        assert_eq!(TaskId::parse(text).map(|id| id.to_string()), None, "{text}");
    }
}

#[test]
fn a_message_is_a_request_or_decides() {
    let inputs_of_text = inputs(json!({}), &[]).unwrap();
    let [Input { id, event: InputEvent::UserRequest(prompt) }] = &inputs_of_text[..] else {
        panic!()
    };
    assert_eq!((id.as_deref(), prompt.message.text()), (Some("m"), "Go.".into()));
    assert!(inputs(json!({ "parts": [{ "text": " " }] }), &[]).is_err());
    let action = ExternalAction::new("c", "sell", Arc::new(json!({})), "d");
    let approve = json!({ "call": "c", "digest": "d", "decision": "approve" });
    let decided = |data: Value| {
        let fields = json!({ "taskId": "m.a", "parts": [{ "data": data }] });
        let inputs = inputs(fields, std::slice::from_ref(&action))?;
        let InputEvent::ExternalActionResult(result) = &inputs[0].event else { panic!() };
        assert_eq!((&*result.call, &*result.digest), ("c", "d"));
        Ok::<_, String>(result.decision.clone())
    };
    let with = |fields: Value| {
        let mut data = approve.clone();
        data.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        decided(data)
    };
    assert_eq!(decided(approve.clone()), Ok(Decision::Approve));
    assert_eq!(
        with(json!({ "arguments": { "n": 1 } })),
        Ok(Decision::ApproveWith(json!({ "n": 1 })))
    );
    let deny = json!({ "decision": "deny", "reason": "No." });
    assert_eq!(with(deny), Ok(Decision::Deny("No.".into())));
    let provide = json!({ "decision": "provide", "data": 7 });
    assert_eq!(with(provide), Ok(Decision::Provide(Provided::Input(json!(7)))));
    assert!(with(json!({ "decision": "maybe" })).is_err());
    // A text cannot approve.
    let text = json!({ "taskId": "m.a" });
    assert!(inputs(text.clone(), &[action]).unwrap_err().contains("digest"));
    assert!(inputs(text, &[]).unwrap_err().contains("does not wait"));
}

fn encode(run: &Run) -> Vec<Value> {
    let runs = ShownRuns::of(vec![Awaited::Request(InputId::from("i"))]);
    let mut encoder = Encoder::new(json!(1), TaskId::new("i", "ctx"), runs);
    let mut to = VecDeque::new();
    for envelope in &run.0 {
        if encoder.encode(envelope, &mut to) == Progress::Finish {
            encoder.finish(&[], &mut to);
        }
    }
    to.into_iter().map(|mut response| response["result"].take()).collect()
}

/// Returns the text of the replies that a client has after these responses.
fn text(results: &[Value]) -> String {
    let mut artifacts: Vec<(String, String)> = Vec::new();
    for update in results.iter().filter_map(|result| result.get("artifactUpdate")) {
        let id = update["artifact"]["artifactId"].as_str().unwrap().to_owned();
        let text = update["artifact"]["parts"][0]["text"].as_str().unwrap();
        match artifacts.iter_mut().find(|(other, _)| *other == id) {
            Some((_, whole)) if update["append"] == true => whole.push_str(text),
            Some((_, whole)) => *whole = text.to_owned(),
            None => artifacts.push((id, text.to_owned())),
        }
    }
    artifacts.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join("|")
}

#[test]
fn a_run_is_a_stream_of_updates() {
    let run = Run::new()
        .reply(&["I ", "count."])
        .call("c", "count", "nine", true)
        .shown("critic", "Ten.") // left out
        .reply(&["Nine."])
        .end();
    let results = encode(&run);
    assert_eq!(text(&results), "I count.|Nine.");
    let states: Vec<&str> = results
        .iter()
        .filter_map(|result| result["statusUpdate"]["status"]["state"].as_str())
        .collect();
    assert_eq!(states, ["TASK_STATE_WORKING", "TASK_STATE_WORKING", "TASK_STATE_COMPLETED"]);
    assert_eq!(text(&encode(&run.without_deltas())), "I count.|Nine.");
}

#[test]
fn a_client_is_told_why_the_agent_waits() {
    let notice = json!({
        "type": "retry", "attempt": 2, "max_attempts": 5, "delay_ms": 3000,
        "kind": "overloaded", "reason": "Busy.",
    });
    let results = encode(&Run::new().event(serde_json::from_value(notice).unwrap()));
    let status = &results[1]["statusUpdate"]["status"];
    assert_eq!(status["state"], "TASK_STATE_WORKING");
    let parts = &status["message"]["parts"];
    assert_eq!((&parts[0]["text"], &parts[1]["data"]["delay_ms"]), (&json!("Busy."), &json!(3000)));
}

#[test]
fn a_task_is_what_follows_from_a_message() {
    let whole = |run: Run| tasks("ctx", &run.0).pop().unwrap().to_json();
    let done = whole(Run::new().reply(&["Nine."]).end());
    assert_eq!(done["id"], "i.ctx");
    assert_eq!(done["artifacts"][0]["parts"][0]["text"], "Nine.");
    for (end, state) in [
        (RunStatus::AwaitingAction, TaskState::InputRequired),
        (RunStatus::Aborted, TaskState::Canceled),
        (RunStatus::Error, TaskState::Failed),
        (RunStatus::Limit, TaskState::Failed),
    ] {
        let run = || Run::new().end_with(|outcome| outcome.end = end);
        assert_eq!(tasks("ctx", &run().0)[0].state, state);
        let message = &whole(run())["status"]["message"];
        assert_eq!(message.is_object(), state == TaskState::Failed, "{message}");
    }
    assert_eq!(tasks("ctx", &Run::new().0)[0].state, TaskState::Working);
    let sleeps = Run::new().reply(&["Later."]).end_with(|it| it.end = RunStatus::Sleeping);
    let cause = RunCause::Timer("t".into());
    let awake = sleeps.event(AgentEvent::AgentStart { cause, trace: None }).reply(&["Now."]);
    let task = tasks("ctx", &awake.0).remove(0);
    assert_eq!(task.state, TaskState::Completed, "the run of a timer belongs to no task");
    assert_eq!(task.to_json()["artifacts"].as_array().unwrap().len(), 1);
    let waits = Run::new().end_with(|outcome| outcome.end = RunStatus::AwaitingAction);
    let waits = tasks("ctx", &waits.0).remove(0);
    assert_eq!(waits.clone().pending(&[]).state, TaskState::Working, "all is decided");
    let action = ExternalAction::new("c", "sell", Arc::new(json!({})), "d");
    let waits = waits.pending(&[action]).to_json();
    assert_eq!(waits["status"]["message"]["parts"][1]["data"]["digest"], "d");
}
