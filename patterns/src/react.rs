//! [`ReAct`]: tools for models without tool calling.

use async_trait::async_trait;
use loopwright_core::event::IncompleteReply;
use loopwright_core::message::{AssistantMessage, UserMessage};
use loopwright_core::session::{Call, Profile};
use loopwright_core::{Ask, BehaviorPattern, StepContext, StepEnd, StepError};
use serde_json::Value;

/// A pattern that lets a model without tool calling use tools: the model writes actions as text and
/// gets the results as observations.
///
/// ```text
/// take_input ─▶ ask, up to "Observation:" ── final answer ─▶ messages? ── no ─▶ done
///                  ▲           │ action                         │ yes
///                  │           ▼                                │
///                  ├── call ─▶ observation                      │
///                  └────────────────────────────────────────────┘
/// ```
///
/// An action is a call like any other: its arguments are validated, it may need approval, and front
/// ends show it. The log has it under the number of the message that asked for it, so a crash does
/// not make it twice. A reply that the length limit or a content filter cut off makes no calls. The
/// model sees only the text. The user sees it too: the answer contains the model's reasoning and
/// the words "Final Answer:".
///
/// From: Yao et al., *ReAct: Synergizing Reasoning and Acting in Language Models*, 2022.
///
/// **Use it** with local models that cannot call tools. **Do not use it** with others: tool calls
/// of a model are more reliable than its text, and may be made in parallel.
///
/// ```
/// use loopwright_core::testing::{Harness, Script, TestTool};
/// use loopwright_patterns::ReAct;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let replies = [
///     "I must look it up.\nAction: weather\nAction Input: {\"city\": \"Oslo\"}",
///     "Final Answer: It rains.",
/// ];
/// let weather = TestTool::new("weather").answers("rain");
/// let harness = Harness::new(ReAct, replies.map(Script::text), |agent| agent.tool(weather)).await;
/// assert_eq!(harness.handle.prompt("Oslo?").await.unwrap().text, "Final Answer: It rains.");
/// # }
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct ReAct;

const FORMAT: &str = "To use a tool, end with the lines `Action: NAME` and `Action Input: JSON`. \
    You get its result as `Observation:`. Otherwise end with `Final Answer:`. The tools:";

/// Returns the tool and the arguments of the last action in a text.
fn action(text: &str) -> Option<(&str, Value)> {
    let (name, input) = text.rsplit_once("Action:")?.1.split_once("Action Input:")?;
    let input = input.trim();
    Some((name.trim(), serde_json::from_str(input).unwrap_or_else(|_| Value::from(input))))
}

#[async_trait]
impl BehaviorPattern for ReAct {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        loop {
            if !step.is_answered() {
                step.take_messages().await?;
            }
            let offered = step.context().generate(&Ask::new()).await?.tools;
            let tools = offered.iter();
            let tools = tools.map(|t| format!("\n{}: {} {}", t.name, t.description, t.schema));
            let format =
                Profile::new().instruction(format!("{FORMAT}{}", tools.collect::<String>()));
            let ask = Ask::new().profile(&format).tools::<&str>([]).stop(["Observation:"]);
            let reply = step.ask_with(ask).await?.or_end()?;
            // A reply that was cut off runs none of its actions.
            let is_whole = |m: &AssistantMessage| IncompleteReply::of(m).is_none();
            let asks = reply.message().filter(|m| m.as_assistant().is_some_and(is_whole));
            if let (Some((name, arguments)), Some(asks)) = (action(&reply.text()), asks) {
                let mut text = format!("There is no tool `{name}`.");
                if offered.iter().any(|tool| *tool.name == *name) {
                    // The key names the message that asks for the call.
                    let call = Call::new(name, arguments).key(format!("react-{}", asks.id.0));
                    let result = step.call(call.hidden()).await?;
                    text = result.ok_or(StepEnd::AwaitingAction)?.text();
                }
                step.remember(UserMessage::from(format!("Observation: {text}"))).await?;
            } else if step.has_messages() {
                step.take_messages().await?;
            } else {
                return Ok(StepEnd::Done);
            }
        }
    }
}
