//! [`Painter`]: a pattern that asks the user and calls a tool before the model is asked.

use loopwright_core::session::{Call, QuestionStatus};
use loopwright_core::tool::Question;
use loopwright_core::{BehaviorPattern, StepContext, StepEnd, StepError, async_trait};
use loopwright_patterns::PiPattern;
use serde_json::json;

pub(crate) struct Painter;

#[async_trait]
impl BehaviorPattern for Painter {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        match step.question("colour", Question::choice("Which?", ["red", "blue"])).await? {
            QuestionStatus::Answered(colour) if !step.state("announced").unwrap_or(false) => {
                step.set_state("announced", true)?;
                step.emit("colour", colour).await?;
            }
            QuestionStatus::Waiting => return Ok(StepEnd::AwaitingAction),
            _ => {}
        }
        let look = Call::new("look", json!({})).key("look");
        if step.call(look).await?.is_none() {
            return Ok(StepEnd::AwaitingAction);
        }
        PiPattern.next_step(step).await
    }
}
