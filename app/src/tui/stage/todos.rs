//! The model's todo list on the screen. Review the snapshots beside this file by eye.

use insta::assert_snapshot;
use loopwright_core::testing::{Gate, Script, TestTool};
use loopwright_core::tool::Todo;
use serde_json::json;

use super::*;

fn write(call: &str, items: &[(&str, &str)]) -> Script {
    let item = |(content, status): &(&str, &str)| json!({ "content": content, "status": status });
    let todos: Vec<_> = items.iter().map(item).collect();
    Script::calls([(call, "write_todos", json!({ "todos": todos }))])
}

/// C519: The list stands above the prompt until it is completed, and its calls have one block,
/// which is updated in place. A session that is opened again shows the same.
#[tokio::test]
async fn a_list_is_updated_in_place() {
    let gate = Gate::new();
    let (read, fix, test) = ("Read the parser", "Fix the bug in its loop", "Test it");
    let replies = [
        write("c1", &[(read, "in_progress"), (fix, "pending"), (test, "pending")]),
        Script::calls([("c2", "search_files", json!({ "pattern": "loop" }))]),
        write("c3", &[(read, "completed"), (fix, "in_progress"), (test, "pending")]),
        Script::text("I shall fix it.").gate(&gate),
        write("c4", &[(read, "completed"), (fix, "completed"), (test, "completed")]),
        Script::text("It is fixed."),
    ];
    let tools = |agent: AgentBuilder| agent.tool(Todo::new()).tool(TestTool::new("search_files"));
    let mut stage = Stage::new(USUAL, replies, tools).await;
    stage.enter("Fix the parser").await;
    for _ in 0..3 {
        stage.until(|event| matches!(event, AgentEvent::ToolExecutionEnd { .. })).await;
    }
    stage.until(|event| matches!(event, AgentEvent::TurnEnd { .. })).await;
    assert_snapshot!("a_list", stage.styled());
    stage.resize(NARROW);
    assert_snapshot!("a_list_narrow", stage.screen());
    stage.resize(USUAL);
    gate.open();
    stage.run_end().await;
    stage.control('o').await;
    assert_snapshot!("a_list_and_its_block", stage.screen());

    let conversation = |screen: String| {
        let lines = screen.lines().skip_while(|line| !line.contains("› Fix the parser"));
        lines.filter(|line| !line.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    let expected = conversation(stage.screen());
    let mut again = Stage::before(USUAL, stage.harness.restart().await);
    again.open(ModelInfo::new("test/scripted").with_context_window(200_000)).await;
    again.control('o').await;
    assert_eq!(conversation(again.screen()), expected);
    again.enter("Test it, too").await;
    again.run_end().await;
    let screen = again.screen();
    assert!(screen.contains("write_todos 3 of 3 done") && !screen.contains("○"), "{screen}");
}

/// C519: Of a long list, the part around the work in progress is shown.
#[tokio::test]
async fn a_long_list_is_cut_around_the_work_in_progress() {
    let names: Vec<String> = (1..=20).map(|n| format!("Step {n} of the work")).collect();
    let status = |n: usize| match n {
        0..9 => "completed",
        9 => "in_progress",
        _ => "pending",
    };
    let items: Vec<_> =
        names.iter().enumerate().map(|(n, name)| (name.as_str(), status(n))).collect();
    let replies = [write("c1", &items), Script::text("I am on it.")];
    let mut stage = Stage::new(USUAL, replies, |agent| agent.tool(Todo::new())).await;
    stage.enter("Work").await;
    stage.run_end().await;
    let screen = stage.screen();
    let shown: Vec<&str> = screen.lines().filter(|line| line.contains("Step")).collect();
    assert_eq!(shown.len(), 7, "the block and six items: {screen}");
    assert!(shown[1].contains("✓ Step 9") && shown[2].contains("● Step 10"), "{screen}");
    assert!(shown[6].contains("○ Step 14"), "{screen}");
}
