//! Specification of the client: one test per sentence, against a server that does what the test
//! wants.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may")]

mod approvals;
#[cfg(feature = "oauth")]
mod authorization;
mod fake;
mod frames;
mod hostile;
mod http;
mod questions;
mod search;
mod served_calls;
mod served_frames;

use loopwright_core::agent::AgentBuilder;
use loopwright_core::event::AgentEvent;
use loopwright_core::message::ResultStatus;
use loopwright_core::testing::{Harness, Script};
use loopwright_mcp::McpServer;
use loopwright_patterns::PiPattern;
use serde_json::{Value, json};

use self::fake::{Fake, tool};

/// Returns the script of a model that calls these tools one after the other, and then answers.
fn calls(names: &[&str]) -> Vec<Script> {
    let id = |at: usize| format!("c{at}");
    let scripts = names
        .iter()
        .enumerate()
        .map(|(at, name)| Script::calls([(id(at).as_str(), *name, json!({ "at": at }))]));
    scripts.chain([Script::text("Done.")]).collect()
}

async fn session(
    client: &McpServer,
    replies: Vec<Script>,
    options: impl FnOnce(AgentBuilder) -> AgentBuilder,
) -> Harness {
    let source = client.clone();
    let prefix = client.prefix();
    Harness::new(PiPattern, replies, |agent| options(agent.tool_source(prefix, source))).await
}

/// Returns the statuses and texts of all results.
async fn results(harness: &Harness) -> Vec<(ResultStatus, String)> {
    let state = harness.handle.state().await.unwrap();
    let results = state.messages.iter().filter_map(|message| {
        let result = message.as_tool_result()?;
        Some((result.status, message.text()))
    });
    results.collect()
}

/// Waits until an action is pending.
async fn until_asked(harness: &mut Harness) {
    harness.until(|event| matches!(event, AgentEvent::ExternalAction(_))).await;
}

/// Returns the names of the tools that a request offered to the model.
fn offered(harness: &Harness, request: usize) -> Vec<String> {
    let requests = harness.model.requests();
    let tools = requests[request].tools.iter();
    tools.map(|spec| spec.name.to_string()).collect()
}

/// The tools of a server are listed at the start of each run, with the server's name as a prefix.
#[tokio::test(start_paused = true)]
async fn tools_are_listed_at_each_start() {
    let fake = Fake::new(&[("echo", "Echoes."), ("a b", "Odd.")]);
    let client = fake.client();
    let replies = vec![Script::text("1"), Script::text("2")];
    let harness = session(&client, replies, |agent| agent).await;
    harness.handle.prompt("go").await.unwrap();
    fake.set_tools(vec![tool("other", "Other.")]);
    harness.handle.prompt("go").await.unwrap();
    let first = offered(&harness, 0);
    assert_eq!(first.len(), 2);
    assert!(first[0].starts_with("fake__a_b_") && first[1] == "fake__echo", "{first:?}");
    assert_eq!(offered(&harness, 1), ["fake__other"]);
    assert_eq!(fake.starts(), 1);
    assert_eq!(client.status().await.tools, ["other"]);
}

/// A call is sent with the model's arguments, and its result is the server's text.
#[tokio::test(start_paused = true)]
async fn a_call_is_sent_and_its_result_returned() {
    let fake = Fake::new(&[("echo", "Echoes.")]).on_call(|request, peer| {
        peer.text(&request, &request["params"]["arguments"].to_string());
    });
    let client = fake.client();
    let harness = session(&client, calls(&["fake__echo"]), |agent| agent.approve_all()).await;
    harness.handle.prompt("go").await.unwrap();
    assert_eq!(results(&harness).await, [(ResultStatus::Ok, r#"{"at":0}"#.into())]);
    harness.check().await;
}

/// Progress of a server is reported as progress of the call.
#[tokio::test(start_paused = true)]
async fn progress_is_reported() {
    let fake = Fake::new(&[("slow", "Is slow.")]).on_call(|request, peer| {
        let token = &request["params"]["_meta"]["progressToken"];
        for done in 1..4 {
            let params =
                json!({ "progressToken": token, "progress": done, "total": 3, "message": "…" });
            peer.send(json!({ "method": "notifications/progress", "params": params }));
        }
        let (request, peer) = (request.clone(), peer.clone());
        tokio::spawn(async move {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            peer.text(&request, "done");
        });
    });
    let client = fake.client();
    let mut harness = session(&client, calls(&["fake__slow"]), |agent| agent.approve_all()).await;
    harness.handle.prompt("go").await.unwrap();
    let events = harness.drain_events();
    let mut progress = events.iter().filter_map(|event| match &event.event {
        AgentEvent::ToolExecutionUpdate { update, .. } => serde_json::to_value(update).ok(),
        _ => None,
    });
    let last: Option<Value> = progress.next_back();
    let last = last.unwrap();
    assert_eq!((&last["progress"]["done"], &last["progress"]["total"]), (&json!(3), &json!(3)));
}

/// An aborted run cancels the call at the server.
#[tokio::test(start_paused = true)]
async fn an_abort_cancels_the_call() {
    let fake = Fake::new(&[("hang", "Hangs.")]).on_call(|_, _| {});
    let client = fake.client();
    let mut harness = session(&client, calls(&["fake__hang"]), |agent| agent.approve_all()).await;
    let handle = harness.handle.clone();
    let run = tokio::spawn(async move { handle.prompt("go").await });
    harness.until(|event| matches!(event, AgentEvent::ToolExecutionStart { .. })).await;
    while fake.received("tools/call").is_empty() {
        tokio::task::yield_now().await;
    }
    harness.handle.abort().await.unwrap();
    run.await.unwrap().unwrap();
    while fake.received("notifications/cancelled").is_empty() {
        tokio::task::yield_now().await;
    }
    let call = &fake.received("tools/call")[0];
    let cancelled = &fake.received("notifications/cancelled")[0];
    assert_eq!(cancelled["params"]["requestId"], call["id"]);
}

/// C349: A server that dies during a call causes an error result, and is started again for the next
/// call.
#[tokio::test(start_paused = true)]
async fn a_server_that_dies_is_restarted() {
    let fake = Fake::new(&[("die", "Dies."), ("live", "Lives.")]).on_call(|request, peer| {
        match request["params"]["name"].as_str() {
            Some("die") => peer.die(),
            _ => peer.text(&request, "alive"),
        }
    });
    let client = fake.client();
    let replies = [calls(&["fake__die"]), calls(&["fake__live"])].concat();
    let harness = session(&client, replies, |agent| agent.approve_all()).await;
    harness.handle.prompt("go").await.unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(120)).await;
    harness.handle.prompt("go").await.unwrap();
    let results = results(&harness).await;
    assert_eq!(results[0].0, ResultStatus::Error);
    assert!(results[0].1.contains("ended during the call"), "{results:?}");
    assert_eq!(results[1], (ResultStatus::Ok, "alive".into()));
    assert_eq!(fake.starts(), 2);
}

/// A server without tools, resources and prompts adds none.
#[tokio::test(start_paused = true)]
async fn a_server_without_tools_has_none() {
    let fake = Fake::new(&[]);
    let client = fake.client();
    let harness = session(&client, vec![Script::text("1")], |agent| agent).await;
    harness.handle.prompt("go").await.unwrap();
    assert_eq!(offered(&harness, 0), [""; 0]);
    assert!(client.status().await.is_connected);
}
