//! Servers that hang, flood and lie.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use loopwright_core::event::{Decision, InputEvent};
use loopwright_core::message::ResultStatus;
use loopwright_core::testing::{Harness, Script};
use loopwright_core::tool::ToolSource;
use loopwright_core::{Tool, ToolError, tool_with};
use loopwright_mcp::{McpServer, ProcessLimit};
use loopwright_patterns::PiPattern;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::fake::{Fake, tool};
use super::{calls, offered, results, session};

/// C353: A server that never answers does not end a run, and is not started again at once.
#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_has_no_tools() {
    let fake = Fake::new(&[("a", "A.")]).silent();
    let client = fake.client();
    let replies = vec![Script::text("1"), Script::text("2"), Script::text("3")];
    let harness = session(&client, replies, |agent| agent).await;
    assert_eq!(harness.handle.prompt("go").await.unwrap().text, "1");
    assert!(client.status().await.is_starting);
    client.ready().await;
    assert_eq!(harness.handle.prompt("go").await.unwrap().text, "2");
    let status = client.status().await;
    assert!(!status.is_connected && status.failure.unwrap().contains("has not answered"));
    assert_eq!(fake.starts(), 1);
}

/// C420: A server that takes long to start delays a run by at most two seconds, and the next run
/// less. Its tools are offered with the first request after it is ready, even in the same run.
#[tokio::test(start_paused = true)]
async fn tools_of_a_slow_server_come_when_they_are_ready() {
    let fake = Fake::new(&[("a", "A.")]).slow(Duration::from_secs(5));
    let client = fake.client();
    let wait = Script::calls([("w", "wait", json!({}))]);
    let replies = vec![Script::text("1"), Script::text("2"), wait, Script::text("3")];
    let waits = async |source: McpServer, _: Map<String, Value>, _| {
        source.ready().await;
        Ok::<_, ToolError>(String::new())
    };
    let waits = tool_with(client.clone(), "wait", "Waits.", waits);
    let harness = session(&client, replies, |agent| agent.tool(waits).approve_all()).await;
    for (request, max_millis) in [(0, 2_100), (1, 400)] {
        let start = Instant::now();
        harness.handle.prompt("go").await.unwrap();
        assert!(start.elapsed() <= Duration::from_millis(max_millis), "{:?}", start.elapsed());
        assert_eq!(offered(&harness, request), ["wait"]);
    }
    harness.handle.prompt("go").await.unwrap();
    assert_eq!((offered(&harness, 2).len(), offered(&harness, 3).len()), (1, 2));
    assert_eq!((fake.starts(), client.status().await.tools), (1, vec!["a".to_owned()]));
    harness.check().await;
}

/// The server of the current process.
#[derive(Clone)]
struct Current(Arc<Mutex<McpServer>>);

#[async_trait]
impl ToolSource for Current {
    async fn tools(&self) -> Result<Vec<Arc<dyn Tool>>, ToolError> {
        let server = self.0.lock().unwrap().clone();
        server.tools().await
    }

    async fn ready(&self) {
        let server = self.0.lock().unwrap().clone();
        server.ready().await
    }
}

/// C421: An approved call waits for its server, which has not started again.
#[tokio::test(start_paused = true)]
async fn an_approved_call_waits_for_its_server() {
    let fake = Fake::new(&[("a", "A.")]);
    let current = Current(Arc::new(Mutex::new(fake.client())));
    let source = current.clone();
    let replies = calls(&["fake__a"]);
    let harness =
        Harness::new(PiPattern, replies, |agent| agent.tool_source("fake__", source)).await;
    harness.handle.prompt("go").await.unwrap();
    assert_eq!(harness.pending().await.len(), 1);
    *current.0.lock().unwrap() = fake.slow(Duration::from_secs(5)).client();
    let restarted = harness.restart().await;
    restarted.resolve(0, Decision::Approve).await.unwrap();
    restarted.handle.wait_for_idle().await;
    assert_eq!(results(&restarted).await, [(ResultStatus::Ok, "done".into())]);
}

/// C353: A call that hangs is cancelled at its time limit.
#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_ends_at_its_time_limit() {
    let fake = Fake::new(&[("hang", "Hangs.")]).on_call(|_, _| {});
    let client = fake.client();
    let harness = session(&client, calls(&["fake__hang"]), |agent| agent.approve_all()).await;
    harness.handle.prompt("go").await.unwrap();
    let results = results(&harness).await;
    assert_ne!(results[0].0, ResultStatus::Ok);
    while fake.received("notifications/cancelled").is_empty() {
        tokio::task::yield_now().await;
    }
}

/// C353: Floods of notifications, lines that are not messages and lines without end leave the
/// connection usable.
#[tokio::test]
async fn a_flood_does_not_break_the_connection() {
    let fake = Fake::new(&[("flood", "Floods.")]).on_call(|request, peer| {
        let token = &request["params"]["_meta"]["progressToken"];
        for n in 0..2_000 {
            let params = json!({ "progressToken": token, "progress": n });
            peer.send(json!({ "method": "notifications/progress", "params": params }));
            peer.send(json!({ "method": "notifications/tools/list_changed" }));
            peer.line("{not json");
        }
        peer.line("x".repeat(20 << 20));
        peer.text(&request, &"y".repeat(1 << 20));
    });
    let client = fake.client();
    let harness = session(&client, calls(&["fake__flood"]), |agent| agent.approve_all()).await;
    harness.handle.prompt("go").await.unwrap();
    let results = results(&harness).await;
    assert_eq!(results[0].0, ResultStatus::Ok);
    assert!(results[0].1.len() < 70_000, "the engine cuts a long result");
}

/// C354: A tool is left out if its schema is invalid, its name is taken, or it is too large. The
/// others are offered.
#[tokio::test(start_paused = true)]
async fn false_tools_are_left_out() {
    let mut names = (0..).map(|n| format!("bad{n}"));
    let mut schema = |schema| json!({ "name": names.next(), "inputSchema": schema });
    let fake = Fake::default();
    let mut first = tool("good", "The first.");
    first["inputSchema"] = json!({ "type": "object", "properties": { "a": true } });
    fake.set_tools(vec![
        schema(json!({ "type": "array" })),
        schema(json!({ "properties": { "a": { "type": 7 } } })),
        schema(json!({ "properties": { "a": { "$ref": "http://a/b" } } })),
        schema(json!({ "description": "y".repeat(100_000) })),
        first,
        tool("good", "The second."),
    ]);
    let client = fake.client();
    let harness = session(&client, vec![Script::text("1")], |agent| agent).await;
    harness.handle.prompt("go").await.unwrap();
    assert_eq!(offered(&harness, 0), ["fake__good"]);
    let requests = harness.model.requests();
    assert_eq!(requests[0].tools.iter().next().unwrap().description, "The first.");
}

/// An endless list of tools is cut off.
#[tokio::test(start_paused = true)]
async fn an_endless_list_is_cut_off() {
    let fake = Fake::default();
    fake.set_tools((0..1_500).map(|n| tool(&format!("t{n}"), "T.")).collect());
    let client = fake.client();
    let harness = session(&client, vec![Script::text("1")], |agent| agent).await;
    harness.handle.prompt("go").await.unwrap();
    assert_eq!(offered(&harness, 0).len(), 1_000);
}

/// Requests of a server outside of a call do not reach the user.
#[tokio::test(start_paused = true)]
async fn requests_outside_of_a_call_are_refused() {
    let fake = Fake::new(&[("a", "A.")]);
    let client = fake.client();
    let harness = session(&client, vec![Script::text("1")], |agent| agent).await;
    harness.handle.prompt("go").await.unwrap();
    let schema = json!({ "type": "object", "properties": {} });
    let params = json!({ "mode": "form", "message": "Password?", "requestedSchema": schema });
    fake.peer().send(json!({ "id": 7, "method": "elicitation/create", "params": params }));
    let answer = loop {
        if let Some(answer) = fake.answer(7) {
            break answer;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    };
    assert_eq!(answer["result"]["action"], "cancel");
}

/// C424: If too many commands run, the command that was idle for the longest time is ended, and
/// started again when needed. A command in a call is not ended.
#[tokio::test(start_paused = true)]
async fn commands_are_bounded() {
    let limit = ProcessLimit::new(3, 2);
    let mut fakes = Vec::new();
    for (owner, calls_it) in [("ann", false), ("ann", false), ("ann", false), ("bob", true)] {
        let fake = Fake::new(&[("a", "A.")]).on_call(|_, _| {});
        let client = fake.builder().process_limit(limit.clone(), Some(owner)).build();
        let replies = if calls_it { calls(&["fake__a"]) } else { vec![Script::text("1")] };
        let replies = [replies, vec![Script::text("2")]].concat();
        let harness = session(&client, replies, |agent| agent.approve_all()).await;
        let sent = harness.handle.send(InputEvent::UserRequest("go".into())).await;
        sent.unwrap();
        match calls_it {
            true => {
                while fake.received("tools/call").is_empty() {
                    tokio::task::yield_now().await;
                }
            }
            false => harness.handle.wait_for_idle().await,
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        fakes.push((fake, client, harness));
    }
    let mut connected = Vec::new();
    for (_, client, _) in &fakes {
        connected.push(client.status().await.is_connected);
    }
    assert_eq!(connected, [false, true, true, true]);
    fakes[0].2.handle.prompt("go").await.unwrap();
    assert_eq!(offered(&fakes[0].2, 1), ["fake__a"]);
    assert_eq!(fakes[0].0.starts(), 2);
    assert!(!fakes[1].1.status().await.is_connected && fakes[3].1.status().await.is_connected);

    let busy = ProcessLimit::new(1, 1);
    let fake = Fake::new(&[("a", "A.")]).on_call(|_, _| {});
    let client = fake.builder().process_limit(busy.clone(), None).build();
    let harness = session(&client, calls(&["fake__a"]), |agent| agent.approve_all()).await;
    harness.handle.send(InputEvent::UserRequest("go".into())).await.unwrap();
    while fake.received("tools/call").is_empty() {
        tokio::task::yield_now().await;
    }
    let other = fake.builder().process_limit(busy, None).build();
    let second = session(&other, vec![Script::text("1")], |agent| agent).await;
    second.handle.prompt("go").await.unwrap();
    assert!(other.status().await.failure.unwrap().contains("too many MCP servers"));
}
