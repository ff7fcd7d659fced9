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
    assert!(text.contains(observed), "{text}");
    assert_plain(&violation);
}

/// Asserts that a violation is one sentence, which has no data, then the data, the rule, and a
/// short log.
fn assert_plain(violation: &Violation) {
    let (text, observed) = (violation.to_string(), violation.observed());
    let (rule, scenario) = (violation.rule(), violation.scenario());
    let first = text.lines().next().unwrap();
    let sentence = format!("the pattern breaks the rule `{rule}` in the scenario `{scenario}`: ");
    assert_eq!(first, format!("{sentence}{observed}."), "{text}");
    assert!(!observed.contains(['{', '\n']) && !observed.contains("Some("), "{text}");
    let (before, log) = text.split_once("\n\nThe log, up to there:\n").expect(&text);
    assert!(before.lines().any(|line| line.starts_with("The rule: ")), "{text}");
    assert!(log.lines().count() <= 30, "{text}");
    assert!(log.lines().all(|line| line.chars().count() <= 110), "{text}");
    assert_eq!(format!("{violation:?}"), text);
}

/// C153: one suite checks whether a pattern is correct.
#[tokio::test(start_paused = true)]
async fn the_patterns_of_this_crate_conform() {
    assert_conforms(check(|| PiPattern, scenarios()).await);
    assert_conforms(check(|| GenericPattern, scenarios()).await);
    let first_call = || FirstCall::new(ToolChoice::Required, PiPattern);
    assert_conforms(check(first_call, scenarios()).await);
}

/// C153 C502: the suite names the rule that a wrong pattern breaks, in one plain sentence, with the
/// shortest log that shows it.
#[tokio::test(start_paused = true)]
async fn a_pattern_that_counts_in_its_value_is_rejected() {
    let expected =
        (Rule::Crashes, "a plain answer", "the agent paid again: it sent a request that");
    assert_breaks(CountsInSelf::default, scenarios(), expected).await;
}

#[tokio::test(start_paused = true)]
async fn a_pattern_that_writes_state_and_message_separately_is_rejected() {
    let expected =
        (Rule::Crashes, "a plain answer", "after a crash right after entry 6 (`state`), ");
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
    let expected = (Rule::Crashes, plain, "message 2 is missing");
    assert_breaks(|| ForgetsOnReentry, scenario(plain), expected).await;
    let expected = (Rule::Calls, "an approval", "the model had not seen the results");
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
    let expected = (Rule::Crashes, "a plain answer", "a side effect took place twice");
    assert_breaks(|| RepeatsEffect(count.clone()), counted(), expected).await;
    assert_conforms(check(|| LogsEffect(count.clone()), counted()).await);
    assert!(count.load(SeqCst) > 1000);
}

#[tokio::test(start_paused = true)]
async fn a_pattern_that_takes_no_steers_is_rejected() {
    let (steer, plain) = ("a steer", "a plain answer");
    let expected = (Rule::Messages, plain, "with a steer (AfterTurn) right after entry");
    assert_breaks(|| Loop::TakesNoSteers, scenario(plain), expected).await;
    let expected = (Rule::Messages, steer, "the pattern had not taken a message");
    assert_breaks(|| Loop::TakesNoSteers, scenario(steer), expected).await;
    let expected = (Rule::Messages, "follow-ups", "the pattern had not taken a message");
    assert_breaks(|| Loop::TakesNoMessages, scenario("follow-ups"), expected).await;
}

#[tokio::test(start_paused = true)]
async fn a_pattern_that_does_not_answer_messages_once_is_rejected() {
    let steer = "a steer";
    let expected = (Rule::Messages, steer, "and a message had no answer");
    assert_breaks(|| Loop::DeliversLate, scenario(steer), expected).await;
    let expected = (Rule::Messages, steer, "the pattern added a message of the user once more");
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
    let expected = (Rule::Calls, end, "although all results had asked for the end");
    assert_breaks(|| Loop::IgnoresTerminate, scenarios(), expected).await;
    let expected = (Rule::Calls, "two requests", "the model had not seen the results");
    assert_breaks(|| Loop::IgnoresResults, scenarios(), expected).await;
}

#[tokio::test(start_paused = true)]
async fn a_pattern_whose_state_outlives_its_request_is_rejected() {
    let expected = (Rule::Aborts, "a plain answer", ", when the scenario runs again, ");
    assert_breaks(|| KeepsRound, scenarios(), expected).await;
}

#[tokio::test(start_paused = true)]
async fn a_pattern_that_hides_errors_and_limits_is_rejected() {
    let expected =
        (Rule::ModelErrors, "a plain answer", "when request 1 fails, the run does not end with");
    assert_breaks(|| Loop::HidesModelErrors, scenarios(), expected).await;
    assert_breaks(|| Loop::RetriesModelErrors, scenarios(), expected).await;
    let expected =
        (Rule::ModelErrors, "a plain answer", "does not end at once, but sends other requests");
    assert_breaks(|| Loop::AsksAfterModelErrors, scenarios(), expected).await;
    let expected =
        (Rule::ModelErrors, "a plain answer", "and `Continue` resumes the run, message 2 differs");
    assert_breaks(|| Loop::NotesModelErrors, scenarios(), expected).await;
    let expected = (Rule::Limits, "a plain answer", "The runs end as: Done");
    assert_breaks(|| Loop::HidesLimits, scenarios(), expected).await;
}

/// C501: a pattern that survives errors of the model is right if the scenario says so, and if it
/// answers all the same.
#[tokio::test(start_paused = true)]
async fn a_pattern_that_tolerates_model_errors_conforms() {
    let plain = || scenario("a plain answer").into_iter().map(Scenario::tolerates_model_errors);
    for pattern in [Loop::RetriesModelErrors, Loop::Right] {
        let report = check(|| pattern, plain()).await.unwrap();
        assert!(report.sessions > 40, "{report:?}");
    }
    // Without keys, all requests are sent again after a crash, so that the votes may change.
    for (has_keys, votes) in [(true, ["4", "5", "6"]), (false, ["4"; 3])] {
        let votes = Scenario::new("votes", votes.map(Script::text)).request("2 + 2?");
        let pattern = || ParallelVotes { has_keys, hides_errors: true };
        check(pattern, [votes.tolerates_model_errors()]).await.unwrap();
    }
    for (wrong, observed) in [
        (Loop::HidesModelErrors, "the run ends, and the user's request has no answer"),
        (Loop::FailsAtModelErrors, "the run ends with another error"),
        (Loop::FailsAfterModelErrors, "the next request of the user ends with an error"),
        (Loop::AsksAfterModelErrors, "does not end at once, but sends other requests"),
    ] {
        let expected = (Rule::ModelErrors, "a plain answer", observed);
        assert_breaks(|| wrong, plain().collect(), expected).await;
    }
}

/// C502: the whole text of a violation.
#[tokio::test(start_paused = true)]
async fn a_violation_is_plain() {
    let violation = check(|| Loop::TakesNoSteers, scenario("a steer")).await.unwrap_err();
    let expected = "\
the pattern breaks the rule `messages` in the scenario `a steer`: the run ended, and the pattern \
had not taken a message.
The message: Only here.
The rule: A message of the user that arrives during a run is answered once before its end.

The log, up to there:
   0  opened
   1  queued           request, user: Look.
   2  run_started      cause: user_request input-1
   3  delivered        input: input-1
   4  request_started  model: test/scripted
   5  replied          assistant: [a look({})][b send({})]
   6  call_started     arguments: {}, call: a
   7  call_started     arguments: {}, call: b
   8  queued           steering, user: Only here.
   9  call_finished    result of a (Ok): look done
  10  call_finished    result of b (Ok): send done
  11  request_started  model: test/scripted
  12  replied          assistant: Steered.
  13  run_ended        end: done";
    assert_eq!(violation.to_string(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_pattern_that_mixes_up_sessions_is_rejected() {
    let expected = (
        Rule::SharedValue,
        "a plain answer",
        "in the first session, custom event 1 is one too many",
    );
    assert_breaks(KeepsSession::default, scenarios(), expected).await;
}

#[tokio::test(start_paused = true)]
async fn a_pattern_that_hangs_is_rejected() {
    let expected = (Rule::Sessions, "a plain answer", "the agent had not finished after 60s");
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
        let expected =
            (Rule::ModelErrors, "votes", "when request 1 fails, the run does not end with");
        let wrong = || ParallelVotes { has_keys, hides_errors: true };
        assert_breaks(wrong, votes().into(), expected).await;
    }
}

/// Replies found under their keys are not requested again: each vote keeps its own.
#[tokio::test(start_paused = true)]
async fn replies_under_keys_are_the_same_after_a_crash() {
    let agent = |model| GenericAgent::builder(model, KeyedVotes(3));
    let votes = testing::ScriptedSession::new(["4", "5", "6"].map(Script::text)).request("2 + 2?");
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
