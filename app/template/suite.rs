//! Tests of the agent and of its loop. They need no key and no network.

use std::path::{Path, PathBuf};

use loopwright::GenericAgent;
use loopwright::event::RunStatus;
use loopwright::patterns::conformance;
use loopwright::serde_json::json;
use loopwright::testing::{Script, ScriptedModel};
use starter::{AssistantLoop, assistant};

/// Returns an agent whose model answers with these replies.
fn agent(replies: [Script; 2], notes: &Path) -> GenericAgent {
    assistant(ScriptedModel::new(replies), notes).build().unwrap()
}

/// Returns the path of a file that does not exist yet.
fn notes(name: &str) -> PathBuf {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_file(&file); // of an earlier run
    file
}

/// The model calls a tool that only reads, and gets its result.
#[tokio::test]
async fn a_tool_that_only_reads_runs() {
    let call = Script::calls([("a", "fahrenheit", json!({ "celsius": 100 }))]);
    let agent = agent([call, Script::text("It boils at 212 °F.")], &notes("unused"));
    let handle = agent.session().await.unwrap();
    let outcome = handle.prompt("When does water boil?").await.unwrap();
    assert_eq!(outcome.text, "It boils at 212 °F.");
    let messages = handle.state().await.unwrap().messages;
    assert!(messages.iter().any(|message| message.text().contains("212.0 °F")));
}

/// A tool that changes something waits for the user, and runs when the user approves the call.
#[tokio::test]
async fn a_tool_that_changes_something_waits_for_approval() {
    let call = Script::calls([("a", "save_note", json!({ "text": "Buy milk." }))]);
    let file = notes("approved");
    let agent = agent([call, Script::text("I saved it.")], &file);
    let handle = agent.session().await.unwrap();
    let outcome = handle.prompt("Note: buy milk.").await.unwrap();
    assert_eq!(outcome.end, RunStatus::AwaitingAction);
    assert!(!file.exists());

    let action = handle.pending().await.unwrap().remove(0);
    assert_eq!(&*action.name, "save_note");
    handle.approve(&action).await.unwrap();
    handle.wait_for_idle().await;
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "Buy milk.\n");
}

/// The loop keeps the contract of patterns: after a crash or an abort at every write, with messages
/// at every moment, with models that fail, and at every limit.
#[tokio::test(start_paused = true)]
async fn the_loop_passes_the_suite() {
    let checked = conformance::check(|| AssistantLoop, conformance::scenarios()).await;
    let report = checked.unwrap_or_else(|violation| panic!("{violation}"));
    assert!(report.sessions > 100);
}
