//! Errors, by who they are for: the model, the loop, the caller.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::limits::Limit;
use crate::message::CallId;

/// A tool could not do its work. All but [`ToolError::Suspend`] become an error result, so the
/// text is written for the model.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// It failed; the text tells the model why and what to do.
    #[error("{0}")]
    Failed(String),
    /// It failed, and front ends can be told more than the model: `details` are those of the
    /// result.
    #[error("{why}")]
    FailedWith {
        /// Tells the model why and what to do.
        why: String,
        /// For front ends.
        details: Value,
    },
    /// It stopped because [`ToolContext::cancelled`](crate::ToolContext::cancelled) said so.
    #[error("cancelled")]
    Cancelled,
    /// It needs something from outside first. Returned before any effect; after the decision the
    /// tool is called again with the same call id, and
    /// [`ToolContext::decision`](crate::ToolContext::decision) returns it.
    #[error("waiting for {}", .0.kind)]
    Suspend(ActionRequest),
}

impl ToolError {
    /// A failure with a text for the model.
    pub fn failed(why: impl std::fmt::Display) -> Self {
        ToolError::Failed(why.to_string())
    }
}

/// What a suspended tool needs from outside.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ActionRequest {
    /// A name for the kind of need, such as `login`.
    pub kind: String,
    /// What to show.
    #[serde(default)]
    pub data: Value,
}

/// A model request failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct ModelError {
    /// What kind of failure.
    pub kind: ModelErrorKind,
    /// A sentence for people: what was wrong, where, what to do.
    pub message: String,
    /// The HTTP status, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// How long the provider asks to wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Duration>,
}

impl ModelError {
    /// An error of this kind.
    pub fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        ModelError { kind, message: message.into(), status: None, retry_after: None }
    }
}

/// Kinds of [`ModelError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ModelErrorKind {
    /// The key is missing, wrong or not allowed to do this.
    Auth,
    /// Too many requests or tokens for now.
    RateLimited,
    /// A quota of a day or longer is used up: to wait a little does not help.
    QuotaExhausted,
    /// The provider has too much to do, or an error of its own.
    Overloaded,
    /// The request is larger than the model's context window.
    ContextOverflow,
    /// The provider refuses the request as it is.
    InvalidRequest,
    /// The provider's filter refused.
    ContentFiltered,
    /// The connection failed or broke.
    Network,
    /// No answer in time.
    Timeout,
    /// The answer could not be understood.
    Protocol,
    /// The server could not read what the model wrote, such as a call that is no JSON. The model
    /// has to be told.
    Malformed,
}

impl ModelErrorKind {
    /// Whether the same request can succeed later. What is [`Malformed`](ModelErrorKind::Malformed)
    /// asks for another one, which tells the model so.
    pub fn is_retryable(self) -> bool {
        use ModelErrorKind::*;
        matches!(self, RateLimited | Overloaded | Network | Timeout | Protocol)
    }
}

/// A memory could not do its work. What was in it before is still there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The log's end is elsewhere: another owner has opened the session, or wrote to it.
    #[error(
        "the session's log ends at item {end}, not at {at}: another process has taken the session over, open it again to go on"
    )]
    Conflict {
        /// Where the writer thought the end was.
        at: u64,
        /// Where it is.
        end: u64,
    },
    /// Another process, or another handle of this one, has the session open.
    #[error(
        "the session `{0}` is in use: wait until whoever has it open is done with it, or close it there"
    )]
    InUse(Arc<str>),
    /// There is no such session.
    #[error("there is no session `{0}`")]
    NoSession(Arc<str>),
    /// There is a session of that name already.
    #[error("there is a session `{0}` already: choose another name")]
    Exists(Arc<str>),
    /// Others share its past.
    #[error("the session `{session}` cannot be deleted, because others share its past: delete {} first", .branches.join(", "))]
    HasBranches {
        /// The session.
        session: Arc<str>,
        /// The sessions that were forked from it.
        branches: Vec<String>,
    },
    /// What was written is not as it was written. Nothing was changed.
    #[error("{0}")]
    Damaged(String),
    /// It was written by a newer version.
    #[error(
        "{place} was written by a newer version of loopwright (format {found}, this one knows {known}): update loopwright to open it"
    )]
    Newer {
        /// The file.
        place: String,
        /// Its format.
        found: u64,
        /// The newest format that this version knows.
        known: u64,
    },
    /// Reading or writing failed.
    #[error("{0}")]
    Failed(String),
}

/// A run cannot go on. It ends with this in `agent_end`.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// The model failed.
    #[error("{0}")]
    Model(#[from] ModelError),
    /// The session's memory failed; what it holds is still true.
    #[error("the session's memory failed: {0}")]
    Memory(#[from] MemoryError),
    /// A budget is used up.
    #[error("{0} is reached")]
    Limit(Limit),
    /// A pattern asked while calls have no result; `call_tools` comes first.
    #[error(
        "{0} tool call(s) of the last reply have no result yet: call_tools comes before the next request"
    )]
    BatchOpen(usize),
    /// There is nothing that a model could answer.
    #[error("there is nothing to answer: the conversation is empty or ends with the assistant")]
    NothingToAnswer,
    /// The answer does not fit the output schema, as often as it was sent back.
    #[error("the answer does not fit the output schema: {0}")]
    Output(String),
    /// The pattern, or a hook, panicked.
    #[error("the behaviour pattern or a hook panicked: {0}")]
    Panicked(String),
    /// A tool source could not list its tools.
    #[error("the tools of source `{source_name}` could not be listed: {why}")]
    ToolSource {
        /// The source's prefix.
        source_name: String,
        /// What it said.
        why: String,
    },
    /// A cost limit is set and the prices of the model are not known.
    #[error(
        "a cost limit is set, but the prices of `{0}` are not known: give the model its prices, or set no cost limit"
    )]
    NoPrices(Arc<str>),
    /// The agent has no model of the requested name.
    #[error("no model is named `{name}`; the agent was given: {}", .known.join(", "))]
    UnknownModel {
        /// The requested name.
        name: String,
        /// The names that the agent was given.
        known: Vec<String>,
    },
    /// The compaction policy planned to replace messages that cannot be replaced.
    #[error("the compaction policy made an invalid plan: {0}")]
    CompactionPlan(String),
    /// The model answered a request for a summary without text.
    #[error("the model answered without a summary")]
    EmptySummary,
    /// The process ended during the run, and a new request came instead of `Continue`.
    #[error(
        "the process was interrupted in the middle of this run, and a new request came instead of `Continue`"
    )]
    Interrupted,
    /// The pattern reports an error of its own, or made a call that is not allowed.
    #[error("{0}")]
    Pattern(String),
}

/// An input was not accepted. Nothing has changed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// A run is going on.
    #[error("a run is going on: steer it, queue a follow-up, or send the request to wait its turn")]
    Busy,
    /// Too many requests wait already.
    #[error("{0} requests wait already: try again when some are done")]
    Full(usize),
    /// There is nothing to continue from.
    #[error("there is nothing to continue: the conversation is empty or ends with the assistant")]
    NothingToContinue,
    /// This input was taken before.
    #[error("input `{0}` was taken before, and its run is not repeated")]
    Known(Arc<str>),
    /// The call waits for no answer: it is unknown, or has been answered.
    #[error("call `{0}` is not waiting for an answer")]
    NotPending(CallId),
    /// The arguments are not those that were shown.
    #[error(
        "the digest given for call `{0}` is not that of the arguments that would run: look at the pending action again"
    )]
    DigestDiffers(CallId),
    /// The edited arguments do not fit the tool's schema.
    #[error("the edited arguments do not fit the tool: {0}")]
    BadArguments(String),
    /// The answer makes no sense for this call.
    #[error("{0}")]
    BadDecision(String),
    /// The output schema of the request is not one.
    #[error("the output schema is not valid: {0}")]
    OutputSchema(String),
    /// The agent has no policy for it.
    #[error("the agent does not compact: give it a policy with `AgentBuilder::compaction`")]
    NoCompaction,
    /// The conversation is as it was before.
    #[error("the conversation was not compacted: {0}")]
    NotCompacted(String),
    /// The session's memory failed; the input was not taken.
    #[error("the input could not be recorded: {0}")]
    Memory(#[from] MemoryError),
    /// The session has ended.
    #[error("the session has ended")]
    Gone,
}

/// An agent could not be built or started.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// A tool cannot be used.
    #[error(transparent)]
    Tool(#[from] ToolboxError),
    /// The session's memory failed.
    #[error("the session could not be opened: {0}")]
    Memory(#[from] MemoryError),
    /// The output schema is not one.
    #[error("the output schema is not valid: {0}")]
    OutputSchema(String),
}

/// A tool cannot be added to a toolbox.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ToolboxError {
    /// There is one of that name already.
    #[error("there are two tools named `{0}`: rename one, or give its source a prefix")]
    Twice(Arc<str>),
    /// The name is not one that every provider accepts.
    #[error("`{0}` is no legal tool name: 1 to 64 of letters, digits, `_` and `-`")]
    Name(Arc<str>),
    /// It has only a schema, and schemas are not checked.
    #[error(
        "the arguments of tool `{0}` cannot be checked: enable the feature `schema` of loopwright-core, or implement `Tool::check_arguments`"
    )]
    Unchecked(Arc<str>),
    /// Its schema is not a JSON Schema.
    #[error("the schema of tool `{name}` is not valid: {why}")]
    Schema {
        /// The tool.
        name: Arc<str>,
        /// What is wrong.
        why: String,
    },
}
