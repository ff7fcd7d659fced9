//! The end of patterns that write the answer themselves.

use loopwright_core::{StepContext, StepError};

/// Delivers the messages queued behind an answer, and returns whether all have been answered. They
/// stay queued until the answer, so that a pattern does the same after a crash.
pub(crate) async fn is_done(step: &mut StepContext<'_>) -> Result<bool, StepError> {
    if step.is_answered() {
        step.take_messages().await?;
    }
    Ok(step.is_answered())
}
