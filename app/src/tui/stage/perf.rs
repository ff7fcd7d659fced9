//! Costs: a delta takes constant time, and only visible blocks are laid out.

use std::sync::Arc;
use std::time::Instant;

use loopwright_core::Message;
use loopwright_core::message::{AssistantMessage, ContentPart, MessageId, RunId, UserMessage};
use loopwright_core::testing::Script;

use super::super::state::Scroll;
use super::*;

fn envelope(event: AgentEvent) -> Envelope {
    Envelope::new(0, "s", RunId(1), BEGIN, event)
}

fn delta(text: &str) -> Envelope {
    let update = loopwright_core::model::Update::Text { block: 0, delta: text.into() };
    let event = AgentEvent::MessageUpdate { message_id: MessageId(1_000_000), update };
    envelope(event)
}

fn long_history(messages: u64) -> Vec<Arc<Message>> {
    let one = |id: u64| {
        let text = format!(
            "Message {id} says **something** about `parsers`.\n\n- one\n- two\n\n```rust\nlet x = \
             {id};\n```"
        );
        let parts = vec![ContentPart::Text { text: text.clone(), signature: None }];
        match id % 2 {
            0 => Message::new(MessageId(id), UserMessage::from(text)),
            _ => Message::new(MessageId(id), AssistantMessage::new(parts)),
        }
    };
    (0..messages).map(one).map(Arc::new).collect()
}

/// C126: a session of 10,000 messages is opened and drawn by laying out what is on the screen, and
/// so is each screen while scrolling.
#[tokio::test]
async fn only_the_visible_part_of_a_long_session_is_laid_out() {
    let history = long_history(10_000);
    let mut stage = Stage::new(USUAL, [Script::text("x")], |agent| agent).await;
    let began = Instant::now();
    stage.state.transcript.begin(&history, "", usize::MAX);
    let first = stage.screen();
    let opened = began.elapsed();
    assert!(first.contains("Message 9999"), "{first}");
    assert!(stage.view.layout_count() < 20, "{} blocks", stage.view.layout_count());
    for _ in 0..50 {
        stage.view.scroll(&stage.state, Scroll::Pages(-1));
        stage.buffer();
    }
    let layouts = stage.view.layout_count();
    assert!(layouts < 300, "50 screens took {layouts} blocks");
    stage.view.scroll(&stage.state, Scroll::Top);
    let top = stage.screen();
    assert!(top.contains("Message 0 says") && top.contains("more below"), "{top}");
    assert!(stage.view.layout_count() < layouts + 20);
    println!(
        "10,000 messages: {opened:?} to the first frame, {:?} with 50 screens of scrolling",
        began.elapsed()
    );
}

/// C125: the cost of a delta depends on its own length only, and the retained output of a running
/// tool is bounded.
#[tokio::test]
async fn a_hundred_thousand_deltas_are_folded_and_drawn() {
    let mut stage = Stage::new(USUAL, [Script::text("x")], |agent| agent).await;
    let began = Instant::now();
    let event = delta("word and ");
    let line = delta("end.\n\n");
    for i in 0..100_000 {
        stage.state.event(if i % 20 == 19 { &line } else { &event });
        if i % 500 == 0 {
            stage.buffer();
        }
    }
    println!("100,000 deltas with 200 frames: {:?}", began.elapsed());
    assert_eq!(stage.state.transcript.entries().len(), 2, "the greeting and the reply");
    assert!(stage.screen().contains("word and"));
    let output = |text: String| AgentEvent::ToolExecutionUpdate {
        call: "c".into(),
        update: loopwright_core::tool::ToolUpdate::Output(text),
    };
    let start = AgentEvent::ToolExecutionStart {
        call: "c".into(),
        name: "execute_command".into(),
        arguments: Arc::new(serde_json::json!({})),
    };
    stage.state.event(&envelope(start));
    for i in 0..100_000 {
        stage.state.event(&envelope(output(format!("line {i}\n"))));
    }
    let last = stage.state.transcript.entries().last().unwrap();
    let super::super::state::Kind::Tool(tool) = &last.kind else { panic!("{last:?}") };
    assert!(
        tool.tail.len() <= 32 * 1024 && tool.tail.ends_with("line 99999\n"),
        "{}",
        tool.tail.len()
    );
    assert!(tool.tail.starts_with("line "));
}

/// Unchanged blocks are not laid out again. A bounded number of lines is cached, none of them from
/// another session.
#[tokio::test]
async fn cached_layouts_are_bounded() {
    let mut stage = Stage::recorded(USUAL, "work", |_| false).await;
    stage.control('o').await;
    let mut layouts = 0;
    for _ in 0..2 {
        stage.buffer();
        stage.press(KeyCode::PageUp).await;
        stage.buffer();
        stage.press(KeyCode::End).await;
        stage.buffer();
        let before = std::mem::replace(&mut layouts, stage.view.layout_count());
        assert!(before == 0 || layouts == before, "{layouts} {before}");
    }

    let text = "line\n\n".repeat(1_000);
    let message = |id: u64| Arc::new(Message::new(MessageId(id), UserMessage::from(text.as_str())));
    stage.state.transcript.begin(&(0..40).map(message).collect::<Vec<_>>(), "", usize::MAX);
    for _ in 0..80 {
        stage.view.scroll(&stage.state, Scroll::Lines(-1_000));
        stage.buffer();
        assert!(stage.view.cached_lines() < 25_000, "{}", stage.view.cached_lines());
    }
    assert!(stage.view.cached_lines() > 2_000);
    stage.state.transcript.begin(&long_history(2), "", usize::MAX);
    stage.buffer();
    assert!(stage.view.cached_lines() < 20, "{}", stage.view.cached_lines());
}

/// C127: while the user reads further up, additions below move nothing, and a mark shows that they
/// are there.
#[tokio::test]
async fn the_scroll_position_stays_while_blocks_are_added() {
    let mut stage = Stage::new(USUAL, [Script::text("x")], |agent| agent).await;
    stage.state.transcript.begin(&long_history(40), "", usize::MAX);
    stage.buffer();
    stage.press(KeyCode::PageUp).await;
    let before = stage.screen();
    assert!(before.contains("more below"), "{before}");
    for _ in 0..100 {
        stage.state.event(&delta("more and more\n\n"));
        assert_eq!(stage.screen(), before);
    }
    stage.press(KeyCode::End).await;
    let after = stage.screen();
    assert!(after.contains("more and more") && !after.contains("more below"), "{after}");
}
