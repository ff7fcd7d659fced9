//! The position of a goal in the log.

use loopwright_core::StepContext;
use loopwright_core::message::{MessageId, MessageKind};
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
