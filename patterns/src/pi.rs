//! [`PiPattern`]: two loops. The inner loop calls tools and delivers steering messages, the outer
//! loop delivers follow-ups.

use async_trait::async_trait;
use loopwright_core::{BehaviorPattern, StepContext, StepEnd, StepError};

/// The two loops of pi: an outer loop for follow-ups, an inner loop for tools and steering.
///
/// ```text
/// take the input
///  └─ outer loop: deliver follow-ups when the agent would otherwise stop
///      └─ inner loop: deliver steering messages, ask the model, call its tools
///          └─ until there are no calls and no steering messages
/// ```
///
/// From: the agent of pi, a coding agent (`pi-mono`).
///
/// **Use it** for chats and coding agents: steers change the work in progress, follow-ups wait for
/// its end. **Do not use it** where that difference is not wanted: see
/// [`GenericPattern`](crate::GenericPattern).
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
                let reply = step.ask().await?.or_end()?;
                let batch = step.call_tools(&reply).await?.or_end()?;
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
