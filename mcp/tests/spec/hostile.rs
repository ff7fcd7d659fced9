//! Servers that hang, flood and lie.

use std::time::Duration;

use loopwright_core::message::ResultStatus;
use loopwright_core::testing::Script;
use serde_json::json;

use super::fake::{Fake, tool};
use super::{calls, offered, results, session};

/// C353: A server that never answers delays a run, but does not end it, and is not started again at
/// once.
#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_has_no_tools() {
    let fake = Fake::new(&[("a", "A.")]).silent();
    let client = fake.client();
    let replies = vec![Script::text("1"), Script::text("2")];
    let harness = session(&client, replies, |agent| agent).await;
    assert_eq!(harness.handle.prompt("go").await.unwrap().text, "1");
    assert_eq!(harness.handle.prompt("go").await.unwrap().text, "2");
    let status = client.status().await;
    assert!(!status.is_connected && status.failure.unwrap().contains("has not answered"));
    assert_eq!(fake.starts(), 1);
}

/// C353: A call that hangs ends at its time limit, and is cancelled.
#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_ends_at_its_time_limit() {
    let fake = Fake::new(&[("hang", "Hangs.")]).on_call(|_, _| {});
    let client = fake.client();
    let harness = session(&client, calls(&["fake__hang"]), |agent| agent.auto_all()).await;
    harness.handle.prompt("go").await.unwrap();
    let results = results(&harness).await;
    assert_ne!(results[0].0, ResultStatus::Ok);
    while fake.received("notifications/cancelled").is_empty() {
        tokio::task::yield_now().await;
    }
}

/// C353: A flood of notifications, lines that are no messages and lines without end leave the
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
    let harness = session(&client, calls(&["fake__flood"]), |agent| agent.auto_all()).await;
    harness.handle.prompt("go").await.unwrap();
    let results = results(&harness).await;
    assert_eq!(results[0].0, ResultStatus::Ok);
    assert!(results[0].1.len() < 70_000, "the engine cuts a long result");
}

/// C354: A tool whose schema is none, whose name is taken or which is too large is left out; the
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

/// A server that lists tools without end is cut off.
#[tokio::test(start_paused = true)]
async fn an_endless_list_is_cut_off() {
    let fake = Fake::default();
    fake.set_tools((0..1_500).map(|n| tool(&format!("t{n}"), "T.")).collect());
    let client = fake.client();
    let harness = session(&client, vec![Script::text("1")], |agent| agent).await;
    harness.handle.prompt("go").await.unwrap();
    assert_eq!(offered(&harness, 0).len(), 1_000);
}

/// A server that sends requests outside of a call gets no user's attention.
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
