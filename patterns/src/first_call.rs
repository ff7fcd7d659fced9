//! [`FirstCall`]: a pattern whose answer to each request begins with a tool call that the model
//! must make.

use async_trait::async_trait;
use loopwright_core::model::ToolChoice;
use loopwright_core::{Ask, BehaviorPattern, StepContext, StepEnd, StepError};

/// Makes the model call a tool first, and goes on with another pattern.
///
/// Only the first turn of a request is forced: a model that had to call a tool in each turn would
/// never answer. A model that does not heed the choice answers as it likes.
///
/// ```
/// use loopwright_core::model::ToolChoice;
/// use loopwright_patterns::{FirstCall, PiPattern};
///
/// let pattern = FirstCall::new(ToolChoice::Tool("search".into()), PiPattern);
/// # let _ = pattern;
/// ```
#[derive(Debug, Clone)]
pub struct FirstCall<P> {
    choice: ToolChoice,
    then: P,
}

impl<P: BehaviorPattern> FirstCall<P> {
    /// Each request's first turn has this choice; `then` is the loop from there on.
    pub fn new(choice: ToolChoice, then: P) -> Self {
        FirstCall { choice, then }
    }
}

#[async_trait]
impl<P: BehaviorPattern> BehaviorPattern for FirstCall<P> {
    fn system_instruction(&self, header: &str) -> String {
        self.then.system_instruction(header)
    }

    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        let request = step.user_request().map(|message| message.id);
        let unanswered =
            request.is_some() && step.history().last().map(|message| message.id) == request;
        if unanswered {
            let reply = step.ask_with(Ask::new().tool_choice(self.choice.clone())).await?;
            if reply.should_stop() {
                return reply.finish();
            }
            let batch = step.call_tools(&reply).await?;
            if batch.awaits_user() {
                return Ok(StepEnd::AwaitingAction);
            }
            if !batch.wants_reply() && !step.has_steering() && !step.take_follow_ups().await? {
                return Ok(StepEnd::Done);
            }
        }
        self.then.next_step(step).await
    }
}
