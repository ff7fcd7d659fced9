//! Patterns in which roles answer: routes and hand-overs.

use loopwright_core::session::Profile;
use loopwright_core::testing::{Harness, Script, ScriptedModel, TestTool};
use loopwright_core::{
    AgentBuilder, BehaviorPattern, GenericAgent, StepContext, StepEnd, StepError,
};
use loopwright_patterns::{Handoff, PiPattern, Route};
use serde_json::json;

use crate::kit::{assert_conforms, equipped, reply, scenario, scenarios};
use crate::values::value;

fn route() -> Route<PiPattern> {
    Route::new(PiPattern).to("support", "Help.", Profile::new().system("You help.")).to(
        "billing",
        "Invoices.",
        Profile::new().system("You bill.").tools(ALL_BUT_ONE),
    )
}

const ALL_BUT_ONE: [&str; 5] = ["look", "send", "pay", "login", "finish"];

fn handoff() -> Handoff<PiPattern> {
    Handoff::new(PiPattern)
        .role("desk", "Answers first.", Profile::new().system("You are the desk."))
        .role("billing", "Invoices.", Profile::new().system("You are billing."))
}

fn hand_over(to: &str) -> Script {
    Script::calls([("h", "hand_over", json!({ "to": to }))])
}

/// C194: The profile of the route applies to every request of the inner pattern.
#[tokio::test(start_paused = true)]
async fn a_request_is_answered_in_the_role_that_the_router_chose() {
    let replies = [
        Script::text(r#"{"route": "billing"}"#),
        Script::calls([("c", "look", json!({}))]),
        Script::text("Paid twice."),
        Script::text(r#"{"route": "a name that it invents"}"#),
        Script::text("Turn it off and on again."),
    ];
    let options = |agent: AgentBuilder| {
        agent.system("You route.").tool(TestTool::new("look")).tool(TestTool::new("delete"))
    };
    let harness = Harness::new(route(), replies, options).await;
    harness.handle.prompt("My invoice?").await.unwrap();
    harness.handle.prompt("It does not work.").await.unwrap();
    let requests = harness.model.requests();
    let systems: Vec<&str> = requests.iter().map(|request| &*request.system).collect();
    assert_eq!(systems, ["You route.", "You bill.", "You bill.", "You route.", "You help."]);
    let offered =
        |n: usize| requests[n].tools.iter().map(|t| t.name.to_string()).collect::<Vec<_>>();
    assert_eq!(
        (offered(1), offered(4)),
        (vec!["look".into()], vec!["delete".into(), "look".into()])
    );
    harness.check().await;
}

/// A wrapper that answers with another pattern, and again after its first answer was removed.
struct SecondThought<P>(P);

#[loopwright_core::async_trait]
impl<P: BehaviorPattern> BehaviorPattern for SecondThought<P> {
    fn inner(&self) -> Option<&dyn BehaviorPattern> {
        Some(&self.0)
    }

    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        let request = step.checkpoint();
        self.0.next_step(step).await?;
        step.rewind(request).await?;
        self.0.next_step(step).await
    }
}

/// C194: A rewind undoes the hand-overs in the messages that it removes.
#[tokio::test(start_paused = true)]
async fn a_rewind_returns_to_the_role_of_that_time() {
    let replies = [hand_over("billing"), Script::text("No."), Script::text("Yes.")];
    let harness = Harness::new(SecondThought(handoff()), replies, |agent| agent).await;
    assert_eq!(harness.handle.prompt("A refund?").await.unwrap().text, "Yes.");
    let requests = harness.model.requests();
    let systems: Vec<&str> = requests.iter().map(|request| &*request.system).collect();
    assert_eq!(systems, ["You are the desk.", "You are billing.", "You are the desk."]);
}

/// C194: The role follows from the history, during the run of the inner pattern, too.
#[tokio::test(start_paused = true)]
async fn the_role_with_the_conversation_keeps_it_until_it_hands_it_over() {
    let replies = [
        hand_over("nobody"),
        hand_over("billing"),
        Script::text("You get it back."),
        Script::text("Tomorrow."),
        hand_over("desk"),
        Script::text("Good day."),
    ];
    let harness = Harness::new(handoff(), replies, |agent| agent).await;
    harness.handle.prompt("A refund.").await.unwrap();
    harness.handle.prompt("When?").await.unwrap();
    let harness = harness.restart().await;
    assert_eq!(harness.handle.prompt("Thanks.").await.unwrap().text, "Good day.");
    let requests = harness.model.requests();
    let roles: Vec<&str> =
        requests.iter().map(|request| request.system.rsplit(' ').next().unwrap()).collect();
    assert_eq!(roles, ["desk.", "desk.", "billing.", "billing.", "billing.", "desk."]);
    assert!(harness.transcript().await.contains(&"R:h/Error".to_owned()));
    harness.check().await;
}

#[tokio::test(start_paused = true)]
async fn routes_conform() {
    let own = scenario("two requests", value).request("Please pay.").request("Thanks.");
    assert_conforms(route, scenarios(value).into_iter().chain([own]).collect()).await;
}

#[tokio::test(start_paused = true)]
async fn hand_overs_conform() {
    let hands_over = |request: &loopwright_core::model::ChatRequest| {
        let text = request.messages.last().map(|message| message.text()).unwrap_or_default();
        match &*text {
            "A refund." => hand_over("billing"),
            "The desk." => hand_over("desk"),
            _ => reply(request, value),
        }
    };
    let own = loopwright_patterns::conformance::Scenario::new("hand-overs", [])
        .reply_with(hands_over)
        .agent(equipped)
        .request("A refund.")
        .request("Please pay.")
        .request("The desk.");
    assert_conforms(handoff, scenarios(value).into_iter().chain([own]).collect()).await;
    let agent = |model: ScriptedModel| GenericAgent::builder(model, handoff());
    let replies =
        [hand_over("billing"), Script::text("Yes."), hand_over("desk"), Script::text("No.")];
    let two = loopwright_core::testing::ScriptedSession::new(replies)
        .request("A refund.")
        .request("Sure?");
    let report = loopwright_core::testing::crash_at_every_append(agent, two).await.unwrap();
    assert_eq!((report.requests, report.compared), (4, report.appends), "{report}");
}
