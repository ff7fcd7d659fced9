//! [`Bounded`]: another pattern works within a budget, and answers when that is used up.

use async_trait::async_trait;
use loopwright_core::limits::{Budget, Limit, WrapUp};
use loopwright_core::message::UserMessage;
use loopwright_core::model::ToolChoice;
use loopwright_core::{Ask, BehaviorPattern, StepContext, StepEnd, StepError};

/// A pattern that gives another one a budget of its own, and asks for an answer when the budget is
/// used up: what was done, what was found, and what is left.
///
/// ```text
/// then, within the budget ── done ─────────────▶ done
///   │ the budget is used up but for one request
///   ▼
/// answer, without tools ────────────────────────▶ done
/// ```
///
/// It bounds a part of an agent's work, such as the research in a graph; for a whole run, set
/// [`Limits::wrap_up`](loopwright_core::limits::Limits::wrap_up). The budget is for one request of
/// the user, over decisions and restarts, and has room for the answer. A budget of one turn is for
/// the answer alone. Once it is used up, later messages are answered at once, within the run's own
/// budget, which holds as well. The run ends without a limit.
///
/// From: "max iterations" with an early stopping method, as in LangChain's `AgentExecutor`, 2023.
///
/// **Use it** where half a result is better than none, and other work follows. **Do not use it** if
/// nothing follows: the limits of the agent do the same for the run.
///
/// ```
/// use loopwright_core::limits::Budget;
/// use loopwright_core::testing::{Script, ScriptedModel, TestTool};
/// use loopwright_core::{GenericAgent, RunContext};
/// use loopwright_patterns::{Bounded, PiPattern};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let look = || Script::calls([("a", "look", json!({}))]);
/// let model = ScriptedModel::new([look(), look(), Script::text("Two of ten are good.")]);
/// let pattern = Bounded::new("look", Budget::default().turns(3), PiPattern);
/// let tool = TestTool::new("look").answers("It is good.");
/// let agent = GenericAgent::builder(model, pattern).tool(tool).build()?;
/// let handle = agent.session().await?;
/// assert_eq!(handle.prompt("Are all ten good?").await?.text, "Two of ten are good.");
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Bounded<P> {
    key: String,
    budget: Budget,
    instruction: String,
    then: P,
}

impl<P: BehaviorPattern> Bounded<P> {
    /// Creates a pattern that lets `then` work within a budget. Parts with the same key share one.
    pub fn new(key: impl Into<String>, budget: Budget, then: P) -> Self {
        let instruction = WrapUp::new().instruction.to_string();
        Bounded { key: key.into(), budget, instruction, then }
    }

    /// Sets the instruction to the model for the answer.
    pub fn instruction(mut self, text: impl Into<String>) -> Self {
        self.instruction = text.into();
        self
    }
}

#[async_trait]
impl<P: BehaviorPattern> BehaviorPattern for Bounded<P> {
    fn inner(&self) -> Option<&dyn BehaviorPattern> {
        Some(&self.then)
    }

    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        loop {
            let rest = step.rest_of(&self.key, self.budget)?;
            match self.then.next_step(&mut step.with_budget(rest.keep(1))).await {
                Err(StepError::Limit(reached)) if matches!(reached.limit, Limit::Part(_)) => {}
                ended => return ended,
            }
            let text = format!("[This part of the work is at its limit. {}]", self.instruction);
            let ask = Ask::new().tool_choice(ToolChoice::None).also(UserMessage::from(text));
            step.ask_with(ask).await?.or_end()?;
            if !step.has_messages() {
                return Ok(StepEnd::Done);
            }
        }
    }
}
