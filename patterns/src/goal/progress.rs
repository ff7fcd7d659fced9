//! The position of a goal in the log, and the budget of its parts.

use loopwright_core::limits::{Budget, PartBudget};
use loopwright_core::message::{MessageId, MessageKind};
use loopwright_core::{StepContext, StepError};
use serde::{Deserialize, Serialize};

/// The rounds so far, and the last message when the work was over, if it is.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Progress {
    pub(crate) round: u32,
    pub(crate) over: Option<MessageId>,
}

/// Returns whether the user has sent a message since this one.
pub(crate) fn is_new(step: &StepContext<'_>, at: MessageId) -> bool {
    let mut since = step.messages().rev().take_while(|message| message.id > at);
    since.any(|message| matches!(message.body, MessageKind::User(_)))
}

/// Returns the budget of the next part of the work, which leaves room for so many requests.
pub(crate) fn budget_keeping(
    step: &mut StepContext<'_>,
    key: &str,
    budget: Option<Budget>,
    kept: u32,
) -> Result<PartBudget, StepError> {
    Ok(match budget {
        Some(budget) => step.rest_of(key, budget)?.keep(kept),
        None => step.left().keep(kept),
    })
}
