//! Events and the blocks that come of them.

use std::time::Duration;

use loopwright_core::message::RunId;
use loopwright_core::model::ModelErrorKind;
use loopwright_core::testing::{Gate, Harness, Script, TestTool};
use loopwright_patterns::PiPattern;
use serde_json::json;

use super::*;
use crate::tui::state::user_text;

/// The blocks in words.
fn words(all: &Transcript) -> Vec<String> {
    let one = |entry: &Entry| match &entry.kind {
        Kind::User(message) => format!("user: {}", user_text(message)),
        Kind::Text(said) => format!("text: {}", said.text()),
        Kind::Thinking(thought) => format!("thinking: {}", thought.said.text()),
        Kind::Tool(tool) => {
            format!(
                "{}: {:?} {}",
                tool.name,
                tool.phase,
                tool.result().map(|result| result.text()).unwrap_or_default()
            )
        }
        Kind::Notice(_, text) => format!("notice: {text}"),
        Kind::Table(rows) => format!("table: {}", rows.len()),
        Kind::Welcome(_) => "welcome".into(),
    };
    all.entries().iter().map(one).collect()
}

fn update(update: Update) -> Envelope {
    let event = AgentEvent::MessageUpdate { message_id: MessageId(9), update };
    Envelope { seq: 0, session_id: "s".into(), run_id: RunId(1), parent: None, time: 0, event }
}

async fn harness() -> Harness {
    let call =
        Script::new().think("Look first.", None).say("I look.").call("c1", "look", "{\"at\": 1}");
    Harness::new(PiPattern, [call, Script::text("Seen.")], |agent| {
        agent.tool(TestTool::new("look"))
    })
    .await
}

#[tokio::test]
async fn what_streamed_and_what_is_read_from_the_log_are_the_same_blocks() {
    let mut harness = harness().await;
    harness.handle.prompt("Go").await.unwrap();
    let events = harness.told();
    let mut live = Transcript::default();
    let mut ids = Vec::new();
    for event in &events {
        live.event(event);
        if let Some(entry) = live.entries().get(2) {
            ids.push(entry.id);
        }
    }
    let told = [
        "user: Go",
        "thinking: Look first.",
        "text: I look.",
        "look: Done look done",
        "text: Seen.",
    ];
    assert_eq!(words(&live), told);
    ids.dedup();
    assert_eq!(ids.len(), 1, "a block that streamed is the same one when it is whole");
    let state = harness.handle.state().await.unwrap();
    let mut read = Transcript::default();
    read.merge(&state.messages);
    assert_eq!(words(&read), told);
    // A session that was opened tells events that its state had already.
    let revisions =
        |all: &Transcript| all.entries().iter().map(|entry| entry.revision).collect::<Vec<_>>();
    let before = revisions(&read);
    events.iter().for_each(|event| read.event(event));
    assert_eq!((words(&read), revisions(&read)), (words(&live), before));
}

/// Arguments are kept once: in their message.
#[tokio::test]
async fn what_a_call_was_made_of_is_not_kept_twice() {
    let mut harness = harness().await;
    harness.handle.prompt("Go").await.unwrap();
    let mut all = Transcript::default();
    let mut written = String::new();
    for event in harness.told() {
        all.event(&event);
        let tool = all
            .entries()
            .iter()
            .find_map(|entry| if let Kind::Tool(tool) = &entry.kind { Some(tool) } else { None });
        let Some(tool) = tool else { continue };
        written = tool.raw().to_owned();
        assert!(tool.phase == Phase::Writing || tool.raw.capacity() == 0, "{tool:?}");
    }
    assert_eq!(written, "{\"at\": 1}");
}

#[test]
fn the_call_that_runs_is_the_last_one_that_began() {
    let mut all = Transcript::default();
    let mut tell = |event: AgentEvent| {
        all.event(&Envelope { event, ..update(Update::Withdrawn) });
        all.running().map(|name| name.to_string())
    };
    let starts = |call: &str, name: &str| AgentEvent::ToolExecutionStart {
        call: call.into(),
        name: name.into(),
        arguments: Arc::new(json!({})),
    };
    let ends = |id: &str, call: &str, name: &str| {
        let result = json!({ "id": id, "role": "tool_result", "call": call, "name": name, "status": "ok", "content": [] });
        let result = Arc::new(serde_json::from_value::<Message>(result).unwrap());
        let status = loopwright_core::message::ResultStatus::Ok;
        AgentEvent::ToolExecutionEnd {
            call: call.into(),
            name: name.into(),
            status,
            is_error: false,
            result,
        }
    };
    let name = |name: &str| Some(name.to_owned());
    assert_eq!(tell(starts("c1", "look")), name("look"));
    assert_eq!(tell(starts("c2", "write")), name("write"));
    assert_eq!(tell(starts("c2", "write")), name("write"), "it goes on after a restart");
    assert_eq!(tell(ends("m1", "c2", "write")), name("look"));
    assert_eq!(tell(starts("c2", "write")), name("look"), "it has its result already");
    assert_eq!(tell(ends("m2", "c1", "look")), None);
}

#[tokio::test]
async fn what_is_withdrawn_vanishes_and_what_was_noted_meanwhile_stays() {
    let mut all = Transcript::default();
    all.notice(Tone::Quiet, "before");
    all.event(&update(Update::Text { block: 0, delta: "No".into() }));
    all.notice(Tone::Quiet, "meanwhile");
    all.notice(Tone::Quiet, "meanwhile");
    all.event(&update(Update::ToolCallStart { block: 1, name: "look".into() }));
    all.event(&update(Update::ToolCall { block: 1, delta: "{\"a".into() }));
    all.event(&update(Update::Text { block: 0, delta: ", yes".into() }));
    assert_eq!(
        words(&all),
        ["notice: before", "text: No, yes", "notice: meanwhile", "look: Writing "]
    );
    all.event(&update(Update::Withdrawn));
    assert_eq!(words(&all), ["notice: before", "notice: meanwhile"]);
    all.event(&update(Update::Text { block: 0, delta: "Again".into() }));
    assert_eq!(words(&all), ["notice: before", "notice: meanwhile", "text: Again"]);
}

#[tokio::test]
async fn calls_tell_how_far_they_are() {
    let gate = Gate::new();
    let asks =
        TestTool::new("write").effect(loopwright_core::tool::Effect::AtMostOnce).waits(&gate);
    let chats = TestTool::new("chat").chatters(3, Duration::ZERO);
    let calls = Script::calls([("c1", "chat", json!({})), ("c2", "write", json!({}))]);
    let mut harness =
        Harness::new(PiPattern, [calls, Script::error(ModelErrorKind::Auth, "no key")], |agent| {
            agent.tool(asks).tool(chats)
        })
        .await;
    let handle = harness.handle.clone();
    handle.send(loopwright_core::event::InputEvent::UserRequest("Go".into())).await.unwrap();
    let mut all = Transcript::default();
    for event in harness.run_end().await {
        all.event(&event);
    }
    assert_eq!(words(&all), ["user: Go", "chat: Done chat done", "write: Asking "]);
    let action = harness.pending().await.remove(0);
    handle
        .resolve(
            action.call.clone(),
            action.digest.clone(),
            loopwright_core::event::Decision::Approve,
        )
        .await
        .unwrap();
    for event in harness.until(|event| matches!(event, AgentEvent::ToolExecutionStart { .. })).await
    {
        all.event(&event);
    }
    assert_eq!(
        (words(&all)[2].as_str(), all.running().map(|name| &**name)),
        ("write: Running ", Some("write"))
    );
    gate.open();
    for event in harness.run_end().await {
        all.event(&event);
    }
    assert_eq!((words(&all)[2].as_str(), all.running()), ("write: Done write done", None));
}

/// Who has read too slowly joins again, and is told what streams from its beginning.
#[test]
fn what_streams_comes_again_to_one_who_joins_again() {
    let text = |delta: &str| update(Update::Text { block: 0, delta: delta.into() });
    let mut all = Transcript::default();
    all.event(&text("One sh"));
    all.notice(Tone::Quiet, "noted");
    all.join(&[]);
    all.event(&text("One sheep"));
    assert_eq!(words(&all), ["notice: noted", "text: One sheep"]);
}
