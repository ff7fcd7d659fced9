//! [`AgentState`], a snapshot of a session.

use std::sync::Arc;

use serde_json::Value;

use crate::event::QueuedText;
use crate::event::action::ExternalAction;
use crate::event::input::QueueMode;
use crate::event::outcome::RunOutcome;
use crate::event::owner_note::Held;
use crate::log::stages::Stage;
use crate::log::turn::Used;
use crate::message::{AssistantMessage, CallId, History, RunId};
use crate::model::ThinkingLevel;
use crate::tool::ToolSpec;
use crate::trace_context::TraceContext;

/// A snapshot of a session.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AgentState {
    /// The session's id.
    pub session_key: Arc<str>,
    /// The system prompt of the agent, with the pattern's additions.
    pub system_prompt: Arc<str>,
    /// The model, as `provider/name`.
    pub model: Arc<str>,
    /// The thinking level of requests to the model.
    pub thinking_level: ThinkingLevel,
    /// All messages of the conversation, and shown replies to detached requests.
    pub messages: History,
    /// The tools of the current or last run.
    pub tools: Vec<Arc<ToolSpec>>,
    /// `true` while a run is in progress.
    pub is_running: bool,
    /// `true` while a reply is streaming.
    pub is_streaming: bool,
    /// The part of the reply that has streamed so far.
    pub streaming_message: Option<AssistantMessage>,
    /// The host's settings for opening the session again; see
    /// [`RunContext::settings`](crate::RunContext::settings).
    pub settings: Option<Arc<Value>>,
    /// The calls that have no result yet.
    pub pending_tool_calls: Vec<CallId>,
    /// The actions that wait for decisions.
    pub pending_actions: Vec<ExternalAction>,
    /// The stages of the pattern's work on the last request of the user. The current one has no
    /// end.
    pub stages: Vec<Stage>,
    /// The error of the last run.
    pub error: Option<Arc<str>>,
    /// The steering messages that wait.
    pub steering_queue: Vec<QueuedText>,
    /// Number of steering messages that the pattern takes at a time.
    pub steering_mode: QueueMode,
    /// The follow-ups that wait.
    pub follow_up_queue: Vec<QueuedText>,
    /// Number of follow-ups that the pattern takes at a time.
    pub follow_up_mode: QueueMode,
    /// A sentence about the repair of the session at opening; see
    /// [`Memory::repaired`](crate::Memory::repaired).
    pub repaired: Option<Arc<str>>,
    /// A run that a crash interrupted; `Continue` resumes it.
    pub interrupted_run: Option<RunId>,
    /// The reason why the session does nothing by itself, if its owners were lost.
    pub held: Option<Held>,
    /// The trace context of the current or last run, if the host gave one.
    pub trace: Option<Arc<TraceContext>>,
}

/// The state of a sub-agent's session, as its parent needs it.
pub(crate) struct Examined {
    pub(crate) is_interrupted: bool,
    pub(crate) pending: Vec<Arc<ExternalAction>>,
    pub(crate) outcome: Option<Arc<RunOutcome>>,
    pub(crate) used: Used,
}
