//! A server that only speaks version 2026-07-28, written with the official SDK: `modern.mjs`.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use loopwright_core::event::{AgentEvent, Decision, Provided};
use loopwright_core::message::{Content, ResultStatus};
use loopwright_core::testing::{Script, ScriptedModel};
use loopwright_mcp::{McpServer, ServerConfig};
use loopwright_test_support::clients::clients;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use crate::{builder, call, results, session, text};

/// Copies the script next to the packages, where Node.js looks for them, and returns the copy.
fn script(name: &str) -> PathBuf {
    let copy = clients().join(format!("modern_{name}.mjs"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/modern.mjs");
    std::fs::copy(source, &copy).unwrap();
    copy
}

fn server(settings: &Value) -> McpServer {
    builder(ServerConfig::read("modern", settings).unwrap())
        .root(Path::new("/srv/here"))
        .sampling(Arc::new(ScriptedModel::new([Script::text("Sheep.")])))
        .build()
}

/// C355: A server of the current version works over stdio.
#[tokio::test]
async fn over_stdio() {
    works(server(&json!({ "command": "node", "args": [script("stdio")] }))).await;
}

/// C355: A server of the current version works over streamable HTTP.
#[tokio::test]
async fn over_streamable_http() {
    let mut command = Command::new("node");
    command.arg(script("http")).arg("http").stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let url = lines.next_line().await.unwrap().unwrap();
    works(server(&json!({ "url": url }))).await;
}

/// Calls a tool whose server asks questions, answers them, and returns the result.
async fn answered(server: &McpServer, tool: &str, answers: &[Value]) -> String {
    let name = format!("{}{tool}", server.prefix());
    let replies = vec![Script::calls([("a", &*name, json!({}))]), Script::text("Done.")];
    let mut harness = session(server, replies).await;
    harness.handle.prompt("go").await.unwrap();
    for answer in answers {
        harness.until(|event| matches!(event, AgentEvent::ExternalAction(_))).await;
        let answer = Decision::Provide(Provided::Input(answer.clone()));
        harness.resolve(0, answer).await.unwrap();
        harness.handle.wait_for_idle().await;
    }
    harness.check().await;
    text(&results(&harness).await[0])
}

async fn works(server: McpServer) {
    let calls = [
        ("add", json!({ "a": 2, "b": 3 })),
        ("resources_read", json!({ "uri": "memo://poem" })),
        ("prompts_get", json!({ "name": "greet", "arguments": { "name": "Ann" } })),
    ];
    let results = call(&server, &calls).await;
    assert_eq!(text(&results[0]), "5");
    assert!(text(&results[1]).contains("Nine sheep."), "{results:?}");
    assert!(text(&results[2]).contains("Greet Ann."), "{results:?}");

    // A form with a single text is answered with the text.
    let answers = [json!("Ann"), json!({ "cups": 2 })];
    assert_eq!(answered(&server, "order", &answers).await, "2 cups for Ann.");
    let looked = answered(&server, "look", &[json!("Allow")]).await;
    assert_eq!(looked, "file:///srv/here: Sheep.");

    a_call_is_cancelled(&server).await;
    a_change_is_announced(&server).await;
}

/// The progress of a call is an event, and aborting a call ends it on the server, too.
async fn a_call_is_cancelled(server: &McpServer) {
    let replies = vec![Script::calls([("a", "modern__wait", json!({}))]), Script::text("Done.")];
    let mut harness = session(server, replies).await;
    let handle = harness.handle.clone();
    let run = tokio::spawn(async move { handle.prompt("go").await });
    harness.until(|event| matches!(event, AgentEvent::ToolExecutionUpdate { .. })).await;
    harness.handle.abort().await.unwrap();
    tokio::time::timeout(Duration::from_secs(60), run).await.unwrap().unwrap().unwrap();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    while text(&call(server, &[("cancelled", json!({}))]).await[0]) != "1" {
        assert!(tokio::time::Instant::now() < deadline, "the server was not told");
    }
}

/// A tool that the server changes during a run is not called before the next run has listed it.
async fn a_change_is_announced(server: &McpServer) {
    let calls = [("a", "paint", json!({})), ("b", "add", json!({ "a": 1, "b": 1 }))];
    let calls = [&calls[..], &[("c", "leaf", json!({}))]].concat();
    let batches = calls.into_iter().map(|(id, tool, arguments)| {
        Script::calls([(id, &*format!("{}{tool}", server.prefix()), arguments)])
    });
    let harness = session(server, batches.chain([Script::text("Done.")]).collect()).await;
    harness.handle.prompt("go").await.unwrap();
    let (status, why) = &results(&harness).await[2];
    assert_eq!(*status, ResultStatus::Error);
    let is_refused = |item: &Content| match item {
        Content::Text { text } => text.contains("has changed or removed this tool"),
        _ => false,
    };
    assert!(why.iter().any(is_refused), "{why:?}");
    assert_eq!(text(&call(server, &[("leaf", json!({}))]).await[0]), "Rustle.");
}
