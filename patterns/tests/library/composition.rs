//! Patterns around patterns around patterns.

use loopwright_core::pattern::Profile;
use loopwright_core::testing::{Harness, Script};
use loopwright_patterns::{Clarify, Handoff, PiPattern, PlanExecute, PlanFirst, Reflect, Route};
use serde_json::json;

use crate::kit::{assert_conforms, scenario, scenarios};
use crate::values::value;

#[tokio::test(start_paused = true)]
async fn a_judge_checks_what_comes_of_a_plan() {
    let plan = |steps: &[&str]| json!({ "steps": steps }).to_string();
    let verdict = |is_good: bool| json!({ "is_good": is_good, "reason": "No price." }).to_string();
    let replies = [
        &*plan(&["Look it up."]),
        "It is a lamp.",
        &*plan(&[]),
        "A lamp.",
        &*verdict(false),
        "A lamp, 30 €.",
        &*verdict(true),
    ];
    let pattern = Reflect::new("It has a price.", PlanExecute::new(PiPattern));
    let harness = Harness::new(pattern, replies.map(Script::text), |agent| agent).await;
    assert_eq!(harness.handle.prompt("What is it?").await.unwrap().text, "A lamp, 30 €.");
    let expected = [
        "U:What is it?",
        "U:Now do this step: Look it up.",
        "A:It is a lamp./Stop",
        "U:Answer the request with what came of it.",
        "A:A lamp./Stop",
        "U:The answer is not good enough yet: No price. Improve it.",
        "A:A lamp, 30 €./Stop",
    ];
    assert_eq!(harness.transcript().await, expected);
    harness.check().await;
}

/// C195: Wrappers around wrappers conform.
#[tokio::test(start_paused = true)]
async fn a_judge_around_a_plan_conforms() {
    let pattern = || Reflect::new("It is long.", PlanExecute::new(PiPattern));
    let own =
        scenario("two requests with calls", value).request("Please look.").request("Please pay.");
    let chosen = ["an approval", "a steer", "a steer that interrupts", "follow-ups"];
    let all = scenarios(value).into_iter().filter(|scenario| chosen.contains(&scenario.name()));
    assert_conforms(pattern, all.chain([own]).collect()).await;
}

/// C194: A wrapper has the tools of what it wraps, however deep.
#[tokio::test(start_paused = true)]
async fn tools_of_an_inner_pattern_reach_the_agent_through_its_wrappers() {
    let desk = Handoff::new(PiPattern).role("desk", "First.", Profile::new());
    let pattern = Clarify::new(PlanFirst::new(Route::new(Reflect::new("", desk)))).rounds(0);
    let replies = [r#"{"route": "x"}"#, "Hello."].map(Script::text);
    let harness = Harness::new(pattern, replies, |agent| agent).await;
    harness.handle.prompt("Hello.").await.unwrap();
    let requests = harness.model.requests();
    assert!(requests[1].tools.iter().any(|tool| &*tool.name == "hand_over"));
}
