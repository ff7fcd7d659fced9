//! What it costs: a delta is folded in no time, and only what is seen is laid out.

use std::sync::Arc;
use std::time::Instant;

use loopwright_core::Message;
use loopwright_core::message::{AssistantMessage, ContentPart, MessageId, RunId, UserMessage};
use loopwright_core::testing::Script;

use super::super::state::Scroll;
use super::*;

fn delta(text: &str) -> Envelope {
    let update = loopwright_core::event::Update::Text { block: 0, delta: text.into() };
    let event = AgentEvent::MessageUpdate { message_id: MessageId(1_000_000), update };
    Envelope { seq: 0, session_id: "s".into(), run_id: RunId(1), parent: None, time: BEGIN, event }
}

fn long_history(messages: u64) -> Vec<Arc<Message>> {
    let one = |id: u64| {
        let text = format!(
            "Message {id} says **something** about `parsers`.\n\n- one\n- two\n\n```rust\nlet x = {id};\n```"
        );
        let parts = vec![ContentPart::Text { text: text.clone(), signature: None }];
        match id % 2 {
            0 => Message::new(MessageId(id), UserMessage::from(text)),
            _ => Message::new(
                MessageId(id),
                AssistantMessage { parts, ..AssistantMessage::default() },
            ),
        }
    };
    (0..messages).map(one).map(Arc::new).collect()
}

/// C126: a session of 10,000 messages is opened and drawn by laying out what is on the screen, and
/// so is each screen that one scrolls by.
#[tokio::test]
async fn a_long_session_is_laid_out_where_it_is_seen() {
    let history = long_history(10_000);
    let mut stage = Stage::new(USUAL, [Script::text("x")], |agent| agent).await;
    let began = Instant::now();
    stage.state.transcript.begin(&history, "", usize::MAX);
    let first = stage.screen();
    let opened = began.elapsed();
    assert!(first.contains("Message 9999"), "{first}");
    assert!(stage.view.laid_out() < 20, "{} blocks", stage.view.laid_out());
    for _ in 0..50 {
        stage.view.scroll(&stage.state, Scroll::Pages(-1));
        stage.buffer();
    }
    let made = stage.view.laid_out();
    assert!(made < 300, "50 screens took {made} blocks");
    stage.view.scroll(&stage.state, Scroll::Top);
    let top = stage.screen();
    assert!(top.contains("Message 0 says") && top.contains("more below"), "{top}");
    assert!(stage.view.laid_out() < made + 20);
    println!(
        "10,000 messages: {opened:?} to the first frame, {:?} with 50 screens of scrolling",
        began.elapsed()
    );
}

/// C125: a delta costs its own length, however much was said before, and what is kept of a running
/// tool's output is bounded.
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
    assert_eq!(stage.state.transcript.entries().len(), 2, "how it began, and the reply");
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
    stage.state.event(&Envelope { event: start, ..delta("") });
    for i in 0..100_000 {
        stage.state.event(&Envelope { event: output(format!("line {i}\n")), ..delta("") });
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

/// What is as it was is not laid out again; of what was, so many lines are kept, and of another
/// session none.
#[tokio::test]
async fn what_is_laid_out_is_kept_within_bounds() {
    let mut stage = Stage::recorded(USUAL, "work", |_| false).await;
    stage.control('o').await;
    let mut made = 0;
    for _ in 0..2 {
        stage.buffer();
        stage.press(KeyCode::PageUp).await;
        stage.buffer();
        stage.press(KeyCode::End).await;
        stage.buffer();
        let before = std::mem::replace(&mut made, stage.view.laid_out());
        assert!(before == 0 || made == before, "{made} {before}");
    }

    let text = "line\n\n".repeat(1_000);
    let said = |id: u64| Arc::new(Message::new(MessageId(id), UserMessage::from(text.as_str())));
    stage.state.transcript.begin(&(0..40).map(said).collect::<Vec<_>>(), "", usize::MAX);
    for _ in 0..80 {
        stage.view.scroll(&stage.state, Scroll::Lines(-1_000));
        stage.buffer();
        assert!(stage.view.lines_kept() < 25_000, "{}", stage.view.lines_kept());
    }
    assert!(stage.view.lines_kept() > 2_000);
    stage.state.transcript.begin(&long_history(2), "", usize::MAX);
    stage.buffer();
    assert!(stage.view.lines_kept() < 20, "{}", stage.view.lines_kept());
}

/// C127: while one reads further up, what is added below moves nothing, and a mark says that it is
/// there.
#[tokio::test]
async fn what_is_read_stays_where_it_is() {
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
