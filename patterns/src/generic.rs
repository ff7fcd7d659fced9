//! [`GenericPattern`]: ask, call tools, ask again.

use async_trait::async_trait;
use loopwright_core::{BehaviorPattern, StepContext, StepEnd, StepError};

/// The generic loop: one request of the user, answered with as many rounds of tools as it needs.
///
/// What the user sends while it works is put in before the next request, whether it was meant to
/// steer or to follow up; there is no second loop.
#[derive(Debug, Clone, Copy, Default)]
pub struct GenericPattern;

#[async_trait]
impl BehaviorPattern for GenericPattern {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        loop {
            step.take_steering().await?;
            let reply = step.ask().await?;
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
    }
}
