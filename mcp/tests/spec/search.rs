//! Many tools.

use loopwright_core::message::ResultStatus;
use loopwright_core::testing::{Harness, Script};
use loopwright_mcp::ToolSearch;
use loopwright_patterns::PiPattern;
use serde_json::json;

use super::fake::{Fake, tool};
use super::{offered, results};

fn fake(count: usize) -> Fake {
    let fake = Fake::default();
    let about = |n| format!("Does number {n}.");
    fake.set_tools((0..count).map(|n| tool(&format!("t{n}"), &about(n))).collect());
    fake
}

/// C356: Of hundreds of tools, a request only contains tools that the model has searched for. The
/// model can then call them.
#[tokio::test(start_paused = true)]
async fn many_tools_are_searched() {
    let client = fake(300).client();
    let replies = [
        Script::calls([("a", "fake__t123", json!({}))]),
        Script::calls([("b", "tool_search", json!({ "query": "NUMBER t123" }))]),
        Script::calls([("c", "fake__t123", json!({}))]),
        Script::text("Done."),
    ];
    let harness = Harness::new(PiPattern, replies, |agent| {
        ToolSearch::new([client]).add_to(agent).approve_all()
    })
    .await;
    harness.handle.prompt("go").await.unwrap();
    assert_eq!(offered(&harness, 0), ["tool_search"]);
    let found = offered(&harness, 2);
    assert!(found.len() == 11 && found.contains(&"fake__t123".into()), "{found:?}");
    let results = results(&harness).await;
    assert_eq!(results[0].0, ResultStatus::Error);
    assert!(results[1].1.starts_with("fake__t123: Does number 123."), "{results:?}");
    assert_eq!(results[2], (ResultStatus::Ok, "done".into()));
    harness.check().await;
}

/// Few tools are all offered, without a search.
#[tokio::test(start_paused = true)]
async fn few_tools_are_not_searched() {
    let client = fake(2).client();
    let harness = Harness::new(PiPattern, [Script::text("1")], |agent| {
        ToolSearch::new([client]).add_to(agent)
    })
    .await;
    harness.handle.prompt("go").await.unwrap();
    assert_eq!(offered(&harness, 0), ["fake__t0", "fake__t1"]);
}
