//! Loopwright's own client: an agent of this process calls the agent of another one.

use std::path::PathBuf;
use std::time::Duration;

use loopwright_core::GenericAgent;
use loopwright_core::event::{Decision, Provided, RunStatus};
use loopwright_core::testing::{Script, ScriptedModel};
use loopwright_mcp::{McpServer, ServerConfig};
use loopwright_patterns::PiPattern;
use loopwright_test_support::process::{STORE, project};
use serde_json::json;

use crate::BIN;

/// C357, C359: An agent gives another one a task, whose approval is a question to the user of the
/// first; both sessions end.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_works_for_another() {
    let project = project();
    let store = project.path().join(STORE);
    let command = ["mcp", "--model", "offline", "--store"].map(PathBuf::from);
    let args = [&command[..], &[store, "--root".into(), project.path().into()]].concat();
    let settings = json!({ "command": BIN.path(), "args": args });
    let config = ServerConfig::read("lw", &settings).unwrap();
    let server = McpServer::builder(config).start_wait(Duration::from_secs(60)).build();
    let task = json!({ "message": "Create a.txt with \"hi\"" });
    let replies = [Script::calls([("c1", "lw__coding", task)]), Script::text("It is written.")];
    let agent = GenericAgent::builder(ScriptedModel::new(replies), PiPattern)
        .tool_source(server.prefix(), server.clone())
        .approve_all()
        .build()
        .unwrap();
    let handle = agent.session().await.unwrap();
    let outcome = handle.prompt("Write it.").await.unwrap();
    assert_eq!(outcome.end, RunStatus::AwaitingAction, "{outcome:?}");
    let action = handle.pending().await.unwrap().remove(0);
    let question = action.question().unwrap();
    assert!(question.question.contains("write_file"), "{question:?}");
    assert!(!project.path().join("a.txt").exists());
    let answer = Provided::Input(json!({ "decision": "approve" }));
    handle.resolve(&action, Decision::Provide(answer)).await.unwrap();
    handle.wait_for_idle().await;
    assert_eq!(std::fs::read_to_string(project.path().join("a.txt")).unwrap(), "hi");
    let messages = handle.state().await.unwrap().messages;
    assert_eq!(messages.iter().last().unwrap().text(), "It is written.");
}
