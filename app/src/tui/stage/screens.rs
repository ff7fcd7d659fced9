//! The screen in each state. Review the snapshots beside this file by eye.

use std::time::Duration;

use insta::assert_snapshot;
use loopwright_core::message::Usage;
use loopwright_core::model::{ModelErrorKind, ModelInfo, Update};
use loopwright_core::testing::{Gate, Script, TestTool};
use loopwright_core::tool::Effect as ToolEffect;
use loopwright_core::{AgentBuilder, AgentEvent};
use serde_json::json;

use super::*;

const ANSWER: &str = "The parser is in `src/parser.rs`. It has three parts:\n\n\
    1. **Lexing** turns bytes into tokens.\n\
    2. **Parsing** turns tokens into a tree.\n\
    3. *Printing* is for tests only.\n\n\
    ```rust\nfn main() {\n    println!(\"hello\");\n}\n```\n";

fn usage(input: u64, output: u64) -> Usage {
    Usage::new(input, output)
}

fn plain(agent: AgentBuilder) -> AgentBuilder {
    agent
}

/// Returns a tool with effects, which needs approval.
fn asks(name: &str) -> TestTool {
    TestTool::new(name).effect(ToolEffect::AtMostOnce)
}

fn is_text(event: &AgentEvent) -> bool {
    matches!(event, AgentEvent::MessageUpdate { update: Update::Text { .. }, .. })
}

fn is_asked(event: &AgentEvent) -> bool {
    matches!(event, AgentEvent::ExternalAction(_))
}

#[tokio::test]
async fn before_anything_is_open() {
    let harness = Harness::new(PiPattern, [], plain).await;
    let mut stage = Stage::before(USUAL, harness);
    assert_snapshot!(stage.screen());
}

#[tokio::test]
async fn a_new_conversation() {
    let mut stage = Stage::new(USUAL, [], plain).await;
    assert_snapshot!(stage.styled());
}

#[tokio::test]
async fn an_answer() {
    let mut stage =
        Stage::new(USUAL, [Script::text(ANSWER).usage(usage(12_000, 300))], plain).await;
    stage.enter("Where is the parser?").await;
    stage.run_end().await;
    assert_snapshot!(stage.screen());
    stage.resize(NARROW);
    assert_snapshot!("an_answer_narrow", stage.screen());
    stage.resize(WIDE);
    assert_snapshot!("an_answer_wide", stage.screen());
}

#[tokio::test]
async fn an_answer_that_streams() {
    let gate = Gate::new();
    let reply = Script::new().say("It begins with").gate(&gate).say("more");
    let mut stage = Stage::new(USUAL, [reply], plain).await;
    stage.enter("Go on").await;
    stage.until(is_text).await;
    stage.wait(Duration::from_secs(3));
    assert_snapshot!(stage.styled());
}

#[tokio::test]
async fn thoughts_folded_and_open() {
    let reply =
        Script::new().think("The user wants a number.\nIt is 42, as ever.", None).say("It is 42.");
    let mut stage = Stage::new(USUAL, [reply], plain).await;
    stage.enter("How many?").await;
    stage
        .until(|event| {
            matches!(event, AgentEvent::MessageUpdate { update: Update::Thinking { .. }, .. })
        })
        .await;
    assert_snapshot!("thoughts_that_come", stage.styled());
    stage.run_end().await;
    assert_snapshot!("thoughts_folded", stage.screen());
    stage.control('t').await;
    assert_snapshot!("thoughts_open", stage.styled());
}

#[tokio::test]
async fn a_call_that_runs_and_its_result() {
    let gate = Gate::new();
    let call = Script::new().say("I shall look.").call(
        "c1",
        "search_files",
        r#"{"pattern": "fn main", "path": "src"}"#,
    );
    let tool = TestTool::new("search_files").waits(&gate);
    let mut stage =
        Stage::new(USUAL, [call, Script::text("Found it.")], |agent| agent.tool(tool)).await;
    stage.enter("Find main").await;
    stage.until(|event| matches!(event, AgentEvent::ToolExecutionStart { .. })).await;
    stage.wait(Duration::from_secs(75));
    assert_snapshot!("a_call_that_runs", stage.screen());
    gate.open();
    stage.run_end().await;
    assert_snapshot!("a_call_that_has_run", stage.screen());
}

#[tokio::test]
async fn a_call_that_asks() {
    let arguments = json!({ "command": "cargo test --workspace\ncargo clippy", "timeout": 600 });
    let reply = Script::calls([("c1", "execute_command", arguments)]);
    let mut stage = Stage::new(USUAL, [reply], |agent| agent.tool(asks("execute_command"))).await;
    stage.enter("Run the tests").await;
    stage.until(is_asked).await;
    stage.wait(Duration::from_secs(1));
    assert_snapshot!("a_call_that_asks", stage.styled());
    stage.press(KeyCode::Char('n')).await;
    stage.types("not on this machine").await;
    assert_snapshot!("a_reason_not_to", stage.screen());
    stage.resize(NARROW);
    assert_snapshot!("a_reason_not_to_narrow", stage.screen());
}

#[tokio::test]
async fn an_edit_shows_its_diff() {
    let arguments = json!({ "path": "notes.txt", "old_string": "beta", "new_string": "BETA" });
    let reply =
        Script::calls([("c1", "edit_file", arguments.clone()), ("c2", "edit_file", arguments)]);
    let mut stage = Stage::new(USUAL, [reply], |agent| agent.tool(asks("edit_file"))).await;
    stage.enter("Shout").await;
    stage.until(|event| matches!(event, AgentEvent::AgentEnd(_))).await;
    let [Effect::Preview(first)] = &stage.wanted[..] else { panic!("{:?}", stage.wanted) };
    let first = (**first).clone();
    let diff = "@@ -1,3 +1,3 @@\n alpha\n-beta\n+BETA\n gamma\n";
    stage.outcome(Outcome::Preview(first.clone(), Ok(diff.into()))).await;
    assert_snapshot!(stage.styled());

    // A diff of outdated arguments is not shown.
    let json =
        json!({ "path": "notes.txt", "old_string": "beta", "new_string": "Beta" }).to_string();
    stage.outcome(Outcome::Edited { call: "c1".into(), json }).await;
    assert!(!stage.screen().contains("gamma"));
    stage.outcome(Outcome::Preview(first, Ok(diff.into()))).await;
    assert!(!stage.screen().contains("gamma"));
    let Some(Effect::Preview(second)) = stage.wanted.pop() else { panic!("{:?}", stage.wanted) };
    stage.outcome(Outcome::Preview(*second, Ok(diff.replace("BETA", "Beta")))).await;
    assert!(stage.screen().contains("+ Beta"));
}

#[tokio::test]
async fn what_waits_in_the_queues() {
    let gate = Gate::new();
    let call = Script::calls([("c1", "search_files", json!({ "pattern": "x" }))]);
    let tool = TestTool::new("search_files").waits(&gate);
    let mut stage = Stage::new(USUAL, [call], |agent| agent.tool(tool)).await;
    stage.enter("Find x").await;
    stage.until(|event| matches!(event, AgentEvent::ToolExecutionStart { .. })).await;
    stage.enter("only in src").await;
    stage.until(|event| matches!(event, AgentEvent::QueueUpdate { .. })).await;
    stage.types("then count them").await;
    stage.alt(KeyCode::Enter).await;
    stage.until(|event| matches!(event, AgentEvent::QueueUpdate { .. })).await;
    assert_snapshot!("what_waits", stage.styled());
    stage.press(KeyCode::Up).await;
    stage.until(|event| matches!(event, AgentEvent::QueueUpdate { .. })).await;
    assert_snapshot!("what_was_taken_back", stage.screen());
}

#[tokio::test]
async fn commands_are_offered() {
    let mut stage = Stage::new(USUAL, [], plain).await;
    stage.types("/").await;
    stage.press(KeyCode::Down).await;
    assert_snapshot!(stage.screen());
}

#[tokio::test]
async fn a_model_that_fails() {
    let reply = Script::error(
        ModelErrorKind::Auth,
        "The key was refused by test: set TEST_API_KEY to one that is valid.",
    );
    let mut stage = Stage::new(NARROW, [reply], plain).await;
    stage.enter("Hello").await;
    stage.run_end().await;
    assert_snapshot!(stage.styled());
}

#[tokio::test]
async fn a_window_that_is_nearly_full() {
    let harness =
        Harness::new(PiPattern, [Script::text("Yes.").usage(usage(168_000, 400))], plain).await;
    let mut stage = Stage::before(WIDE, harness);
    stage.open(ModelInfo::new("anthropic/claude-sonnet-4-5").with_context_window(200_000)).await;
    stage.enter("Still there?").await;
    stage.run_end().await;
    assert_snapshot!(stage.styled().lines().last().unwrap());
}

#[tokio::test]
async fn a_screen_that_is_too_small() {
    for (size, text) in
        [((40, 5), "Too small: enlarge it."), ((19, 9), "Too small"), ((8, 24), "…")]
    {
        let mut stage = Stage::new(size, [], plain).await;
        assert_eq!(stage.screen().trim_end(), text);
    }
}

#[tokio::test]
async fn a_long_call_is_scrolled() {
    let content: String = (1..=60).map(|line| format!("line {line} of the file\n")).collect();
    let arguments = json!({ "path": "long.txt", "content": content });
    let reply = Script::calls([("c1", "write_file", arguments)]);
    let mut stage = Stage::new(USUAL, [reply], |agent| agent.tool(asks("write_file"))).await;
    stage.enter("Write it").await;
    stage.run_end().await;
    stage.wait(Duration::from_secs(1));
    assert_snapshot!("a_long_call", stage.screen());
    stage.press(KeyCode::PageDown).await;
    stage.press(KeyCode::Down).await;
    assert_snapshot!("a_long_call_further_down", stage.screen());
    stage.press(KeyCode::End).await;
    assert_snapshot!("a_long_call_at_its_end", stage.screen());
    stage.press(KeyCode::Esc).await;
    assert_snapshot!("a_detached_call", stage.screen());
}

#[tokio::test]
async fn a_reopened_session_asks() {
    let call = Script::new().think("Carefully.", None).call(
        "c1",
        "execute_command",
        "{\"command\": \"make\"}",
    );
    let mut stage = Stage::new(USUAL, [call], |agent| agent.tool(asks("execute_command"))).await;
    stage.enter("Build it").await;
    stage.run_end().await;
    let mut stage = Stage::before(USUAL, stage.harness.restart().await);
    stage.open(ModelInfo::new("test/scripted")).await;
    assert_snapshot!(stage.screen());
}

/// A prompt submitted before the session is open is sent when it is, unless the user types on.
#[tokio::test]
async fn enter_while_a_session_opens_is_not_lost() {
    for (more, answered) in [("", true), (" there", false)] {
        let harness = Harness::new(PiPattern, [Script::text("Hello.")], plain).await;
        let mut stage = Stage::before(USUAL, harness);
        stage.enter("hello").await;
        stage.types(more).await;
        stage.open(ModelInfo::new("test/scripted")).await;
        assert_eq!(stage.state.is_working(), answered);
        assert_eq!(stage.state.prompt.text(), if answered { "" } else { "hello there" });
    }
}

#[tokio::test]
async fn help_on_wide_and_narrow_screens() {
    let mut stage = Stage::new((100, 37), [], plain).await;
    stage.enter("/help").await;
    assert_snapshot!("help", stage.screen());
    for (size, name) in [(USUAL, "help_usual"), (NARROW, "help_narrow")] {
        let mut stage = Stage::recorded(size, "answer", |_| false).await;
        stage.buffer();
        stage.enter("/help").await;
        let screen = stage.screen();
        assert!(
            screen.contains("· Enter") && screen.contains("more below"),
            "it is shown from its beginning: {screen}"
        );
        assert_snapshot!(name, stage.styled());
    }
}
