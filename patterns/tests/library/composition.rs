//! Patterns around patterns around patterns.

use loopwright_core::event::{Decision, Provided};
use loopwright_core::session::Profile;
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
    assert_conforms(pattern, scenarios(value).into_iter().chain([own]).collect()).await;
}

/// C194: A wrapper has the tools of the pattern that it wraps, at any depth.
#[tokio::test(start_paused = true)]
async fn tools_of_an_inner_pattern_reach_the_agent_through_its_wrappers() {
    let desk = Handoff::new(PiPattern).role("desk", "First.", Profile::new());
    let pattern = PlanFirst::new(Route::new(Reflect::new("", desk))).on_command("/plan");
    let pattern = Clarify::new(pattern).rounds(0);
    let replies = [r#"{"route": "x"}"#, "Hello."].map(Script::text);
    let harness = Harness::new(pattern, replies, |agent| agent).await;
    harness.handle.prompt("Hello.").await.unwrap();
    let requests = harness.model.requests();
    assert!(requests[1].tools.iter().any(|tool| &*tool.name == "hand_over"));
}

/// The role after a hand-over also answers the next request, within other wrappers, too.
#[tokio::test(start_paused = true)]
async fn a_role_changes_within_a_wrapper_that_has_a_profile() {
    let roles = Handoff::new(Route::new(PiPattern).to(
        "only",
        "All.",
        Profile::new().instruction("Be brief."),
    ))
    .role("desk", "First.", Profile::new().system("Desk."))
    .role("billing", "Invoices.", Profile::new().system("Billing."));
    let call = Script::calls([("h", "hand_over", json!({ "to": "billing" }))]);
    let replies = [Script::text(r#"{"route": "only"}"#), call, Script::text("Paid.")];
    let harness = Harness::new(roles, replies, |agent| agent).await;
    harness.handle.prompt("My invoice?").await.unwrap();
    let requests = harness.model.requests();
    let systems: Vec<&str> = requests.iter().map(|request| &*request.system).collect();
    assert_eq!(systems, ["Desk.", "Desk.\n\nBe brief.", "Billing.\n\nBe brief."]);
    harness.check().await;
}

/// A graph restarts for the judge, and its plan is not carried out twice for the user.
#[tokio::test(start_paused = true)]
async fn a_graph_within_other_patterns() {
    let graph = || loopwright_patterns::Graph::<()>::new("answer").pattern("answer", PiPattern);
    let verdict = |is_good: bool| json!({ "is_good": is_good, "reason": "No." }).to_string();
    let replies = ["One.", &verdict(false), "Two.", &verdict(true)].map(Script::text);
    let harness = Harness::new(Reflect::new("Good.", graph()), replies, |agent| agent).await;
    assert_eq!(harness.handle.prompt("Write.").await.unwrap().text, "Two.");
    harness.check().await;
    let all = scenarios(value).into_iter().filter(|s| s.name() == "two requests");
    assert_conforms(|| Reflect::new("Good.", graph()), all.collect()).await;
}

/// Steps taken for the user's plan do not count for the pattern that carries it out.
#[tokio::test(start_paused = true)]
async fn an_accepted_plan_is_carried_out_with_all_its_steps() {
    let steps = |steps: &[&str]| json!({ "steps": steps }).to_string();
    let replies = ["1. Look.", &steps(&["Look."]), "Seen.", &steps(&[]), "It is a lamp."];
    let pattern = PlanFirst::new(PlanExecute::new(PiPattern));
    let harness = Harness::new(pattern, replies.map(Script::text), |agent| agent).await;
    harness.handle.prompt("What is it?").await.unwrap();
    let yes = Decision::Provide(Provided::Input("yes".into()));
    harness.resolve(0, yes).await.unwrap();
    harness.handle.wait_for_idle().await;
    let transcript = harness.transcript().await;
    let expected = [
        "U:Carry out the plan.",
        "U:Now do this step: Look.",
        "A:Seen./Stop",
        "U:Answer the request with what came of it.",
        "A:It is a lamp./Stop",
    ];
    assert!(transcript.ends_with(&expected.map(str::to_owned)), "{transcript:?}");
    harness.check().await;
}
