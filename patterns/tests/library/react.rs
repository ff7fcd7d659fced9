//! `ReAct`: actions in the text of a model without tool calls.

use std::time::Duration;

use loopwright_core::event::{Decision, Prompt, Urgency};
use loopwright_core::log::LogEntry;
use loopwright_core::message::StopReason;
use loopwright_core::testing::{Harness, Script, TestTool};
use loopwright_core::tool::{Approval, Effect};
use loopwright_core::{AgentBuilder, GenericAgent};
use loopwright_patterns::ReAct;
use loopwright_patterns::conformance::Scenario;

use crate::kit::assert_conforms;

fn act(name: &str) -> Script {
    Script::text(&format!("I must {name}.\nAction: {name}\nAction Input: {{\"city\": \"Oslo\"}}"))
}

fn with_tools(agent: AgentBuilder) -> AgentBuilder {
    // Not at-most-once: the suite cannot see that an observation copies a result whose call has an
    // unknown outcome.
    let send = TestTool::new("send").effect(Effect::Idempotent);
    agent
        .tool(TestTool::new("look").answers("rain"))
        .tool(send.spec(|spec| spec.approval(Approval::Never)))
        .tool(TestTool::new("pay").effect(Effect::Idempotent))
        .tool(TestTool::new("login").suspends("login"))
}

fn scenario(name: &str, replies: impl IntoIterator<Item = Script>) -> Scenario {
    let replies = replies.into_iter().chain([Script::text("Final Answer: 1")]);
    Scenario::new(name, replies).agent(|agent, _| with_tools(agent))
}

/// C195: ReAct conforms, with actions of every kind.
#[tokio::test(start_paused = true)]
async fn it_conforms() {
    let pause = Duration::from_millis(10);
    let slow = Script::new().stream(["Once ", "upon ", "a time"], pause).wait(pause);
    let cut = Script::text("Action: look\nAction Input: {\"city\": \"Os").stop(StopReason::Length);
    let no_json = Script::text("Action: look\nAction Input: {\"city\"");
    let started = |entry: &LogEntry| matches!(entry, LogEntry::RequestStarted { .. });
    let calls = |entry: &LogEntry| matches!(entry, LogEntry::CallStarted { .. });
    let all = vec![
        scenario("a plain answer", []).request("Hello.").request("And now?"),
        scenario("calls", [act("look"), act("send"), act("look")]).request("Look and send."),
        scenario("an approval", [act("pay")]).request("Pay.").request("Thank you."),
        scenario("a call that suspends", [act("login")]).request("Log in."),
        scenario("a denied call", [act("pay")])
            .request("Pay.")
            .decisions(|_| Decision::Deny("not now".into())),
        scenario("a call superseded by a request", [act("pay")])
            .request("Pay.")
            .request("Something else.")
            .when(|entry| matches!(entry, LogEntry::CallAwaiting { .. })),
        scenario("a tool that does not exist", [act("fly"), act("look")]).request("Fly."),
        scenario("arguments that are no JSON", [no_json, act("look")]).request("Look."),
        scenario("a reply cut off at the length limit", [cut]).request("Look."),
        scenario("a steer", [act("look"), act("send")])
            .request("Look.")
            .steer(Prompt::from("Only here.").urgency(Urgency::AfterTurn))
            .when(calls),
        scenario("a steer that interrupts", [slow])
            .request("Tell a story.")
            .steer(Prompt::from("A short one.").urgency(Urgency::Interrupt))
            .when(started),
        scenario("a follow-up", [act("look")]).request("One?").follow_up("Two?").when(started),
    ];
    assert_conforms(|| ReAct, all).await;
}

/// A reply that was cut off runs none of its calls, even if its action is in the text.
#[tokio::test(start_paused = true)]
async fn an_action_that_was_cut_off_is_not_carried_out() {
    for stop in [StopReason::Length, StopReason::ContentFilter] {
        let look = TestTool::new("look");
        let text = "Action: look\nAction Input: {\"city\": \"Oslo\"}";
        let cut = Script::text(text).stop(stop);
        let harness =
            Harness::new(ReAct, [cut], |agent: AgentBuilder| agent.tool(look.clone())).await;
        harness.handle.prompt("Weather?").await.unwrap();
        assert_eq!(look.ran(), 0, "{stop:?}");
        assert_eq!(harness.model.requests().len(), 1);
        harness.check().await;
    }
}

/// C177: The work of its model and its tools is recorded and replayed.
#[tokio::test(start_paused = true)]
async fn it_is_recorded() {
    let agent = |model| with_tools(GenericAgent::builder(model, ReAct));
    let replies = [act("look"), act("pay"), Script::text("Final Answer: rain")];
    crate::cassettes::assert_agent_is_recorded(agent, replies, &["Weather?"]).await;
}
