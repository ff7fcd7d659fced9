//! The snapshot of a session, computed from its log.

use std::sync::Arc;

use crate::event::QueuedText;
use crate::event::input::{QueueKind, QueueMode};
use crate::log::queue::QueuedMessage;
use crate::log::state::SessionState;
use crate::model::ThinkingLevel;
use crate::session::state::AgentState;

/// Returns the state that the log of a session describes, without a reply that streams. The model
/// is taken from the last reply; settings of an agent are empty, or have their defaults.
/// `is_interrupted` means that nobody works on the run in progress.
pub(crate) fn snapshot(
    session: &Arc<str>,
    state: &SessionState,
    is_interrupted: bool,
) -> AgentState {
    let text = |w: &QueuedMessage| QueuedText::new(w.input.clone(), w.kind, w.message.text());
    let queued = |kind| state.queue.of(kind).map(text).collect();
    let mut replies = state.history.iter().filter_map(|message| message.as_assistant());
    let open_calls = state.calls().iter().filter(|c| c.result.is_none());
    AgentState {
        session_key: session.clone(),
        system_prompt: "".into(),
        model: replies.next_back().map(|reply| reply.model.clone()).unwrap_or_default(),
        thinking_level: ThinkingLevel::default(),
        messages: state.history.clone(),
        tools: Vec::new(),
        is_running: state.info.run.is_some() && !is_interrupted,
        is_streaming: false,
        streaming_message: None,
        settings: state.info.settings.clone(),
        pending_tool_calls: open_calls.map(|c| c.call.id.clone()).collect(),
        pending_actions: state.pending().map(|action| (**action).clone()).collect(),
        stages: state.stages.clone(),
        error: state.last_error.clone(),
        steering_queue: queued(QueueKind::Steering),
        steering_mode: QueueMode::default(),
        follow_up_queue: queued(QueueKind::FollowUp),
        follow_up_mode: QueueMode::default(),
        repaired: None,
        interrupted_run: state.info.run.filter(|_| is_interrupted),
        held: state.info.held,
        trace: state.trace.clone(),
    }
}
