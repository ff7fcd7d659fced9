//! [`Goal`]: another pattern works until a call succeeds or a judge says that the goal is reached.

mod builder;
mod check;
mod progress;

use std::sync::Arc;

use async_trait::async_trait;
use loopwright_core::limits::Budget;
use loopwright_core::message::UserMessage;
use loopwright_core::model::ToolChoice;
use loopwright_core::{Ask, BehaviorPattern, StepContext, StepEnd, StepError};

use check::{Check, Verdict};
use progress::{Progress, is_new};

pub use progress::{GoalEnd, GoalProgress};

const OVER: &str = "[The goal is not reached, and no more work is possible. Say what is done, what \
    is missing, and what you would try next.]";

/// A pattern that lets another one work until its goal is reached, and sends it back with what is
/// missing. When the rounds or the budget are used up, it says how far it came.
///
/// ```text
/// then ─▶ check ── reached ──────────────────────────────────────▶ done
///   ▲       │ not yet ── rounds or budget used up ─▶ a last answer ─▶ done
///   └── what is missing
/// ```
///
/// The check is a tool call or a detached request, once for each answer, whatever crashes. A call
/// goes through the usual approvals, is hidden from the model, and has reached the goal if it
/// succeeds, a command if its exit code is 0. What it returns is in the message that sends the
/// other pattern back. Messages that the user sends during a check are answered first, and the new
/// answer is checked. A message after the last answer begins another round.
///
/// Each round that does not reach the goal emits an event that says why, on one line:
/// [`GoalProgress`]. The last ten such notes are repeated in each message that sends the other
/// pattern back, so a compaction does not lose them. Each end of the work emits an event that says
/// whether the goal is reached: [`GoalEnd`].
///
/// From: the "ralph" loop of coding agents, 2025; "evaluator-optimizer" in Anthropic's *Building
/// effective agents*, 2024.
///
/// **Use it** where something can decide whether the work is done, such as tests. **Do not use it**
/// to make an answer better: [`Reflect`](crate::Reflect) keeps the last one when its rounds end.
///
/// ```
/// use loopwright_core::testing::{Script, ScriptedModel, TestTool};
/// use loopwright_core::{GenericAgent, RunContext};
/// use loopwright_core::session::Profile;
/// use loopwright_patterns::{Goal, PiPattern};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = ScriptedModel::new(["The door is open.", "It is locked now."].map(Script::text));
/// let judge = ScriptedModel::new([
///     Script::text(r#"{"reached": false, "why": "It is open."}"#),
///     Script::text(r#"{"reached": true, "why": "It is locked."}"#),
/// ]);
/// let judged = Profile::new().model("judge");
/// let pattern = Goal::judge("The door is locked.", judged, PiPattern).rounds(3);
/// let agent = GenericAgent::builder(model, pattern).model_named("judge", judge).build()?;
/// let handle = agent.session().await?;
/// assert_eq!(handle.prompt("Lock the door.").await?.text, "It is locked now.");
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Goal<P> {
    key: Arc<str>,
    check: Check,
    rounds: u32,
    budget: Budget,
    then: P,
}

#[async_trait]
impl<P: BehaviorPattern> BehaviorPattern for Goal<P> {
    fn inner(&self) -> Option<&dyn BehaviorPattern> {
        Some(&self.then)
    }

    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        loop {
            let Progress { round, over, .. } = step.state(&self.key).unwrap_or_default();
            if over.is_none_or(|at| step.has_messages() || is_new(step, at)) {
                let rest = step.rest_of(&self.key, self.budget)?.min(&step.left());
                let part = rest.keep(1 + self.check.requests());
                let checked = match self.then.next_step(&mut step.with_budget(part)).await {
                    Ok(StepEnd::Done) if step.is_answered() => {
                        let rest = step.rest_of(&self.key, self.budget)?.min(&step.left());
                        self.check.make(&mut step.with_budget(rest.keep(1)), &self.key).await
                    }
                    Ok(end) => return Ok(end),
                    Err(error) => Err(error),
                };
                let reached = match checked {
                    Ok(_) if step.has_messages() => continue, // the other pattern answers them
                    Ok(Verdict { reached: true, .. }) => true,
                    Ok(Verdict { why, .. }) => {
                        let text = progress::note(step, &self.key, self.rounds, &why).await?;
                        if round + 1 < self.rounds {
                            step.remember(UserMessage::from(text)).await?;
                            continue;
                        }
                        false
                    }
                    Err(StepError::Limit(at)) if progress::is_over(at.limit) => false,
                    Err(error) => return Err(error),
                };
                progress::end(step, &self.key, round + 1, reached)?;
            }
            if !progress::is_reached(step, &self.key) {
                let ask = Ask::new().tool_choice(ToolChoice::None).also(UserMessage::from(OVER));
                step.ask_with(ask).await?.or_end()?;
            }
            if !step.has_messages() {
                progress::emit(step, &self.key).await?;
                return Ok(StepEnd::Done);
            }
        }
    }
}
