//! Tests of the agent and of its loop. They need no key and no network.

use loopwright::event::RunStatus;
use loopwright::patterns::conformance;
use loopwright::serde_json::json;
use loopwright::testing::{Script, ScriptedModel};
use loopwright::{GenericAgent, RunContext};
use starter::{AssistantLoop, assistant};

fn agent(replies: [Script; 2]) -> GenericAgent {
    assistant(ScriptedModel::new(replies)).build().unwrap()
}

/// The model calls a tool that only reads, and gets its result.
#[tokio::test]
async fn a_tool_that_only_reads_runs() {
    let call = Script::calls([("a", "fahrenheit", json!({ "celsius": 100 }))]);
    let agent = agent([call, Script::text("It boils at 212 °F.")]);
    let (handle, _events) = agent.run(RunContext::new()).await.unwrap();
    let outcome = handle.prompt("When does water boil?").await.unwrap();
    assert_eq!(outcome.text, "It boils at 212 °F.");
    let messages = handle.state().await.unwrap().messages;
    assert!(messages.iter().any(|message| message.text().contains("212.0 °F")));
}

/// A tool that changes something waits for the user.
#[tokio::test]
async fn a_tool_that_changes_something_waits_for_approval() {
    let call = Script::calls([("a", "save_note", json!({ "text": "Buy milk." }))]);
    let agent = agent([call, Script::text("Not saved.")]);
    let (handle, _events) = agent.run(RunContext::new()).await.unwrap();
    let outcome = handle.prompt("Note: buy milk.").await.unwrap();
    assert_eq!(outcome.end, RunStatus::AwaitingAction);
}

/// The loop keeps the contract of patterns: after a crash or an abort at every write, with messages
/// at every moment, with models that fail, and at every limit.
#[tokio::test(start_paused = true)]
async fn the_loop_passes_the_suite() {
    let checked = conformance::check(|| AssistantLoop, conformance::scenarios()).await;
    let report = checked.unwrap_or_else(|violation| panic!("{violation}"));
    assert!(report.sessions > 100);
}
