//! Events and the resulting blocks.

use std::time::Duration;

use loopwright_core::message::{AssistantMessage, DetachedMessage, RunId};
use loopwright_core::model::ModelErrorKind;
use loopwright_core::testing::{Gate, Harness, Script, TestTool};
use loopwright_patterns::PiPattern;
use serde_json::json;

use super::*;
use crate::tui::state::user_text;

/// Describes the blocks.
fn words(all: &Transcript) -> Vec<String> {
    let one = |entry: &Entry| match &entry.kind {
        Kind::User(message) => format!("user: {}", user_text(message)),
        Kind::Speaker(name) => format!("speaker: {name}"),
        Kind::Text(text) => format!("text: {}", text.as_str()),
        Kind::Thinking(thought) => format!("thinking: {}", thought.text.as_str()),
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

fn envelope(event: AgentEvent) -> Envelope {
    Envelope::new(0, "s", RunId(1), 0, event)
}

fn update(update: Update) -> Envelope {
    let event = AgentEvent::MessageUpdate { message_id: MessageId(9), update };
    envelope(event)
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
async fn streamed_blocks_equal_those_read_from_the_log() {
    let mut harness = harness().await;
    harness.handle.prompt("Go").await.unwrap();
    let events = harness.drain_events();
    let mut live = Transcript::default();
    let mut ids = Vec::new();
    for event in &events {
        live.event(event);
        if let Some(entry) = live.entries().get(2) {
            ids.push(entry.id);
        }
    }
    let expected = [
        "user: Go",
        "thinking: Look first.",
        "text: I look.",
        "look: Done look done",
        "text: Seen.",
    ];
    assert_eq!(words(&live), expected);
    ids.dedup();
    assert_eq!(ids.len(), 1, "a streamed block keeps its id when it is complete");
    let state = harness.handle.state().await.unwrap();
    let mut read = Transcript::default();
    read.merge(&state.messages);
    assert_eq!(words(&read), expected);
    // An opened session emits events that its state already contains.
    let revisions =
        |all: &Transcript| all.entries().iter().map(|entry| entry.revision).collect::<Vec<_>>();
    let before = revisions(&read);
    events.iter().for_each(|event| read.event(event));
    assert_eq!((words(&read), revisions(&read)), (words(&live), before));
}

/// Arguments are stored once: in their message.
#[tokio::test]
async fn arguments_of_a_call_are_stored_once() {
    let mut harness = harness().await;
    harness.handle.prompt("Go").await.unwrap();
    let mut all = Transcript::default();
    let mut written = String::new();
    for event in harness.drain_events() {
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
fn the_running_call_is_the_last_one_started() {
    let mut all = Transcript::default();
    let mut apply = |event: AgentEvent| {
        all.event(&envelope(event));
        all.running().map(|name| name.to_string())
    };
    let starts = |call: &str, name: &str| AgentEvent::ToolExecutionStart {
        call: call.into(),
        name: name.into(),
        arguments: Arc::new(json!({})),
    };
    let ends = |id: &str, call: &str, name: &str| {
        let result = json!({
            "id": id, "role": "tool_result", "call": call, "name": name, "status": "ok",
            "content": [],
        });
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
    assert_eq!(apply(starts("c1", "look")), name("look"));
    assert_eq!(apply(starts("c2", "write")), name("write"));
    assert_eq!(apply(starts("c2", "write")), name("write"), "it continues after a restart");
    assert_eq!(apply(ends("m1", "c2", "write")), name("look"));
    assert_eq!(apply(starts("c2", "write")), name("look"), "it already has a result");
    assert_eq!(apply(ends("m2", "c1", "look")), None);
}

#[tokio::test]
async fn withdrawn_text_is_removed_and_notices_stay() {
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
async fn calls_show_their_phase() {
    let gate = Gate::new();
    let asks =
        TestTool::new("write").effect(loopwright_core::tool::Effect::AtMostOnce).waits(&gate);
    let chats = TestTool::new("chat").sends_updates(3, Duration::ZERO);
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
    handle.approve(&action).await.unwrap();
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

/// After the session was joined again, streamed blocks are sent from their beginning.
#[test]
fn streamed_blocks_are_replaced_after_rejoining() {
    let text = |delta: &str| update(Update::Text { block: 0, delta: delta.into() });
    let mut all = Transcript::default();
    all.event(&text("One sh"));
    all.notice(Tone::Quiet, "noted");
    all.join(&[]);
    all.event(&text("One sheep"));
    assert_eq!(words(&all), ["notice: noted", "text: One sheep"]);
}

/// C49: a reply that is incomplete or was interrupted is marked, live and when a session is opened.
#[tokio::test]
async fn replies_that_are_not_whole_are_marked() {
    for (reply, mark) in [
        (
            Script::text("half").stop(StopReason::Length),
            "notice: The reply is incomplete: it reached the model's limit of output tokens.",
        ),
        (
            Script::text("half").stop(StopReason::ContentFilter),
            "notice: The reply is incomplete: the provider's content filter cut it off.",
        ),
        (Script::new(), "notice: The model's reply is empty: it has no text and calls no tool."),
        (Script::text("half").hang(), "notice: Interrupted."),
    ] {
        let mut harness = Harness::new(PiPattern, [reply], |agent| agent).await;
        let handle = harness.handle.clone();
        let run = tokio::spawn(async move { handle.prompt("Go").await });
        let is_far = |event: &AgentEvent| {
            matches!(event, AgentEvent::MessageUpdate { .. } | AgentEvent::AgentEnd(_))
        };
        let mut events = harness.until(is_far).await;
        if mark.ends_with("Interrupted.") {
            harness.handle.abort().await.unwrap();
        }
        run.await.unwrap().unwrap();
        events.extend(harness.drain_events());
        let mut live = Transcript::default();
        events.iter().for_each(|event| live.event(event));
        assert_eq!(words(&live).last().unwrap(), mark);
        let mut opened = Transcript::default();
        opened.merge(&harness.handle.state().await.unwrap().messages);
        assert_eq!(words(&opened).last().unwrap(), mark);
    }
}

fn detached(id: u64, speaker: &str, update: Update) -> Envelope {
    let (message_id, speaker) = (MessageId(id), speaker.into());
    envelope(AgentEvent::DetachedUpdate { message_id, speaker, update })
}

/// C526: Detached replies that are shown stream below the names of their speakers, each apart, and
/// end as they are read from the log. One that is withdrawn leaves nothing.
#[test]
fn detached_replies_stream_below_their_speakers() {
    let says = |delta: &str| Update::Text { block: 0, delta: delta.into() };
    let mut live = Transcript::default();
    live.event(&detached(2, "pro", says("Cars ")));
    live.event(&detached(3, "contra", says("No")));
    live.notice(Tone::Quiet, "A notice.");
    live.event(&detached(2, "pro", says("kill.")));
    let streaming = ["speaker: pro", "text: Cars kill.", "speaker: contra", "text: No"];
    assert_eq!(words(&live), [&streaming[..], &["notice: A notice."]].concat());
    live.event(&detached(3, "contra", Update::Withdrawn));
    assert_eq!(words(&live), ["speaker: pro", "text: Cars kill.", "notice: A notice."]);
    let reply = AssistantMessage::from("Cars kill.");
    let whole = Arc::new(Message::new(MessageId(2), DetachedMessage::new("pro", reply)));
    live.event(&envelope(AgentEvent::MessageEnd { message: whole.clone() }));
    assert_eq!(words(&live), ["speaker: pro", "text: Cars kill.", "notice: A notice."]);
    let mut read = Transcript::default();
    read.merge(&[whole]);
    assert_eq!(words(&read), ["speaker: pro", "text: Cars kill."]);
    // A view that joins again gets what streams from its beginning.
    live.event(&detached(4, "pro", says("And ")));
    live.join(&[]);
    live.event(&detached(4, "pro", says("And more")));
    assert_eq!(words(&live).last().unwrap(), "text: And more");
    assert_eq!(words(&live).len(), 5);
}
