//! The reference servers of the protocol, which `.ci/clients/install` installs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may")]

mod modern;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use loopwright_core::event::{AgentEvent, Decision, Provided};
use loopwright_core::message::{Content, MessageKind, ResultStatus};
use loopwright_core::testing::{Harness, Script, ScriptedModel};
use loopwright_mcp::{McpServer, ServerBuilder, ServerConfig};
use loopwright_patterns::PiPattern;
use loopwright_test_support::clients::clients;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// Returns the path of a server that `.ci/clients/install` has installed.
fn program(package: &str) -> PathBuf {
    clients().join("node_modules/@modelcontextprotocol").join(package).join("dist/index.js")
}

fn config(package: &str, arguments: &[&str]) -> ServerConfig {
    let program = program(package);
    let args: Vec<&str> =
        std::iter::once(program.to_str().unwrap()).chain(arguments.iter().copied()).collect();
    let settings = json!({ "command": "node", "args": args });
    ServerConfig::read(package.trim_start_matches("server-"), &settings).unwrap()
}

async fn session(server: &McpServer, replies: Vec<Script>) -> Harness {
    let (prefix, source) = (server.prefix(), server.clone());
    Harness::new(PiPattern, replies, |agent| agent.tool_source(prefix, source).approve_all()).await
}

/// Calls tools in one batch, and returns the results.
async fn call(server: &McpServer, calls: &[(&str, Value)]) -> Vec<(ResultStatus, Vec<Content>)> {
    let prefix = server.prefix();
    let names: Vec<String> = calls.iter().map(|(name, _)| format!("{prefix}{name}")).collect();
    let ids: Vec<String> = (0..calls.len()).map(|n| format!("c{n}")).collect();
    let batch = calls.iter().enumerate();
    let batch = batch.map(|(n, (_, arguments))| (&*ids[n], &*names[n], arguments.clone()));
    let harness = session(server, vec![Script::calls(batch), Script::text("Done.")]).await;
    harness.handle.prompt("go").await.unwrap();
    harness.check().await;
    results(&harness).await
}

/// Returns the results of a session's calls.
async fn results(harness: &Harness) -> Vec<(ResultStatus, Vec<Content>)> {
    let state = harness.handle.state().await.unwrap();
    let results = state.messages.iter().filter_map(|message| match &message.body {
        MessageKind::ToolResult(result) => Some((result.status, result.content.clone())),
        _ => None,
    });
    results.collect()
}

fn text((status, content): &(ResultStatus, Vec<Content>)) -> String {
    assert_eq!(*status, ResultStatus::Ok, "{content:?}");
    let texts = content.iter().filter_map(|item| match item {
        Content::Text { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// A client that waits for the server, however busy the machine is.
fn builder(config: ServerConfig) -> ServerBuilder {
    McpServer::builder(config).start_wait(Duration::from_secs(60))
}

/// C355: The reference server `everything` works over stdio: text, images, structured content,
/// links, annotations, resources, prompts and roots.
#[tokio::test]
async fn everything_over_stdio() {
    everything(builder(config("server-everything", &["stdio"]))).await;
}

/// C355: The reference server `everything` works over streamable HTTP.
#[tokio::test]
async fn everything_over_streamable_http() {
    let (url, _child) = serve_everything().await;
    let config = ServerConfig::read("everything", &json!({ "url": url })).unwrap();
    everything(builder(config)).await;
}

/// Starts the server on a free port and returns its address.
async fn serve_everything() -> (String, Child) {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut child = Command::new("node")
        .arg(program("server-everything"))
        .arg("streamableHttp")
        .env("PORT", port.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        if line.contains("listening on port") {
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            return (format!("http://127.0.0.1:{port}/mcp"), child);
        }
    }
    panic!("the server has not started");
}

async fn everything(builder: loopwright_mcp::ServerBuilder) {
    let server = builder.root(Path::new("/srv/here")).build();
    let results = call(
        &server,
        &[
            ("echo", json!({ "message": "Hello" })),
            ("get-sum", json!({ "a": 2, "b": 3 })),
            ("get-tiny-image", json!({})),
            ("get-structured-content", json!({ "location": "Chicago" })),
            ("get-resource-links", json!({ "count": 3 })),
            ("get-roots-list", json!({})),
            ("resources_list", json!({})),
            ("prompts_list", json!({})),
            ("prompts_get", json!({ "name": "args-prompt", "arguments": { "city": "Rome" } })),
        ],
    )
    .await;
    assert_eq!(text(&results[0]), "Echo: Hello");
    assert!(text(&results[1]).contains('5'));
    let is_png = |item: &Content| match item {
        Content::Image { media_type, .. } => media_type == "image/png",
        _ => false,
    };
    assert!(results[2].1.iter().any(is_png), "{results:?}");
    assert!(text(&results[3]).contains("temperature"));
    assert!(text(&results[4]).contains("[Resource "));
    assert!(text(&results[5]).contains("file:///srv/here"), "{}", text(&results[5]));
    let resources = text(&results[6]);
    assert!(text(&results[7]).contains("args-prompt(city"), "{}", text(&results[7]));
    assert!(text(&results[8]).contains("Rome"));
    let uri = resources.split(' ').next().unwrap().to_owned();
    let read = call(&server, &[("resources_read", json!({ "uri": uri }))]).await;
    assert!(!text(&read[0]).is_empty());
    let status = server.status().await;
    assert!(status.is_connected && status.tools.len() > 9, "{status:?}");
}

/// Progress of the reference server is reported, and an aborted call ends at once.
#[tokio::test]
async fn progress_and_cancellation() {
    let server = builder(config("server-everything", &["stdio"])).build();
    let name = "everything__trigger-long-running-operation";
    let operation = |seconds: u32| json!({ "duration": seconds, "steps": seconds * 10 });
    let replies = vec![
        Script::calls([("a", name, operation(1))]),
        Script::text("Done."),
        Script::calls([("b", name, operation(600))]),
        Script::text("Done."),
    ];
    let mut harness = session(&server, replies).await;
    harness.handle.prompt("go").await.unwrap();
    let events = harness.drain_events();
    let updates =
        events.iter().filter(|e| matches!(e.event, AgentEvent::ToolExecutionUpdate { .. }));
    assert!(updates.count() >= 3);
    let handle = harness.handle.clone();
    let run = tokio::spawn(async move { handle.prompt("go").await });
    harness.until(|event| matches!(event, AgentEvent::ToolExecutionUpdate { .. })).await;
    harness.handle.abort().await.unwrap();
    tokio::time::timeout(Duration::from_secs(60), run).await.unwrap().unwrap().unwrap();
    assert!(server.status().await.is_connected);
}

/// Elicitation and sampling of the reference server become questions.
#[tokio::test]
async fn elicitation_and_sampling() {
    let model = ScriptedModel::new([Script::text("Sampled.")]);
    let server = builder(config("server-everything", &["stdio"])).sampling(Arc::new(model)).build();
    for (tool, arguments, answer, expected) in [
        (
            "everything__trigger-elicitation-request",
            json!({}),
            json!({ "name": "Ann", "check": true }),
            "Ann",
        ),
        (
            "everything__trigger-sampling-request",
            json!({ "prompt": "Hello", "maxTokens": 10 }),
            json!("Allow"),
            "Sampled.",
        ),
    ] {
        let replies = vec![Script::calls([("a", tool, arguments)]), Script::text("Done.")];
        let mut harness = session(&server, replies).await;
        harness.handle.prompt("go").await.unwrap();
        harness.until(|event| matches!(event, AgentEvent::ExternalAction(_))).await;
        harness.resolve(0, Decision::Provide(Provided::Input(answer))).await.unwrap();
        harness.handle.wait_for_idle().await;
        let state = harness.handle.state().await.unwrap();
        let result = state.messages.iter().find(|m| m.as_tool_result().is_some()).unwrap();
        assert!(result.text().contains(expected), "{}", result.text());
        harness.check().await;
    }
}

/// C355: The reference server `filesystem` reads and writes its directory, and refuses others.
#[tokio::test]
async fn filesystem() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    let root = root.to_str().unwrap();
    let server = builder(config("server-filesystem", &[root])).build();
    let path = format!("{root}/a.txt");
    let write = call(&server, &[("write_file", json!({ "path": path, "content": "Hello" }))]).await;
    assert!(text(&write[0]).contains("Successfully"));
    let read = call(
        &server,
        &[
            ("read_text_file", json!({ "path": path })),
            ("read_text_file", json!({ "path": "/etc/passwd" })),
        ],
    )
    .await;
    assert!(text(&read[0]).contains("Hello"));
    assert_eq!(read[1].0, ResultStatus::Error);
}

/// C355: The reference server `memory` stores entities and finds them.
#[tokio::test]
async fn memory() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("memory.json");
    let program = program("server-memory");
    let set = format!("MEMORY_FILE_PATH={}", file.display());
    let settings = json!({ "command": "env", "args": [set, "node", program] });
    let server = builder(ServerConfig::read("memory", &settings).unwrap()).build();
    let ann = json!({ "name": "Ann", "entityType": "person", "observations": ["likes tea"] });
    call(&server, &[("create_entities", json!({ "entities": [ann] }))]).await;
    let found = call(&server, &[("search_nodes", json!({ "query": "tea" }))]).await;
    assert!(text(&found[0]).contains("Ann"));
    assert!(file.is_file());
}
