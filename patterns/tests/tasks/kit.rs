//! Helpers of the tasks: the scenarios of the conformance suite, with a model whose reply depends
//! only on the request, so that patterns that ask for values get them.

use std::sync::Arc;

use loopwright_core::event::{Decision, Prompt, RunStatus, Urgency};
use loopwright_core::log::LogEntry;
use loopwright_core::message::{MessageKind, StopReason};
use loopwright_core::model::{ChatRequest, ToolChoice};
use loopwright_core::testing::{self, Script, ScriptedModel, TestTool, crash_at_every_append};
use loopwright_core::tool::{Approval, Effect, ToolOutput};
use loopwright_core::{AgentBuilder, BehaviorPattern, GenericAgent, Message};
use loopwright_patterns::conformance::{self, Scenario};
use serde_json::{Value, json};

/// The names of further models of the tasks' agents.
const MODELS: [&str; 6] = ["planner", "judge", "router", "a", "b", "c"];

/// The tools that [`reply`] calls when the user's last message names them.
const TOOLS: [&str; 5] = ["look", "send", "pay", "login", "finish"];

/// The prompt of the user for replies that the length limit cuts off at first.
const LONG: &str = "Write it all.";

/// A function that returns a model's value for a request that asks for one.
pub(crate) type ValueFn = fn(&ChatRequest) -> Value;

/// Returns the reply to a request: a value, if the request has a schema; else calls of the tools
/// that are named in the user's last message and have no result yet; else a text.
pub(crate) fn reply(request: &ChatRequest, value: ValueFn) -> Script {
    let of_user = |message: &&Arc<Message>| matches!(message.body, MessageKind::User(_));
    let is_long = request.messages.iter().filter(of_user).any(|m| m.text().contains(LONG));
    let last = request.messages.last();
    let is_first = last.is_some_and(|last| !last.text().contains("not valid JSON"));
    if request.output.is_some() {
        let value = value(request).to_string();
        let script = Script::text(&value[..if is_long && is_first { 5 } else { value.len() }]);
        return if is_long && is_first { script.stop(StopReason::Length) } else { script };
    }
    // A plan in progress belongs to the message before.
    let mut texts = request.messages.iter().rev().filter(of_user).map(|message| message.text());
    let text = texts.find(|text| text != "Carry out the plan.").unwrap_or_default();
    let since = request.messages.iter().rev().take_while(|message| !of_user(message));
    let done: Vec<&str> =
        since.filter_map(|m| m.as_tool_result()).map(|result| &*result.name).collect();
    if text.contains(LONG) && done.is_empty() {
        return Script::new().call("1", "look", "{\"at\": \"ever").stop(StopReason::Length);
    }
    if text.contains("story") && done.is_empty() {
        let pause = std::time::Duration::from_millis(10);
        return Script::new().stream(["Once ", "upon ", "a time"], pause).wait(pause);
    }
    let is_offered = |name: &str| request.tools.iter().any(|tool| *tool.name == *name);
    let named = TOOLS.into_iter().filter(|tool| text.contains(tool) && !done.contains(tool));
    let named: Vec<&str> = match request.tool_choice {
        ToolChoice::None => Vec::new(),
        _ => named.filter(|tool| is_offered(tool)).collect(),
    };
    if named.is_empty() {
        let answer = format!("An answer to: {text}");
        return Script::text(if done.is_empty() { &answer } else { "Done." });
    }
    Script::calls(["1", "2", "3"].into_iter().zip(named).map(|(id, name)| (id, name, json!({}))))
}

/// Gives the agent the named models, and tools of every kind: `look` only reads, `send` must run at
/// most once, `pay` needs an approval, `login` suspends, and `finish` asks for the end of the run.
pub(crate) fn equipped(agent: AgentBuilder, model: &ScriptedModel) -> AgentBuilder {
    let send = TestTool::new("send")
        .effect(Effect::AtMostOnce)
        .spec(|spec| spec.approval(Approval::Never));
    let finish = TestTool::new("finish").answers(ToolOutput::text("finished").terminate());
    MODELS
        .iter()
        .fold(agent, |agent, name| agent.model_named(*name, model.clone()))
        .tool(TestTool::new("look"))
        .tool(send)
        .tool(TestTool::new("pay").effect(Effect::Idempotent))
        .tool(TestTool::new("login").suspends("login"))
        .tool(finish)
}

/// Returns a scenario with the replies of [`reply`].
pub(crate) fn scenario(name: &str, value: ValueFn) -> Scenario {
    Scenario::new(name, []).reply_with(move |request| reply(request, value)).agent(equipped)
}

/// Returns the situations of `conformance::scenarios` for patterns that ask for values.
pub(crate) fn scenarios(value: ValueFn) -> Vec<Scenario> {
    let scenario = |name| scenario(name, value);
    let waits = |entry: &LogEntry| match entry {
        LogEntry::RunEnded { end, .. } => *end == RunStatus::AwaitingAction,
        _ => false,
    };
    let asks = |entry: &LogEntry| {
        matches!(entry, LogEntry::RequestStarted { .. } | LogEntry::DetachedStarted { .. })
    };
    let calls = |entry: &LogEntry| matches!(entry, LogEntry::CallStarted { .. });
    vec![
        scenario("a plain answer").request("Say hello."),
        scenario("two requests").request("Please look.").request("And now?"),
        scenario("calls").request("Please look and send."),
        scenario("an approval").request("Please pay.").request("Thank you."),
        scenario("a call that suspends").request("Please login."),
        scenario("an approval and a call that suspends").request("Please pay, login and look."),
        scenario("a denied call")
            .request("Please pay.")
            .decisions(|_| Decision::Deny("not now".into())),
        scenario("a call superseded by a steer")
            .request("Please pay.")
            .steer("No, wait.")
            .when(waits),
        scenario("a call superseded by a request")
            .request("Please pay.")
            .request("Something else.")
            .when(waits),
        scenario("a result that asks for the end").request("Please finish."),
        scenario("a reply cut off at the length limit").request(LONG).request("And now?"),
        scenario("a steer")
            .request("Please look and send.")
            .steer(Prompt::from("Only here.").urgency(Urgency::AfterTurn))
            .when(calls),
        scenario("a steer during the first request")
            .request("Please look.")
            .steer(Prompt::from("Only here.").urgency(Urgency::AfterTurn))
            .when(asks),
        scenario("a steer that interrupts")
            .request("Tell a story.")
            .steer(Prompt::from("A short one.").urgency(Urgency::Interrupt))
            .when(asks),
        scenario("follow-ups")
            .request("One?")
            .follow_up("Two?")
            .when(asks)
            .follow_up("Three?")
            .when(asks),
    ]
}

/// Returns the situations for patterns that call no tools.
pub(crate) fn scenarios_without_calls(value: ValueFn) -> Vec<Scenario> {
    let all = scenarios(value).into_iter();
    all.filter(|s| !s.name().contains("call") && s.name() != "a steer").collect()
}

/// Asserts that the pattern keeps every rule of the suite in these scenarios: a crash or an abort
/// at every append leads to the same result.
pub(crate) async fn assert_conforms<P: BehaviorPattern + 'static>(
    pattern: impl Fn() -> P,
    scenarios: Vec<Scenario>,
) {
    let report = conformance::check(pattern, scenarios).await;
    let report = report.unwrap_or_else(|violation| panic!("{violation}"));
    assert!(report.sessions > 20 * report.scenarios, "{report:?}");
}

/// Asserts that a crash at every append leads to the same result.
pub(crate) async fn assert_survives_crashes<P: BehaviorPattern + 'static>(
    pattern: impl Fn() -> P,
    scenario: testing::ScriptedSession,
) {
    let agent =
        |model: ScriptedModel| equipped(GenericAgent::builder(model.clone(), pattern()), &model);
    let report = crash_at_every_append(agent, scenario).await.unwrap_or_else(|why| panic!("{why}"));
    assert!(report.compared == report.appends && report.requests > 0, "{report}");
}
