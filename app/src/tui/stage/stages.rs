//! The stages of a pattern's work on the screen. Review the snapshots beside this file by eye.

use insta::assert_snapshot;
use loopwright_core::message::UserMessage;
use loopwright_core::session::Call;
use loopwright_core::testing::{Gate, Script, TestTool};
use loopwright_core::tool::{Approval, Effect};
use loopwright_patterns::{Branches, Graph, Next};
use serde_json::json;

use super::*;

/// C545: The stages stand above the prompt while the pattern is at one, with the branches of the
/// current one. A session that is opened again shows the same.
#[tokio::test]
async fn the_stages_are_listed_above_the_prompt() {
    let call = |tool| Call::new(tool, json!({}));
    let branches = Branches::new(move |_, (): &()| ["look_up", "book_flight"].map(call).into());
    let graph = Graph::<()>::new("plan")
        .pattern("plan", PiPattern)
        .leads_to("plan", [Next::To("book")])
        .branches("book", branches, |(), _| Ok(Some(UserMessage::from("Booked.").into())))
        .leads_to("book", [Next::To("answer")])
        .pattern("answer", PiPattern);
    let gate = Gate::new();
    let replies = [Script::text("By train."), Script::text("It is booked.").gate(&gate)];
    let tools = |agent: AgentBuilder| {
        let book = TestTool::new("book_flight").spec(|spec| spec.approval(Approval::Always));
        agent.tool(TestTool::new("look_up").effect(Effect::ReadOnly)).tool(book)
    };
    let harness = Harness::new(graph, replies, tools).await;
    harness.clock.advance_to(BEGIN).await;
    let mut stage = Stage::of(USUAL, harness).await;
    stage.enter("Go to Lisbon").await;
    stage.run_end().await;
    stage.wait(Duration::from_secs(1));
    stage.press(KeyCode::Esc).await;
    assert_snapshot!("stages_that_wait", stage.styled());
    stage.resize(NARROW);
    assert_snapshot!("stages_narrow", stage.screen());
    stage.resize(USUAL);
    let expected = "book · 2 branches: 1 done, 1 waiting";
    assert!(stage.screen().contains(expected), "{}", stage.screen());

    let mut again = Stage::before(USUAL, stage.harness.restart().await);
    again.open(ModelInfo::new("test/scripted").with_context_window(200_000)).await;
    again.wait(Duration::from_secs(1));
    again.press(KeyCode::Esc).await;
    assert!(again.screen().contains(expected), "{}", again.screen());
    again.press(KeyCode::Tab).await;
    again.wait(Duration::from_secs(1));
    again.press(KeyCode::Char('y')).await;
    again
        .until(|event| loopwright_core::log::Stage::all(event).is_some_and(|all| all.len() == 3))
        .await;
    assert_snapshot!("stages_that_run", again.screen());
    gate.open();
    again.run_end().await;
    assert!(!again.screen().contains("●"), "{}", again.screen());
}
