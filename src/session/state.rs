//! [`AgentState`]: a snapshot of a session.

use std::sync::Arc;

use serde_json::Value;

use crate::log::event::ExternalAction;
use crate::log::input::QueueMode;
use crate::message::{AssistantMessage, CallId, History, Message, RunId};
use crate::model::ThinkingLevel;
use crate::tool::ToolSpec;

/// Holds a snapshot of a session.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AgentState {
    /// The session's id.
    pub session_key: Arc<str>,
    /// The system prompt.
    pub system_prompt: Arc<str>,
    /// The model, as `provider/name`.
    pub model: Arc<str>,
    /// How much it thinks.
    pub thinking_level: ThinkingLevel,
    /// Everything that was said.
    pub messages: History,
    /// The tools of the present or last run.
    pub tools: Vec<Arc<ToolSpec>>,
    /// Whether a run goes on.
    pub is_running: bool,
    /// Whether a reply streams.
    pub is_streaming: bool,
    /// The reply that streams, as far as it has come.
    pub streaming_message: Option<AssistantMessage>,
    /// What the host needs to open the session again; see
    /// [`RunContext::settings`](crate::RunContext::settings).
    pub settings: Option<Arc<Value>>,
    /// Calls that have no result yet.
    pub pending_tool_calls: Vec<CallId>,
    /// Calls that wait for an answer from outside.
    pub pending_actions: Vec<ExternalAction>,
    /// The error of the last run.
    pub error: Option<Arc<str>>,
    /// Steering messages that wait.
    pub steering_queue: Vec<Arc<Message>>,
    /// How many of them are taken at a look.
    pub steering_mode: QueueMode,
    /// Follow-ups that wait.
    pub follow_up_queue: Vec<Arc<Message>>,
    /// How many of them are taken at a look.
    pub follow_up_mode: QueueMode,
    /// What had to be mended when the session was opened, a sentence for people; see
    /// [`Memory::repaired`](crate::Memory::repaired).
    pub repaired: Option<Arc<str>>,
    /// A run that a crash interrupted; `Continue` goes on with it.
    pub interrupted_run: Option<RunId>,
}
