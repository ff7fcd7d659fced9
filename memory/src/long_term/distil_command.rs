//! The command that distils a session: on request, and when the session ends.

use std::sync::Arc;

use async_trait::async_trait;
use loopwright_core::agent::InputError;
use loopwright_core::event::RunOutcome;
use loopwright_core::hooks::{Conversation, HookContext, Hooks};
use loopwright_core::message::MessageKind;
use loopwright_core::session::AgentState;
use loopwright_core::{AgentHandle, Message};

/// The request that makes a pattern built with [`Distil::on_command`](super::Distil::on_command)
/// distil facts from the conversation. The pattern carries it out itself.
pub const DISTIL_COMMAND: &str = "/memory distil";

/// Returns whether [`distil_session`] would send the command: the session is idle, nothing waits
/// for the user, and the user has written something since the last command was carried out.
///
/// The agent's pattern must be built with [`Distil::on_command`](super::Distil::on_command). For
/// other patterns the command is an ordinary message.
pub fn is_distil_due(state: &AgentState) -> bool {
    let is_idle = !state.is_running && state.interrupted_run.is_none();
    let is_waiting = !state.pending_actions.is_empty()
        || !state.steering_queue.is_empty()
        || !state.follow_up_queue.is_empty();
    is_idle && !is_waiting && has_new_messages(&state.messages)
}

/// Distils facts from a session; for a host to call when the session ends. Sends [`DISTIL_COMMAND`]
/// if it [is due](is_distil_due) and waits for the end of the run. Returns `None` if it is not.
///
/// The request belongs to the session: it is logged, and counts against the limits of the agent.
/// The log records the last processed message, so a session that ends twice sends one request.
///
/// # Errors
///
/// Fails if the session has ended, or if its log cannot be written. A run that failed is not an
/// error: the outcome reports it, and the next call repeats the run.
pub async fn distil_session(handle: &AgentHandle) -> Result<Option<RunOutcome>, InputError> {
    match is_distil_due(&handle.state().await?) {
        true => handle.prompt(DISTIL_COMMAND).await.map(Some),
        false => Ok(None),
    }
}

/// Returns whether the user has written something since the last answered command.
fn has_new_messages(messages: &[Arc<Message>]) -> bool {
    let (mut is_new, mut follows_command) = (false, false);
    for message in messages {
        let is_command = is_command(message);
        match &message.body {
            MessageKind::User(_) if !is_command => is_new = true,
            MessageKind::Assistant(_) if follows_command => is_new = false,
            _ => {}
        }
        follows_command = is_command;
    }
    is_new
}

/// Returns whether a message is the command.
pub(super) fn is_command(message: &Message) -> bool {
    matches!(message.body, MessageKind::User(_)) && message.text().trim() == DISTIL_COMMAND
}

/// Returns the messages that are neither a command nor the answer to one.
pub(super) fn without_commands(messages: &[Arc<Message>]) -> Vec<Arc<Message>> {
    let mut follows_command = false;
    let is_kept = |message: &&Arc<Message>| {
        let is_command = is_command(message);
        let is_answer = follows_command && message.as_assistant().is_some();
        follows_command = is_command;
        !is_command && !is_answer
    };
    messages.iter().filter(is_kept).cloned().collect()
}

/// A hook that removes commands and their answers from requests. They are about the session, and
/// not part of the conversation.
pub(super) struct HideCommands;

#[async_trait]
impl Hooks for HideCommands {
    async fn transform_context(
        &self,
        _: &HookContext,
        messages: &Conversation,
    ) -> Option<Vec<Arc<Message>>> {
        messages.iter().any(|message| is_command(message)).then(|| without_commands(messages))
    }
}
