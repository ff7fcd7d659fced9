//! [`FirstCall`]: a pattern that forces a tool call in the first turn of each request.

use async_trait::async_trait;
use loopwright_core::model::ToolChoice;
use loopwright_core::{Ask, BehaviorPattern, StepContext, StepEnd, StepError};

/// A pattern that forces a tool call in the first turn of each request, then continues with another
/// pattern.
///
/// ```text
/// take_input ─▶ ask, with a tool choice ─▶ call_tools ─▶ then ─▶ done
/// ```
///
/// Only the first turn of a request is forced: a model that had to call a tool in each turn would
/// never answer. If the model ignores the tool choice, its reply is handled as usual. If a pattern
/// around this one rewinds the conversation to the request, the next turn is again the first one.
///
/// From: `tool_choice` of the providers' APIs.
///
/// **Use it** where every answer must begin with a look: at a file, at the state of an order.
/// **Do not use it** if the pattern can make the call itself, without a model: see
/// [`StepContext::call`] and [`Rag`](crate::Rag).
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
    /// Creates a pattern that sends `choice` with the first turn of each request and runs `then`
    /// for the rest.
    pub fn new(choice: ToolChoice, then: P) -> Self {
        FirstCall { choice, then }
    }
}

#[async_trait]
impl<P: BehaviorPattern> BehaviorPattern for FirstCall<P> {
    fn inner(&self) -> Option<&dyn BehaviorPattern> {
        Some(&self.then)
    }

    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        let request = step.user_request().map(|message| message.id);
        if request == Some(step.checkpoint()) {
            let reply =
                step.ask_with(Ask::new().tool_choice(self.choice.clone())).await?.or_end()?;
            let batch = step.call_tools(&reply).await?.or_end()?;
            if !batch.wants_reply() && !step.has_steering() && !step.take_follow_ups().await? {
                return Ok(StepEnd::Done);
            }
        }
        self.then.next_step(step).await
    }
}
