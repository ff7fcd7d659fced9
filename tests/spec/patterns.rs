//! Differences between the built-in patterns.

use loopwright_patterns::{GenericPattern, PiPattern};

use crate::kit::*;

/// Runs a pattern through two rounds of tools. Two follow-ups and a steer arrive during the first.
async fn transcript(pattern: impl BehaviorPattern + 'static) -> Vec<String> {
    let tool = TestTool::new("x").takes(ms(100));
    let replies =
        [calls(&["x"]), calls(&["x"]), Script::text("1"), Script::text("2"), Script::text("3")];
    let mut harness = Harness::new(pattern, replies, |agent| agent.tool(tool).approve_all()).await;
    send(&harness, "go").await;
    harness.until(starts).await;
    harness.handle.follow_up("first").await.unwrap();
    harness.handle.steer(Prompt::from("now").urgency(Urgency::AfterTurn)).await.unwrap();
    harness.handle.follow_up("second").await.unwrap();
    assert_eq!(end_of(&harness.run_end().await), RunStatus::Done);
    harness.check().await;
    harness.transcript().await
}

/// C22
#[tokio::test(start_paused = true)]
async fn generic_pattern_delivers_every_message_before_its_next_request() {
    assert_eq!(
        transcript(GenericPattern).await,
        [
            "U:go",
            "A:[a]/ToolCalls",
            "R:a/Ok",
            "U:first",
            "U:now",
            "U:second",
            "A:[a_2]/ToolCalls",
            "R:a_2/Ok",
            "A:1/Stop"
        ]
    );
}

/// C22
#[tokio::test(start_paused = true)]
async fn pi_pattern_delivers_steers_at_once_and_follow_ups_when_it_would_stop() {
    assert_eq!(
        transcript(PiPattern).await,
        [
            "U:go",
            "A:[a]/ToolCalls",
            "R:a/Ok",
            "U:now",
            "A:[a_2]/ToolCalls",
            "R:a_2/Ok",
            "A:1/Stop",
            "U:first",
            "A:2/Stop",
            "U:second",
            "A:3/Stop"
        ]
    );
}
