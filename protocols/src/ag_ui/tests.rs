//! Tests of the encoder and of the decoder.

use std::collections::HashSet;
use std::sync::Arc;

use loopwright_core::event::{AgentEvent, Decision, Envelope, InputEvent, Provided};
use loopwright_core::message::{CallId, Message, MessageId, ResultStatus, RunId, ToolResult};
use serde_json::{Value, json};

use super::{Encoder, RunRequest};
use crate::recorded::{encoded, events, types};
use crate::testing::Run;
use crate::{Awaited, DecodeError, Encode, ShownRuns};

fn decode(body: Value) -> Result<RunRequest, DecodeError> {
    RunRequest::decode(body.to_string().as_bytes())
}

fn encoder(awaited: impl Into<Vec<Awaited>>) -> Encoder {
    Encoder::new("t", "r", ShownRuns::of(awaited.into()))
}

/// Checks that everything that starts ends before the run does, as the protocol demands.
fn check_pairs(sent: &[Value]) {
    let mut open = HashSet::new();
    for event in sent {
        let kind = event["type"].as_str().unwrap();
        let id = ["messageId", "toolCallId", "stepName", "subagentRunId"]
            .iter()
            .find_map(|field| event[field].as_str())
            .map(|id| format!("{id} {}", event["subagentRunId"]));
        if let (Some(what), Some(id)) = (kind.strip_suffix("_START"), id.clone()) {
            assert!(open.insert((what.to_owned(), id)), "{event} started twice");
        } else if let (Some(what), Some(id)) = (kind.strip_suffix("_STARTED"), id.clone()) {
            assert!(open.insert((what.to_owned(), id)), "{event} started twice");
        } else if let (Some(what), Some(id)) = (kind.strip_suffix("_END"), id.clone()) {
            assert!(open.remove(&(what.to_owned(), id)), "{event} did not start");
        } else if let (Some(what), Some(id)) = (kind.strip_suffix("_FINISHED"), id) {
            assert!(open.remove(&(what.to_owned(), id)), "{event} did not start");
        }
        if matches!(kind, "RUN_FINISHED" | "RUN_ERROR") {
            assert!(open.is_empty(), "{open:?} at the end");
        }
    }
}

/// C364: Everything that starts ends, whichever runs are shown and wherever a response is cut off.
#[test]
fn what_starts_ends_before_the_run_does() {
    let events = events();
    for run in 1..=6 {
        let (sent, has_ended) = encoded(&mut encoder([Awaited::Run(RunId(run))]), &events);
        assert!(has_ended, "{run}");
        check_pairs(&sent);
    }
    for cut in 0..events.len() {
        let mut encoder = encoder([Awaited::Request("none".into()), Awaited::Run(RunId(1))]);
        let mut to = std::collections::VecDeque::new();
        for event in &events[..cut] {
            let _ = encoder.encode(event, &mut to);
        }
        encoder.cut_off("draining", "The server shuts down.", &mut to);
        let sent: Vec<Value> =
            to.iter().map(|event| serde_json::to_value(event).unwrap()).collect();
        check_pairs(&sent);
        assert_eq!(sent.last().unwrap()["code"], "draining");
    }
}

/// C364: Void text is replaced under another id, and the client gets the conversation.
#[test]
fn withdrawn_text_is_replaced() {
    let (sent, _) = encoded(&mut encoder([Awaited::Request("u1".into())]), &events());
    let of = |kind: &str| -> Vec<Value> {
        sent.iter().filter(|event| event["type"] == kind).cloned().collect()
    };
    let starts = of("TEXT_MESSAGE_START");
    assert_eq!(starts[0]["messageId"], "m2");
    assert_eq!(starts[1]["messageId"], "m2.2");
    assert_eq!(of("MESSAGES_SNAPSHOT").len(), 1);
    assert_eq!(of("TOOL_CALL_START")[0]["parentMessageId"], "m2.2");
    let deltas: Vec<_> = of("TEXT_MESSAGE_CONTENT").iter().map(|e| e["delta"].clone()).collect();
    assert_eq!(deltas, ["Wro", "I count ", "and pay.", "I help."]);
}

/// C364: The calls and messages of a sub-agent belong to its run, and have their own ids.
#[test]
fn sub_agents_have_their_own_messages_and_calls() {
    let (sent, _) = encoded(&mut encoder([Awaited::Request("u1".into())]), &events());
    let own: Vec<_> = sent.iter().filter(|event| !event["subagentRunId"].is_null()).collect();
    assert_eq!(own[0]["type"], "SUBAGENT_STARTED");
    assert_eq!((&own[0]["name"], &own[0]["parentToolCallId"]), (&json!("helper"), &json!("c5")));
    let call = own.iter().find(|event| event["type"] == "TOOL_CALL_START").unwrap();
    assert_eq!(call["toolCallId"], "c5~x");
    let last = own.last().unwrap();
    assert_eq!(last["outcome"], json!({ "type": "success" }));
}

/// C521: A todo list is an activity, which the next list and a reset replace, and a snapshot has.
#[test]
fn a_todo_list_is_an_activity() {
    let todos = json!([{ "content": "Fix", "status": "in_progress" }]);
    let (call, name): (CallId, Arc<str>) = ("c".into(), "write_todos".into());
    let result = ToolResult::new(call.clone(), name.clone(), ResultStatus::Ok, Vec::new());
    let result = result.details(Arc::new(json!({ "todos": todos })));
    let result = Arc::new(Message::new(MessageId(3), result));
    let status = ResultStatus::Ok;
    let ended = AgentEvent::ToolExecutionEnd { call, name, status, is_error: false, result };
    let run = Run::new().event(ended.clone()).event(ended).end();
    let activities = |sent: &[Value]| -> Vec<Value> {
        sent.iter().filter(|event| event["type"] == "ACTIVITY_SNAPSHOT").cloned().collect()
    };
    let (sent, _) = encoded(&mut encoder([Awaited::Request("i".into())]), &run.0);
    let plan = |list: &Value| {
        json!({ "type": "ACTIVITY_SNAPSHOT", "messageId": "todos", "activityType": "PLAN",
            "content": { "todos": list } })
    };
    let with_time = |mut plan: Value| {
        plan["timestamp"] = 7.into();
        plan
    };
    let written = with_time(plan(&todos));
    assert_eq!(activities(&sent), [written.clone(), written]);
    let restated = |events: &[Envelope]| {
        let mut to = std::collections::VecDeque::new();
        encoder([]).restate(events, &mut to);
        let sent: Vec<_> = to.iter().map(|event| serde_json::to_value(event).unwrap()).collect();
        assert_eq!(sent[0]["type"], "MESSAGES_SNAPSHOT");
        activities(&sent)
    };
    assert_eq!(restated(&run.0), [plan(&todos)]);
    assert!(restated(&run.0[..1]).is_empty());

    let reset = run.event(AgentEvent::Reset);
    assert_eq!(restated(&reset.0), [plan(&json!([]))]);
    // A request that waits sees the reset before it is withdrawn.
    let removed = vec!["w".into()];
    let withdrawn = reset.event(AgentEvent::QueueUpdate { added: None, removed });
    let (sent, _) = encoded(&mut encoder([Awaited::Request("w".into())]), &withdrawn.0);
    assert_eq!(activities(&sent), [with_time(plan(&json!([])))]);
    assert_eq!(sent.last().unwrap()["outcome"], json!({ "type": "cancelled" }));
}

/// C527: A detached reply that is shown is a message with the name of its speaker.
#[test]
fn a_shown_reply_is_a_message_with_a_name() {
    let run = Run::new().shown("critic", "No.").reply(&["Yes."]).end();
    let (sent, _) = encoded(&mut encoder([Awaited::Request("i".into())]), &run.0);
    check_pairs(&sent);
    let id = &sent[0]["messageId"];
    let start = json!({
        "type": "TEXT_MESSAGE_START", "messageId": id, "name": "critic", "timestamp": 7,
    });
    assert_eq!((&sent[0], &sent[1]["delta"]), (&start, &json!("No.")));
    let messages = super::history::messages(&run.0);
    let shown = json!({ "id": id, "role": "assistant", "name": "critic", "content": "No." });
    assert_eq!((messages.len(), &messages[0]), (2, &shown));
}

/// C364: Each way for a run to end has its event of the protocol.
#[test]
fn a_run_ends_as_the_session_says() {
    let end = |run| {
        let (sent, _) = encoded(&mut encoder([Awaited::Run(RunId(run))]), &events());
        sent.last().unwrap().clone()
    };
    assert_eq!(end(2)["outcome"], json!({ "type": "success" }));
    assert_eq!(end(2)["result"], json!({ "sheep": 9 }));
    assert_eq!(
        (&end(3)["code"], &end(3)["message"]),
        (&json!("auth"), &json!("The key is wrong."))
    );
    assert_eq!((&end(4)["code"], &end(5)["code"]), (&json!("limit"), &json!("length")));
    assert_eq!(end(6)["outcome"], json!({ "type": "cancelled" }));
}

#[test]
fn the_conversation_is_restated_from_the_log() {
    let events: Vec<_> = events().into_iter().filter(|event| event.parent.is_none()).collect();
    let reset = events.iter().position(|event| event.event.name() == "reset").unwrap();
    let messages = super::history::messages(&events[..reset]);
    let shown: Vec<_> = messages.iter().map(|m| (&m["id"], &m["role"])).collect();
    assert_eq!(shown[0], (&json!("u1"), &json!("user")));
    assert_eq!(messages[1]["toolCalls"].as_array().unwrap().len(), 5);
    assert_eq!(messages[2]["content"][1]["source"]["mimeType"], "image/png");
    assert!(super::history::messages(&events[..=reset]).is_empty());
}

/// C365: New messages and the answers to interrupts are inputs, with ids derived from the body.
#[test]
fn a_request_is_the_inputs_of_a_session() {
    let request = decode(json!({
        "threadId": "t", "runId": "r", "state": {}, "tools": [], "context": [],
        "messages": [
            { "id": "u1", "role": "user", "content": "Old" },
            { "id": "a1", "role": "assistant", "content": "Old" },
            { "id": "u2", "role": "user", "content": [{ "type": "text", "text": "New" }] },
        ],
        "resume": [
            { "interruptId": "approval:d:c~x", "status": "resolved",
              "payload": { "approved": false, "reason": "No." } },
            { "interruptId": "input:d:a:b", "status": "resolved", "payload": ["red"] },
            { "interruptId": "approval:d:e", "status": "resolved",
              "payload": { "approved": true, "editedArgs": { "n": 1 } } },
            { "interruptId": "input:d:f", "status": "cancelled" },
        ],
    }))
    .unwrap();
    let decisions: Vec<_> = request
        .inputs
        .iter()
        .filter_map(|input| match &input.event {
            InputEvent::ExternalActionResult(result) => {
                assert_eq!(&*result.digest, "d");
                Some((&*result.call, input.id.as_deref().unwrap(), &result.decision))
            }
            _ => None,
        })
        .collect();
    let provided = Decision::Provide(Provided::Input(json!(["red"])));
    assert_eq!(decisions[0], ("c~x", "r:approval:d:c~x", &Decision::Deny("No.".into())));
    assert_eq!(decisions[1], ("a:b", "r:input:d:a:b", &provided));
    assert_eq!(decisions[2].2, &Decision::ApproveWith(json!({ "n": 1 })));
    assert!(matches!(decisions[3].2, Decision::Deny(_)));
    let last = request.inputs.last().unwrap();
    let InputEvent::UserRequest(prompt) = &last.event else { panic!() };
    assert_eq!((last.id.as_deref(), prompt.message.text()), (Some("u2"), "New".to_owned()));
    assert_eq!(request.awaited().len(), 5);
}

/// C365: An invalid body is refused with the position of the error.
#[test]
fn a_wrong_body_is_refused_with_its_position() {
    let with = |messages: Value, resume: Value| {
        let body = json!({
            "threadId": "t", "runId": "r", "messages": messages, "resume": resume,
        });
        decode(body).unwrap_err().path
    };
    let user = |content: Value| json!([{ "id": "u", "role": "user", "content": content }]);
    let part = |part: Value| with(user(json!([part])), Value::Null);
    let resume = |entry: Value| with(json!([]), json!([entry]));
    let url = json!({ "type": "image", "source": { "type": "url", "value": "http://a" } });
    let status = json!({ "interruptId": "input:d:c", "status": "x" });
    let payload = json!({
        "interruptId": "approval:d:c", "status": "resolved", "payload": { "approved": 1 },
    });
    for (path, expected) in [
        (RunRequest::decode(b"{").unwrap_err().path, ""),
        (decode(json!([])).unwrap_err().path, "/threadId"),
        (decode(json!({ "threadId": "" })).unwrap_err().path, "/threadId"),
        (decode(json!({ "threadId": "t", "runId": "r" })).unwrap_err().path, "/messages"),
        (with(json!({}), Value::Null), "/messages"),
        (with(user(json!(" ")), Value::Null), "/messages/0"),
        (with(user(json!(1)), Value::Null), "/messages/0/content"),
        (part(json!({ "type": "audio" })), "/messages/0/content/0"),
        (part(url), "/messages/0/content/0/source"),
        (with(json!([{ "role": "user", "content": "x" }]), Value::Null), "/messages/0/id"),
        (resume(json!({ "interruptId": "x", "status": "resolved" })), "/resume/0/interruptId"),
        (resume(status), "/resume/0/status"),
        (resume(payload), "/resume/0/payload/approved"),
    ] {
        assert_eq!(path, expected);
    }
}

#[test]
fn nothing_is_shown_of_other_runs() {
    let (sent, has_ended) = encoded(&mut encoder([Awaited::Run(RunId(2))]), &events());
    assert!(has_ended);
    assert!(!types(&sent).contains(&"SUBAGENT_STARTED"));
    let (sent, has_ended) = encoded(&mut encoder([Awaited::Request("other".into())]), &events());
    // The reset concerns all clients.
    assert!(types(&sent) == ["ACTIVITY_SNAPSHOT"] && !has_ended);
}
