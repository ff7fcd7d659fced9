//! The suite itself: the patterns of this crate pass, and it names the rule that a wrong one
//! breaks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use loopwright_core::model::ToolChoice;
use loopwright_core::testing::{self, Script};
use loopwright_core::{BehaviorPattern, GenericAgent};
use loopwright_patterns::conformance::{Report, Rule, Scenario, Violation, check, scenarios};
use loopwright_patterns::{FirstCall, GenericPattern, PiPattern};

use crate::painter::Painter;
use crate::votes::{KeyedVotes, ParallelVotes, Votes};
use crate::wrong::*;

fn assert_conforms(checked: Result<Report, Violation>) {
    let report = checked.unwrap_or_else(|violation| panic!("{violation}"));
    assert!(report.scenarios >= 14 && report.sessions > 1000, "{report:?}");
}

/// Returns the scenario of this name.
fn scenario(name: &str) -> Vec<Scenario> {
    let found: Vec<_> = scenarios().into_iter().filter(|s| s.name() == name).collect();
    assert_eq!(found.len(), 1, "{name}");
    found
}

/// Asserts that the suite rejects a pattern, and names the rule, the scenario and what it observed.
async fn assert_breaks<P: BehaviorPattern + 'static>(
    pattern: impl Fn() -> P,
    scenarios: Vec<Scenario>,
    (rule, scenario, observed): (Rule, &str, &str),
) {
    let violation = check(pattern, scenarios).await.expect_err(observed);
    let text = violation.to_string();
    assert_eq!((violation.rule(), violation.scenario()), (rule, scenario), "{text}");
    assert!(violation.observed().contains(observed), "{text}");
    assert!(text.starts_with(&format!("the pattern breaks the rule `{rule}` in the")), "{text}");
}

/// C153: one suite checks whether a pattern is correct.
#[tokio::test(start_paused = true)]
async fn the_patterns_of_this_crate_conform() {
    assert_conforms(check(|| PiPattern, scenarios()).await);
    assert_conforms(check(|| GenericPattern, scenarios()).await);
    let first_call = || FirstCall::new(ToolChoice::Required, PiPattern);
    assert_conforms(check(first_call, scenarios()).await);
}

/// C153: the suite names the rule that a wrong pattern breaks.
#[tokio::test(start_paused = true)]
async fn a_pattern_that_counts_in_its_value_is_rejected() {
    let expected =
        (Rule::Crashes, "a plain answer", "the agent pays again: after the crash it sent");
    assert_breaks(CountsInSelf::default, scenarios(), expected).await;
}

#[tokio::test(start_paused = true)]
async fn a_pattern_that_writes_state_and_message_separately_is_rejected() {
    let expected = (Rule::Crashes, "a plain answer", "which ends with State");
    assert_breaks(|| WritesSeparately, scenarios(), expected).await;
}

#[tokio::test(start_paused = true)]
async fn a_pattern_that_fails_on_reentry_is_rejected() {
    let plain = "a plain answer";
    let expected = (Rule::Crashes, plain, "the plan is lost");
    assert_breaks(|| FailsOnReentry, scenario(plain), expected).await;
    // A decision makes the session enter a pattern again, too.
    let expected = (Rule::Sessions, "an approval", "the plan is lost");
    assert_breaks(|| FailsOnReentry, scenarios(), expected).await;
}

#[tokio::test(start_paused = true)]
async fn a_pattern_without_an_answer_on_reentry_is_rejected() {
    let plain = "a plain answer";
    let expected = (Rule::Crashes, plain, "message 1 differs: it is `missing`");
    assert_breaks(|| ForgetsOnReentry, scenario(plain), expected).await;
    let expected = (Rule::Calls, "an approval", "the model has not seen the results");
    assert_breaks(|| ForgetsOnReentry, scenarios(), expected).await;
}

#[tokio::test(start_paused = true)]
async fn a_pattern_that_repeats_a_side_effect_is_rejected() {
    let count = Arc::new(AtomicU64::new(0));
    let counted = || {
        let count = count.clone();
        let count = move |s: Scenario| {
            let count = count.clone();
            s.effects(move || count.load(SeqCst))
        };
        scenarios().into_iter().map(count).collect::<Vec<_>>()
    };
    let expected = (Rule::Crashes, "a plain answer", "a side effect took place twice: 1 before");
    assert_breaks(|| RepeatsEffect(count.clone()), counted(), expected).await;
    assert_conforms(check(|| LogsEffect(count.clone()), counted()).await);
    assert!(count.load(SeqCst) > 1000);
}

#[tokio::test(start_paused = true)]
async fn a_pattern_that_takes_no_steers_is_rejected() {
    let (steer, plain) = ("a steer", "a plain answer");
    let expected = (Rule::Messages, plain, "a steer (AfterTurn) that arrives after append");
    assert_breaks(|| Loop::TakesNoSteers, scenario(plain), expected).await;
    let expected = (Rule::Messages, steer, "and `Only here.` was not delivered");
    assert_breaks(|| Loop::TakesNoSteers, scenario(steer), expected).await;
    let expected = (Rule::Messages, "follow-ups", "and `Two?` was not delivered");
    assert_breaks(|| Loop::TakesNoMessages, scenario("follow-ups"), expected).await;
}

#[tokio::test(start_paused = true)]
async fn a_pattern_that_does_not_answer_messages_once_is_rejected() {
    let steer = "a steer";
    let expected = (Rule::Messages, steer, "was delivered and not answered");
    assert_breaks(|| Loop::DeliversLate, scenario(steer), expected).await;
    let expected = (Rule::Messages, steer, "adds `Only here.` to the conversation once more");
    assert_breaks(|| Loop::CopiesMessages, scenario(steer), expected).await;
}

#[tokio::test(start_paused = true)]
async fn a_pattern_that_ignores_awaits_user_is_rejected() {
    let expected = (Rule::Calls, "an approval", "of `pay` was skipped because the run ended");
    assert_breaks(|| Loop::IgnoresAwaitsUser, scenarios(), expected).await;
    assert_breaks(|| Loop::AsksInOpenBatch, scenarios(), expected).await;
}

#[tokio::test(start_paused = true)]
async fn a_pattern_that_ignores_results_is_rejected() {
    let end = "a result that asks for the end";
    let expected = (Rule::Calls, end, "although all results ask for the end");
    assert_breaks(|| Loop::IgnoresTerminate, scenarios(), expected).await;
    let expected = (Rule::Calls, "two requests", "the model has not seen the results");
    assert_breaks(|| Loop::IgnoresResults, scenarios(), expected).await;
}

#[tokio::test(start_paused = true)]
async fn a_pattern_whose_state_outlives_its_request_is_rejected() {
    let expected = (Rule::Aborts, "a plain answer", "the same inputs lead to something else");
    assert_breaks(|| KeepsRound, scenarios(), expected).await;
}

#[tokio::test(start_paused = true)]
async fn a_pattern_that_hides_errors_and_limits_is_rejected() {
    let expected = (Rule::ModelErrors, "a plain answer", "fails at request 0: no run ends with");
    assert_breaks(|| Loop::HidesModelErrors, scenarios(), expected).await;
    assert_breaks(|| Loop::RetriesModelErrors, scenarios(), expected).await;
    let expected = (Rule::ModelErrors, "a plain answer", "1 more requests are sent before");
    assert_breaks(|| Loop::AsksAfterModelErrors, scenarios(), expected).await;
    let expected = (Rule::ModelErrors, "a plain answer", "after `Continue`: message 1 is");
    assert_breaks(|| Loop::NotesModelErrors, scenarios(), expected).await;
    let expected = (Rule::Limits, "a plain answer", "the ends are Done");
    assert_breaks(|| Loop::HidesLimits, scenarios(), expected).await;
}

#[tokio::test(start_paused = true)]
async fn a_pattern_that_mixes_up_sessions_is_rejected() {
    let expected = (Rule::SharedValue, "a plain answer", "the first session differs: custom event");
    assert_breaks(KeepsSession::default, scenarios(), expected).await;
}

#[tokio::test(start_paused = true)]
async fn a_pattern_that_hangs_is_rejected() {
    let expected = (Rule::Sessions, "a plain answer", "the agent is not idle after 60s");
    assert_breaks(|| Loop::Hangs, scenarios(), expected).await;
}

/// A pattern that makes calls and asks questions conforms.
#[tokio::test(start_paused = true)]
async fn a_pattern_with_its_own_calls_and_questions_conforms() {
    assert_conforms(check(|| Painter, scenarios()).await);
}

/// A pattern with only detached requests conforms, although it repeats one after a crash.
#[tokio::test(start_paused = true)]
async fn a_pattern_with_detached_requests_conforms() {
    let votes = ["4", "5", "4"].map(Script::text);
    let own = Scenario::new("votes", votes).request("2 + 2?").request("And 3 + 3?");
    let plain = scenarios().into_iter().filter(|s| s.name() == "a plain answer");
    let report = check(|| Votes(3), plain.chain([own])).await;
    let report = report.unwrap_or_else(|violation| panic!("{violation}"));
    assert!(report.sessions > 100, "{report:?}");
}

/// Requests that are sent together: if one fails, the others are answered; a limit refuses all of
/// them or none.
#[tokio::test(start_paused = true)]
async fn a_pattern_that_sends_requests_together_conforms() {
    // Without keys, all requests are sent again, so that the votes may change.
    for (has_keys, votes) in [(true, "456789"), (false, "444444")] {
        let replies = votes.chars().map(|vote| Script::text(&vote.to_string()));
        let votes = Scenario::new("votes", replies).request("2 + 2?").request("And 3 + 3?");
        let votes = || [votes.clone()];
        let right = || ParallelVotes { has_keys, hides_errors: false };
        let report = check(right, votes()).await;
        let report = report.unwrap_or_else(|violation| panic!("{violation}"));
        assert!(report.sessions > 50, "{report:?}");
        let expected = (Rule::ModelErrors, "votes", "fails at request 0: no run ends with");
        let wrong = || ParallelVotes { has_keys, hides_errors: true };
        assert_breaks(wrong, votes().into(), expected).await;
    }
}

/// Replies found under their keys are not requested again: each vote keeps its own.
#[tokio::test(start_paused = true)]
async fn replies_under_keys_are_the_same_after_a_crash() {
    let agent = |model| GenericAgent::builder(model, KeyedVotes(3));
    let votes = testing::Scenario::new(["4", "5", "6"].map(Script::text)).request("2 + 2?");
    let report = testing::crash_at_every_append(agent, votes).await.unwrap();
    assert_eq!((report.requests, report.compared), (3, report.appends), "{report}");
}

/// Replies can depend on the request, so that a pattern gets the form that it needs.
#[tokio::test(start_paused = true)]
async fn replies_depend_on_the_request() {
    let echo = |request: &loopwright_core::model::ChatRequest| {
        let last = request.messages.last().map(|message| message.text()).unwrap_or_default();
        Script::text(&format!("You wrote: {last}"))
    };
    let own = Scenario::new("an echo", []).request("One.").request("Two.").reply_with(echo);
    let report = check(|| PiPattern, [own]).await.unwrap();
    assert!(report.scenarios == 1 && report.sessions > 50, "{report:?}");
}

/// The names of rules are stable: users match on them in reports.
#[test]
fn rules_have_names() {
    let names = Rule::ALL.map(|rule| rule.to_string());
    let expected = [
        "sessions",
        "events",
        "calls",
        "messages",
        "crashes",
        "aborts",
        "model-errors",
        "limits",
        "shared-value",
    ];
    assert_eq!(names, expected);
}
