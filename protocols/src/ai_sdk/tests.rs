//! Tests of the encoder and of the decoder.

use loopwright_core::event::{Decision, Input, InputEvent, Provided};
use loopwright_core::message::RunId;
use serde_json::{Value, json};

use super::{ChatRequest, Encoder, ui_messages};
use crate::recorded::{encoded, events, types};
use crate::testing::Run;
use crate::{Awaited, DecodeError, ShownRuns};

fn decode(body: Value) -> Result<ChatRequest, DecodeError> {
    ChatRequest::decode(body.to_string().as_bytes())
}

fn encoder(awaited: Awaited) -> Encoder {
    Encoder::new(ShownRuns::of(vec![awaited]), json!({ "session": "s" }))
}

/// C366: A started part ends, a result follows its call, and void parts are reset.
#[test]
fn parts_start_and_end_in_order() {
    let mut encoder = Encoder::new(ShownRuns::up_to(RunId(2)), json!({}));
    let (sent, has_ended) = encoded(&mut encoder, &events());
    assert!(has_ended);
    let types = types(&sent);
    assert_eq!(types[..5], ["start", "start-step", "text-start", "text-delta", "text-end"]);
    assert_eq!(types[5], "reset-step");
    assert_eq!(sent[0]["messageId"], "r1");
    let mut calls = Vec::new();
    for chunk in &sent {
        let call = chunk["toolCallId"].as_str().unwrap_or_default().to_owned();
        match chunk["type"].as_str().unwrap() {
            "tool-input-available" => calls.push(call),
            kind if kind.starts_with("tool-") && kind != "tool-approval-response" => {
                assert!(calls.contains(&call), "{chunk}");
            }
            _ => {}
        }
    }
    let denied = sent.iter().find(|chunk| chunk["type"] == "tool-output-denied").unwrap();
    assert_eq!(denied["toolCallId"], "c2");
    let asked = sent.iter().rfind(|chunk| chunk["toolName"] == "ask_user").unwrap();
    assert_eq!(
        (&asked["providerExecuted"], &asked["toolMetadata"]["digest"]),
        (&json!(false), &json!("d3"))
    );
    assert_eq!(sent.last().unwrap()["finishReason"], "stop");
}

/// C527: A detached reply that is shown is a data part, also of a chat that is loaded.
#[test]
fn a_shown_reply_is_a_data_part() {
    let run = Run::new().shown("critic", "No.").reply(&["Yes."]).end();
    let (sent, _) = encoded(&mut encoder(Awaited::Request("i".into())), &run.0);
    let part = &sent[1];
    assert_eq!(part["type"], "data-detached");
    assert_eq!(part["data"], json!({ "speaker": "critic", "text": "No." }));
    assert!(sent.iter().all(|chunk| chunk["delta"] != "No."));
    assert_eq!(ui_messages(&run.0)[0]["parts"][0], *part);
}

/// C366: A reply that continues the client's message has no id, and repeats no call.
#[test]
fn a_continued_reply_continues_the_message() {
    let calls = ["c1", "c2", "c3"].map(Into::into);
    let mut encoder = encoder(Awaited::Decision("c2".into())).known_calls(calls);
    let (sent, _) = encoded(&mut encoder, &events());
    assert_eq!(sent[0]["type"], "start");
    assert!(sent[0].get("messageId").is_none());
    assert!(!types(&sent).contains(&"tool-input-available"));
    assert!(types(&sent).contains(&"steering-message"));
}

#[test]
fn a_reply_ends_as_the_session_says() {
    let end = |run| {
        let (sent, _) = encoded(&mut encoder(Awaited::Run(RunId(run))), &events());
        sent.last().unwrap().clone()
    };
    assert_eq!(end(1)["finishReason"], "tool-calls");
    assert_eq!(end(3)["errorText"], "The key is wrong.");
    assert_eq!(end(4)["type"], "error");
    assert_eq!(
        (&end(5)["finishReason"], &end(6)["finishReason"]),
        (&json!("length"), &json!("interrupted"))
    );
}

/// C366: The messages of a loaded chat equal the messages of a client that was present.
#[test]
fn a_chat_is_loaded_from_the_log() {
    let events: Vec<_> = events().into_iter().filter(|event| event.parent.is_none()).collect();
    let reset = events.iter().position(|event| event.event.name() == "reset").unwrap();
    let messages = ui_messages(&events[..reset]);
    assert_eq!(messages.len(), 2);
    assert_eq!((&messages[0]["id"], &messages[1]["id"]), (&json!("u1"), &json!("r1")));
    let parts = messages[1]["parts"].as_array().unwrap();
    let states: Vec<_> = parts
        .iter()
        .filter(|part| !part["toolCallId"].is_null())
        .map(|part| (part["toolCallId"].as_str().unwrap(), part["state"].as_str().unwrap()))
        .collect();
    let expected = [
        ("c1", "output-available"),
        ("c2", "output-denied"),
        ("c3", "output-available"),
        ("c4", "output-error"),
        ("c5", "output-available"),
    ];
    assert_eq!(states, expected);
    assert!(parts.iter().any(|part| part["type"] == "steering-message"));
    let waiting = ui_messages(&events[..events.iter().position(|e| e.run_id == RunId(2)).unwrap()]);
    let parts = waiting[1]["parts"].as_array().unwrap();
    let asked = parts.iter().find(|part| part["toolCallId"] == "c2").unwrap();
    assert_eq!(
        (&asked["state"], &asked["approval"]["id"]),
        (&json!("approval-requested"), &json!("d2:c2"))
    );
}

/// C367: New messages and answers are inputs. A change of the past is refused.
#[test]
fn a_body_is_the_inputs_of_a_session() {
    let reply = json!({ "id": "r1", "role": "assistant", "parts": [
        { "type": "text", "text": "I pay." },
        { "type": "tool-pay", "toolCallId": "p", "state": "approval-responded",
          "approval": { "id": "d:p", "approved": false, "reason": "No." } },
        { "type": "tool-ask_user", "toolCallId": "a", "state": "output-available",
          "output": "red", "toolMetadata": { "digest": "e" } },
        { "type": "tool-count", "toolCallId": "c", "state": "output-available", "output": 9,
          "toolMetadata": {} },
    ] });
    let old = json!({ "id": "u1", "role": "user", "parts": [{ "type": "text", "text": "Pay" }] });
    let request =
        decode(json!({ "id": "c", "messages": [old, reply], "messageId": "r1" })).unwrap();
    let decisions: Vec<_> = request
        .inputs
        .iter()
        .map(|input| match &input.event {
            InputEvent::ExternalActionResult(result) => {
                (&*result.call, &*result.digest, &result.decision)
            }
            other => panic!("{other:?}"),
        })
        .collect();
    let provided = Decision::Provide(Provided::Input(json!("red")));
    assert_eq!(decisions, [("p", "d", &Decision::Deny("No.".into())), ("a", "e", &provided)]);
    assert_eq!(request.known_calls.len(), 3);

    let file = |url: &str| {
        let part = json!({ "type": "file", "url": url });
        json!({ "id": "u2", "role": "user", "parts": [part] })
    };
    let messages =
        json!([old, reply, file("data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAACAQA7")]);
    let request = decode(json!({ "id": "c", "messages": messages })).unwrap();
    assert!(matches!(&request.inputs[..], [Input { event: InputEvent::UserRequest(_), .. }]));
    assert_eq!(request.awaited(), [Awaited::Request("u2".into())]);

    let wrong_approval = json!({ "id": "r1", "role": "assistant", "parts": [
        { "type": "tool-pay", "toolCallId": "p", "state": "approval-responded",
          "approval": { "id": "d:other", "approved": true } },
    ] });
    for (body, path) in [
        (json!({ "id": "c", "messages": [old], "trigger": "regenerate-message" }), "/trigger"),
        (json!({ "id": "c", "messages": [old], "messageId": "u1" }), "/messages/0"),
        (json!({ "id": "c", "messages": [] }), "/messages"),
        (json!({ "id": "c", "messages": 1 }), "/messages"),
        (json!({ "id": 1, "messages": [old] }), "/id"),
        (json!({ "id": "c", "messages": [file("http://a/b.png")] }), "/messages/0/parts/0/url"),
        (
            json!({ "id": "c", "messages": [file("data:image/png;base64,AAAA")] }),
            "/messages/0/parts/0/url",
        ),
        (json!({ "id": "c", "messages": [wrong_approval] }), "/messages/0/parts/0/approval/id"),
    ] {
        assert_eq!(decode(body).unwrap_err().path, path);
    }
}
