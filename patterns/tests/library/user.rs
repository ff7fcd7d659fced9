//! Patterns that ask the user: clarification, and plans that the user accepts.

use loopwright_core::event::{Decision, Provided, RunStatus};
use loopwright_core::testing::{self, Harness, Script, TestTool};
use loopwright_core::tool::Effect;
use loopwright_patterns::conformance::Scenario;
use loopwright_patterns::{Clarify, PiPattern, PlanFirst};
use serde_json::json;

use crate::kit::{assert_conforms, assert_survives_crashes, scenario, scenarios};
use crate::values::value;

fn answer(text: &str) -> Decision {
    Decision::Provide(Provided::Input(json!(text)))
}

fn check(question: Option<&str>, options: &[&str]) -> Script {
    Script::text(&json!({ "question": question, "options": options }).to_string())
}

#[tokio::test(start_paused = true)]
async fn questions_are_asked_until_the_request_is_clear() {
    let replies = [
        check(Some("Which city?"), &["Oslo", "Bergen"]),
        check(Some("Which day?"), &[]),
        check(None, &[]),
        Script::text("Rain."),
    ];
    let harness = Harness::new(Clarify::new(PiPattern), replies, |agent| agent).await;
    let outcome = harness.handle.prompt("The weather?").await.unwrap();
    assert_eq!(outcome.end, RunStatus::AwaitingAction);
    assert!(harness.resolve(0, answer("Rome")).await.is_err());
    harness.resolve(0, answer("Oslo")).await.unwrap();
    harness.handle.wait_for_idle().await;
    let harness = harness.restart().await;
    assert_eq!(harness.pending().await[0].question().unwrap().question, "Which day?");
    harness.resolve(0, answer("today")).await.unwrap();
    harness.handle.wait_for_idle().await;
    let last = harness.model.requests().pop().unwrap();
    let texts: String = last.messages.iter().map(|message| message.text()).collect();
    assert!(texts.contains("Oslo") && texts.contains("today"), "{texts}");
    assert_eq!(harness.transcript().await.last().unwrap(), "A:Rain./Stop");
    harness.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_request_that_the_user_does_not_clear_up_is_answered_as_it_is() {
    let replies = [check(Some("Which?"), &[]), Script::text("Any.")];
    let harness = Harness::new(Clarify::new(PiPattern), replies, |agent| agent).await;
    harness.handle.prompt("One of them.").await.unwrap();
    harness.resolve(0, Decision::Deny(String::new())).await.unwrap();
    harness.handle.wait_for_idle().await;
    assert_eq!(harness.transcript().await.last().unwrap(), "A:Any./Stop");
    harness.check().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_changed_before_the_plan_is_accepted() {
    let write = TestTool::new("write").effect(Effect::AtMostOnce);
    let read = TestTool::new("read").effect(Effect::ReadOnly);
    let call = |name: &str| Script::calls([("c", name, json!({}))]);
    let replies = [
        call("read"),
        call("write"),
        Script::text("1. Write it."),
        Script::text("1. Write it well."),
        call("write"),
        Script::text("Written."),
    ];
    let tools = (write.clone(), read.clone());
    let options = |agent: loopwright_core::AgentBuilder| {
        agent.system("You write.").tool(tools.0).tool(tools.1).approve_all()
    };
    let harness = Harness::new(PlanFirst::new(PiPattern), replies, options).await;
    let outcome = harness.handle.prompt("Write.").await.unwrap();
    assert_eq!((outcome.end, write.ran(), read.ran()), (RunStatus::AwaitingAction, 0, 1));
    harness.resolve(0, Decision::Deny("Do it well.".into())).await.unwrap();
    harness.handle.wait_for_idle().await;
    assert_eq!(write.ran(), 0);
    let harness = harness.restart().await;
    harness.resolve(0, answer("yes")).await.unwrap();
    harness.handle.wait_for_idle().await;
    assert_eq!(write.ran(), 1);
    let requests = harness.model.requests();
    let last = requests.last().unwrap();
    assert_eq!(&*last.system, "You write.");
    assert_eq!(last.tools.iter().count(), 2);
    assert_eq!(harness.transcript().await.last().unwrap(), "A:Written./Stop");
    harness.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_is_not_accepted_ends_the_request_and_another_message_changes_it() {
    let replies = ["A.", "B.", "C."].map(Script::text);
    let harness = Harness::new(PlanFirst::new(PiPattern), replies, |agent| agent).await;
    harness.handle.prompt("Plan.").await.unwrap();
    harness.handle.steer("Another way.").await.unwrap();
    harness.handle.wait_for_idle().await;
    let transcript = harness.transcript().await;
    assert_eq!(transcript[..2], ["U:Plan.", "A:A./Stop"]);
    assert!(
        transcript.ends_with(&["A:B./Stop".into(), "A:[ask_user_2]/ToolCalls".into()])
            || transcript.contains(&"A:B./Stop".into()),
        "{transcript:?}"
    );
    harness.resolve(0, answer("no")).await.unwrap();
    harness.handle.wait_for_idle().await;
    assert_eq!(harness.model.requests().len(), 2);
    assert_eq!(harness.pending().await.len(), 0);
    harness.check().await;
}

#[tokio::test(start_paused = true)]
async fn with_a_command_only_requests_that_ask_for_it_are_planned() {
    let pattern = PlanFirst::new(PiPattern).on_command("/plan");
    let replies = ["Hello.", "A plan.", "Another plan.", "Done."].map(Script::text);
    let harness = Harness::new(pattern, replies, |agent| agent).await;
    assert_eq!(harness.handle.prompt("A /plan?").await.unwrap().end, RunStatus::Done);
    let outcome = harness.handle.prompt("/plan Tidy up.").await.unwrap();
    assert_eq!(outcome.end, RunStatus::AwaitingAction);
    assert!(harness.transcript().await.contains(&"A:A plan./Stop".to_owned()));
    // Another request instead of an answer is planned too.
    let outcome = harness.handle.prompt("But keep the logs.").await.unwrap();
    assert_eq!(outcome.end, RunStatus::AwaitingAction);
    harness.resolve(0, answer("yes")).await.unwrap();
    harness.handle.wait_for_idle().await;
    assert_eq!(harness.transcript().await.last().unwrap(), "A:Done./Stop");
    harness.check().await;
}

/// Returns the scenarios with a user who answers questions, and one with a user who denies calls.
fn answering(text: &'static str) -> impl Iterator<Item = Scenario> {
    scenarios(value).into_iter().map(move |scenario| match scenario.name() {
        "a denied call" => scenario.decisions(move |action| match action.question() {
            Some(_) => answer(text),
            None => Decision::Deny("not now".into()),
        }),
        _ => scenario,
    })
}

#[tokio::test(start_paused = true)]
async fn clarification_conforms() {
    let own = scenario("two requests", value).request("Which?").request("And which?");
    assert_conforms(|| Clarify::new(PiPattern), answering("a").chain([own]).collect()).await;
}

#[tokio::test(start_paused = true)]
async fn plans_that_the_user_accepts_conform() {
    let rejected = scenario("a plan that is rejected", value)
        .request("Please pay.")
        .request("Thanks.")
        .decisions(|_| answer("no"));
    let all = answering("yes").chain([rejected]).collect();
    assert_conforms(|| PlanFirst::new(PiPattern), all).await;
    let replies = ["A.", "B.", "Done."].map(Script::text);
    let declined = testing::ScriptedSession::new(replies).request("Plan.").decisions(|action| {
        let is_second = action.call.ends_with("_2");
        if is_second { answer("yes") } else { Decision::Deny("Do it well.".into()) }
    });
    assert_survives_crashes(|| PlanFirst::new(PiPattern), declined).await;
}
