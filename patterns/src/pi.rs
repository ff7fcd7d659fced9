//! [`PiPattern`]: the double loop. The inner one drives tools and hears steering, the outer one
//! takes follow-ups.

use async_trait::async_trait;
use loopwright_core::{BehaviorPattern, StepContext, StepEnd, StepError};

/// The loop of pi: outer loop for follow-ups, inner loop for tools and steering.
///
/// ```text
/// take the input
///  └─ outer loop: follow-ups, when the agent would stop
///      └─ inner loop: steering is put in, the model is asked, its tools are called
///          └─ until there are no calls and nobody steers
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct PiPattern;

#[async_trait]
impl BehaviorPattern for PiPattern {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        loop {
            // outer loop: follow-ups
            loop {
                // inner loop: tools and steering
                step.take_steering().await?;
                let reply = step.ask().await?;
                if reply.should_stop() {
                    return reply.finish();
                }
                let batch = step.call_tools(&reply).await?;
                if batch.awaits_user() {
                    return Ok(StepEnd::AwaitingAction);
                }
                if !batch.wants_reply() && !step.has_steering() {
                    break;
                }
            }
            if !step.take_follow_ups().await? {
                return Ok(StepEnd::Done);
            }
        }
    }
}
