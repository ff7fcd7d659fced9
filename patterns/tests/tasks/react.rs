//! Task 2: ReAct in text, for a model without tool calls. The pattern reads the actions from the
//! text and makes the calls itself, so that they are validated, approved and logged like others.

// [pattern]
use loopwright_core::event::IncompleteReply;
use loopwright_core::message::UserMessage;
use loopwright_core::session::Call;
use loopwright_core::{Ask, BehaviorPattern, StepContext, StepEnd, StepError, async_trait};
use serde_json::Value;

const FORMAT: &str = "To use a tool, end with the lines `Action: NAME` and `Action Input: JSON`. \
    You get its result as `Observation:`. Otherwise end with `Final Answer:`. The tools:";

struct ReAct;

/// Returns the tool and the arguments of the action in a text.
fn action(text: &str) -> Option<(&str, Value)> {
    let (name, input) = text.split_once("Action:")?.1.split_once("Action Input:")?;
    let input = input.trim();
    Some((name.trim(), serde_json::from_str(input).unwrap_or(Value::String(input.into()))))
}

#[async_trait]
impl BehaviorPattern for ReAct {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        // [essential]
        let request = step.context().generate(&Ask::new()).await?;
        let tools = request.tools.iter();
        let tools = tools.map(|t| format!("\n{}: {} {}", t.name, t.description, t.schema));
        let tools: String = tools.collect();
        let system = format!("{} {FORMAT}{tools}", request.system);
        loop {
            if !step.is_answered() {
                step.take_messages().await?;
            }
            let ask = Ask::new().system(&*system).tools::<&str>([]).stop(["Observation:"]);
            let reply = step.ask_with(ask).await?.or_end()?;
            // A reply that was cut off runs none of its actions.
            let cut = reply.message().and_then(|m| IncompleteReply::of(m.as_assistant()?));
            if let Some((name, arguments)) = action(&reply.text()).filter(|_| cut.is_none()) {
                let key = format!("{:?}", reply.message().map(|message| message.id));
                let Some(done) = step.call(Call::new(name, arguments).key(key).hidden()).await?
                else {
                    return Ok(StepEnd::AwaitingAction);
                };
                step.remember(UserMessage::from(format!("Observation: {}", done.text()))).await?;
            } else if !step.has_messages() {
                return Ok(StepEnd::Done);
            } else {
                step.take_messages().await?;
            }
        }
        // [/essential]
    }
}
// [/pattern]

use loopwright_core::event::{Prompt, RunStatus, Urgency};
use loopwright_core::log::LogEntry;
use loopwright_core::message::StopReason;
use loopwright_core::testing::{Harness, Script, TestTool};
use loopwright_core::tool::{Approval, Effect};
use loopwright_patterns::conformance::Scenario;

use crate::kit::assert_conforms;

fn act(name: &str) -> Script {
    Script::text(&format!("I must {name}.\nAction: {name}\nAction Input: {{\"city\": \"Oslo\"}}"))
}

fn with_tools(agent: loopwright_core::AgentBuilder) -> loopwright_core::AgentBuilder {
    // Not at-most-once: the suite cannot see that an observation copies a result whose call has an
    // unknown outcome.
    let send = TestTool::new("send").effect(Effect::Idempotent);
    agent
        .tool(TestTool::new("look").answers("rain"))
        .tool(send.spec(|spec| spec.approval(Approval::Never)))
        .tool(TestTool::new("pay").effect(Effect::Idempotent))
        .tool(TestTool::new("login").suspends("login"))
}

#[tokio::test(start_paused = true)]
async fn an_action_in_the_text_is_a_call() {
    let replies = [act("look"), act("fly"), Script::text("Final Answer: rain")];
    let harness = Harness::new(ReAct, replies, |a| with_tools(a.system("You help."))).await;
    assert_eq!(harness.handle.prompt("Weather?").await.unwrap().text, "Final Answer: rain");
    let lines: Vec<String> =
        harness.transcript().await.into_iter().filter(|line| !line.contains("Action")).collect();
    let expected = [
        "U:Weather?",
        "A:[look]/ToolCalls",
        "R:look/Ok",
        "U:Observation: rain",
        "A:[fly]/ToolCalls",
        "R:fly/Error",
    ];
    assert_eq!(lines[..6], expected);
    assert!(lines[6].starts_with("U:Observation: ") && lines[6].contains("fly"), "{}", lines[6]);
    let requests = harness.model.requests();
    assert!(requests[0].system.starts_with("You help. To use a tool"));
    assert!(requests[0].system.contains("\nlook: A tool of a test. {"));
    // The model has no tools and sees no calls.
    assert!(requests.iter().all(|request| request.tools.iter().next().is_none()));
    let seen = requests[2].messages.iter();
    assert_eq!(seen.filter(|message| message.as_tool_result().is_some()).count(), 0);
    harness.check().await;
}

#[tokio::test(start_paused = true)]
async fn arguments_that_are_no_json_are_an_observation() {
    let broken = Script::text("Action: look\nAction Input: {\"city\"");
    let replies = [broken, Script::text("Final Answer: none")];
    let harness = Harness::new(ReAct, replies, with_tools).await;
    harness.handle.prompt("Weather?").await.unwrap();
    assert!(harness.transcript().await.contains(&"R:look/Error".to_owned()));
    harness.check().await;
}

/// A reply that was cut off runs none of its calls, even if its action is in the text.
#[tokio::test(start_paused = true)]
async fn an_action_that_was_cut_off_is_not_carried_out() {
    for stop in [StopReason::Length, StopReason::ContentFilter] {
        let look = TestTool::new("look");
        let harness = Harness::new(ReAct, [act("look").stop(stop)], |a| a.tool(look.clone())).await;
        let outcome = harness.handle.prompt("Weather?").await.unwrap();
        assert_eq!((outcome.end, look.ran()), (RunStatus::Incomplete, 0), "{stop:?}");
        harness.check().await;
    }
}

#[tokio::test(start_paused = true)]
async fn it_conforms() {
    let scenario = |name: &str, tools: &[&str]| {
        let replies = tools.iter().map(|tool| act(tool)).chain([Script::text("Final Answer: 1")]);
        Scenario::new(name, replies).agent(|agent, _| with_tools(agent))
    };
    let pause = std::time::Duration::from_millis(10);
    let slow = Script::new().stream(["Once ", "upon ", "a time"], pause).wait(pause);
    let (cut, answer) = (act("look").stop(StopReason::Length), Script::text("Final Answer: 1"));
    let started = |entry: &LogEntry| matches!(entry, LogEntry::RequestStarted { .. });
    let all = vec![
        scenario("a plain answer", &[]).request("Hello.").request("And now?"),
        scenario("calls", &["look", "send", "look"]).request("Look and send."),
        scenario("an approval", &["pay"]).request("Pay.").request("Thank you."),
        scenario("a call that suspends", &["login"]).request("Log in."),
        scenario("a denied call", &["pay"])
            .request("Pay.")
            .decisions(|_| loopwright_core::event::Decision::Deny("not now".into())),
        scenario("a call superseded by a request", &["pay"])
            .request("Pay.")
            .request("Something else.")
            .when(|entry| matches!(entry, LogEntry::CallAwaiting { .. })),
        scenario("a steer", &["look", "send"])
            .request("Look.")
            .steer(Prompt::from("Only here.").urgency(Urgency::AfterTurn))
            .when(|entry| matches!(entry, LogEntry::CallStarted { .. })),
        Scenario::new("a reply cut off at the length limit", [cut, act("look"), answer])
            .agent(|agent, _| with_tools(agent))
            .request("Look.")
            .request("And now?"),
        Scenario::new("a steer that interrupts", [slow])
            .request("Tell a story.")
            .steer(Prompt::from("A short one.").urgency(Urgency::Interrupt))
            .when(started),
        scenario("a follow-up", &["look"]).request("One?").follow_up("Two?").when(started),
    ];
    assert_conforms(|| ReAct, all).await;
}

/// C177
#[tokio::test(start_paused = true)]
async fn it_is_recorded() {
    let agent = |model| with_tools(loopwright_core::GenericAgent::builder(model, ReAct));
    let replies = [act("look"), act("pay"), Script::text("Final Answer: rain")];
    crate::cassettes::assert_agent_is_recorded(agent, replies, &["Weather?"]).await;
}
