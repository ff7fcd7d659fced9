//! [`GenericPattern`]: one loop. Ask, call tools, ask again.

use async_trait::async_trait;
use loopwright_core::{BehaviorPattern, StepContext, StepEnd, StepError};

/// A pattern that answers a request in one loop, with as many rounds of tools as it needs.
///
/// Every message that the user sends during the run is delivered before the next request, in the
/// order of arrival, whether it is a steer or a follow-up. There is no second loop.
///
/// ```text
/// take_input ─▶ take_messages ─▶ ask ─▶ call_tools ─▶ results or messages? ── no ─▶ done
///                     ▲                                        │ yes
///                     └────────────────────────────────────────┘
/// ```
///
/// From: the loop of most agents that call tools.
///
/// **Use it** as the loop to copy, and where every message should reach the model as soon as
/// possible. **Do not use it** if follow-ups must wait until the agent would otherwise stop: see
/// [`PiPattern`](crate::PiPattern).
#[derive(Debug, Clone, Copy, Default)]
pub struct GenericPattern;

#[async_trait]
impl BehaviorPattern for GenericPattern {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        loop {
            step.take_messages().await?;
            let reply = step.ask().await?.or_end()?;
            let batch = step.call_tools(&reply).await?.or_end()?;
            if !batch.wants_reply() && !step.has_messages() {
                return Ok(StepEnd::Done);
            }
        }
    }
}
