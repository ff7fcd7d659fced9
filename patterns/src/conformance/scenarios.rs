//! Scenarios that come with the suite.

use loopwright_core::AgentBuilder;
use loopwright_core::event::{Decision, Prompt, RunStatus, Urgency};
use loopwright_core::log::LogEntry;
use loopwright_core::message::StopReason;
use loopwright_core::testing::{Script, ScriptedModel, TestTool};
use loopwright_core::tool::{Approval, Effect, ToolOutput};
use serde_json::json;

use super::scenario::Scenario;
use super::session::ends_with;

/// Returns the scenarios that come with the suite: a plain answer; calls that run, wait for an
/// approval, suspend, are denied or superseded, ask for the end, or were cut off; and messages of
/// the user during a run.
///
/// ```
/// use loopwright_patterns::conformance::scenarios;
///
/// let names: Vec<_> = scenarios().iter().map(|s| s.name().to_owned()).collect();
/// assert!(names.contains(&"a denied call".to_owned()));
/// ```
pub fn scenarios() -> Vec<Scenario> {
    let denied = |_: &_| Decision::Deny("not now".into());
    vec![
        scenario("a plain answer", [Script::text("Hello.")]).request("Say hello."),
        scenario("two requests", [calls(&["look"]), Script::text("One."), Script::text("Two.")])
            .request("Look.")
            .request("And now?"),
        scenario("calls", [calls(&["look", "send"]), calls(&["look"]), Script::text("Looked.")])
            .request("Look and send."),
        scenario("an approval", [calls(&["look", "pay"]), Script::text("Paid.")])
            .request("Pay.")
            .request("Thank you."),
        scenario("a call that suspends", [calls(&["login"]), Script::text("Logged in.")])
            .request("Log in."),
        scenario("an approval and a call that suspends", [calls(&["pay", "login", "look"])])
            .request("Pay and log in."),
        scenario("a denied call", [calls(&["pay"]), Script::text("Not paid.")])
            .request("Pay.")
            .decisions(denied),
        scenario("a call superseded by a steer", [calls(&["pay"]), Script::text("Not paid.")])
            .request("Pay.")
            .steer("No, wait.")
            .when(|entry| ends_with(entry, RunStatus::AwaitingAction)),
        scenario("a call superseded by a request", [calls(&["pay"]), Script::text("Not paid.")])
            .request("Pay.")
            .request("Something else.")
            .when(|entry| ends_with(entry, RunStatus::AwaitingAction)),
        scenario("a result that asks for the end", [calls(&["finish"])]).request("Finish."),
        scenario("a reply cut off at the length limit", [cut_off(), Script::text("Shorter.")])
            .request("Write it all."),
        scenario("a steer", [calls(&["look", "send"]), Script::text("Steered.")])
            .request("Look.")
            .steer(Prompt::from("Only here.").urgency(Urgency::AfterTurn))
            .when(|entry| matches!(entry, LogEntry::CallStarted { .. })),
        scenario("a steer that interrupts", [slow_reply(), Script::text("Steered.")])
            .request("Tell a story.")
            .steer(Prompt::from("A short one.").urgency(Urgency::Interrupt))
            .when(|entry| matches!(entry, LogEntry::RequestStarted { .. })),
        scenario(
            "follow-ups",
            [Script::text("One."), Script::text("Two."), Script::text("Three.")],
        )
        .request("One?")
        .follow_up("Two?")
        .when(|entry| matches!(entry, LogEntry::RequestStarted { .. }))
        .follow_up("Three?")
        .when(|entry| matches!(entry, LogEntry::RequestStarted { .. })),
    ]
}

fn scenario(name: &str, replies: impl IntoIterator<Item = Script>) -> Scenario {
    Scenario::new(name, replies).agent(with_tools)
}

/// Adds tools of every kind: `look` only reads, `send` must run at most once, `pay` needs an
/// approval, `login` suspends, and the results of `finish` ask for the end of the run.
fn with_tools(agent: AgentBuilder, _: &ScriptedModel) -> AgentBuilder {
    let send = TestTool::new("send")
        .effect(Effect::AtMostOnce)
        .spec(|spec| spec.approval(Approval::Never));
    let finish = TestTool::new("finish").answers(ToolOutput::text("finished").terminate());
    agent
        .tool(TestTool::new("look"))
        .tool(send)
        .tool(TestTool::new("pay").effect(Effect::Idempotent))
        .tool(TestTool::new("login").suspends("login"))
        .tool(finish)
}

/// Returns a reply with a call of each tool.
fn calls(tools: &[&str]) -> Script {
    let ids = ["a", "b", "c"];
    Script::calls(ids.into_iter().zip(tools).map(|(id, tool)| (id, *tool, json!({}))))
}

/// Returns a reply with a call that the length limit cut off.
fn cut_off() -> Script {
    Script::new().call("a", "look", "{\"at\": \"ever").stop(StopReason::Length)
}

/// Returns a reply that is interrupted.
fn slow_reply() -> Script {
    let pause = std::time::Duration::from_millis(10);
    Script::new().stream(["Once ", "upon ", "a time"], pause).wait(pause)
}
