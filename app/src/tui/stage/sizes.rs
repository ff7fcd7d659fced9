//! Drawing at every size and after any keys: it shows something and never panics.

use loopwright_core::testing::{Gate, Script, TestTool};
use loopwright_core::tool::Effect as ToolEffect;
use loopwright_core::{Environment, SystemEnvironment};
use serde_json::json;

use super::*;

/// Keys of all kinds.
const KEYS: [KeyCode; 18] = [
    KeyCode::Enter,
    KeyCode::Esc,
    KeyCode::Tab,
    KeyCode::Up,
    KeyCode::Down,
    KeyCode::Left,
    KeyCode::PageUp,
    KeyCode::PageDown,
    KeyCode::Home,
    KeyCode::End,
    KeyCode::Backspace,
    KeyCode::Char('/'),
    KeyCode::Char('@'),
    KeyCode::Char('n'),
    KeyCode::Char('e'),
    KeyCode::Char('o'),
    KeyCode::Char('t'),
    KeyCode::Char('世'),
];

async fn draw_at_all_sizes(stage: &mut Stage) {
    for columns in (1..48).chain([79, 200]) {
        for lines in (1..16).chain([24, 60]) {
            stage.resize((columns, lines));
            stage.buffer();
        }
    }
}

#[tokio::test]
async fn every_state_is_drawn_at_every_size() {
    let gate = Gate::new();
    let look = TestTool::new("search_files").waits(&gate);
    let asks = TestTool::new("execute_command").effect(ToolEffect::AtMostOnce);
    let first = Script::new()
        .think("Well.\nThen.", None)
        .say("**Look**: `x`\n\n| a | b |\n|---|---|\n| 1 | 2 |");
    let first = first.call("c1", "search_files", "{\"pattern\": \"x\"}");
    let second =
        Script::calls([("c2", "execute_command", json!({ "command": "make\nmake install" }))]);
    let mut stage = Stage::new(USUAL, [first, second], |agent| agent.tool(look).tool(asks)).await;
    draw_at_all_sizes(&mut stage).await;
    stage.enter("Go on with a request that is longer than a narrow screen").await;
    stage.until(|event| matches!(event, AgentEvent::ToolExecutionStart { .. })).await;
    stage.types("and so on and so forth").await;
    stage.alt(KeyCode::Enter).await;
    stage.until(|event| matches!(event, AgentEvent::QueueUpdate { .. })).await;
    draw_at_all_sizes(&mut stage).await;
    stage.types("/").await;
    draw_at_all_sizes(&mut stage).await;
    stage.press(KeyCode::Backspace).await;
    gate.open();
    stage.run_end().await;
    stage.wait(Duration::from_secs(2));
    draw_at_all_sizes(&mut stage).await;
    stage.press(KeyCode::Char('n')).await;
    stage.types("because of this and that and whatever else there is").await;
    draw_at_all_sizes(&mut stage).await;
    stage.press(KeyCode::Esc).await;
    stage
        .outcome(Outcome::NoEditor {
            call: "c2".into(),
            json: "{\n  \"command\": \"make\"\n}".into(),
        })
        .await;
    draw_at_all_sizes(&mut stage).await;
}

/// The seed is printed on failure.
#[tokio::test]
async fn random_keys_do_not_panic() {
    let seed = SystemEnvironment.random();
    println!("seed {seed}");
    let mut dice = seed | 1;
    let mut roll = move |below: usize| {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        usize::try_from(dice >> 33).unwrap() % below
    };
    let asks = TestTool::new("execute_command").effect(ToolEffect::AtMostOnce);
    let call = Script::calls([("c1", "execute_command", json!({ "command": "make" }))]);
    let mut stage = Stage::new(USUAL, [call], |agent| agent.tool(asks)).await;
    stage
        .harness
        .model
        .clone()
        .default_reply(Script::text("Some *text* and\n\n```rust\nfn f() {}\n```\n"));
    for _ in 0..3_000 {
        let key = KEYS[roll(KEYS.len())];
        match roll(12) {
            0 => stage.alt(key).await,
            1 => stage.press_with(KeyModifiers::SHIFT, key).await,
            2 => stage.press_with(KeyModifiers::CONTROL, key).await,
            3 => {
                let size = (roll(100) as u16 + 1, roll(40) as u16 + 1);
                stage.resize(size);
            }
            4 => stage.wait(Duration::from_millis(roll(900) as u64)),
            5 => {
                while let Some(event) = stage.harness.events.try_next() {
                    stage.take(&event).await;
                }
            }
            _ => stage.press(key).await,
        }
        tokio::task::yield_now().await;
        stage.buffer();
    }
}
