//! The snapshot of a session, computed from its log.

use std::sync::Arc;

use crate::log::event::QueuedText;
use crate::log::fold::Fold;
use crate::log::input::QueueKind;
use crate::log::queue::QueuedMessage;
use crate::session::config::Config;
use crate::session::state::AgentState;

/// Returns the state of a session according to its log, without streaming reply and tools.
/// `is_interrupted` is set if nobody works on the run in progress.
pub(crate) fn snapshot(
    session: &Arc<str>,
    fold: &Fold,
    config: &Config,
    is_interrupted: bool,
) -> AgentState {
    let text = |w: &QueuedMessage| QueuedText::new(w.input.clone(), w.kind, w.message.text());
    let queued = |kind| fold.queue.of(kind).map(text).collect();
    let open_calls = fold.calls().iter().filter(|c| c.result.is_none());
    AgentState {
        session_key: session.clone(),
        system_prompt: config.system.clone(),
        model: config.model.info().id.clone(),
        thinking_level: config.thinking,
        messages: fold.history.clone(),
        tools: Vec::new(),
        is_running: fold.run.is_some() && !is_interrupted,
        is_streaming: false,
        streaming_message: None,
        settings: fold.settings.clone(),
        pending_tool_calls: open_calls.map(|c| c.call.id.clone()).collect(),
        pending_actions: fold.pending().map(|action| (**action).clone()).collect(),
        error: fold.last_error.clone(),
        steering_queue: queued(QueueKind::Steering),
        steering_mode: config.steering_mode,
        follow_up_queue: queued(QueueKind::FollowUp),
        follow_up_mode: config.follow_up_mode,
        repaired: None,
        interrupted_run: fold.run.filter(|_| is_interrupted),
        held: fold.owners.held(),
        trace: fold.trace.clone(),
    }
}
