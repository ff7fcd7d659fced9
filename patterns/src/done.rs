//! When a pattern that answers itself is done.

use loopwright_core::{StepContext, StepError};

/// Delivers the messages that wait behind an answer, and returns whether there is nothing left to
/// answer. Before the answer they stay queued: a pattern then does the same after a crash.
pub(crate) async fn is_done(step: &mut StepContext<'_>) -> Result<bool, StepError> {
    if step.is_answered() {
        step.take_messages().await?;
    }
    Ok(step.is_answered())
}
