//! Errors, grouped by who handles them: the model, the loop or the caller.

mod failure;

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::limits::Limit;
use crate::message::CallId;

pub use failure::Failure;

/// Describes why a tool call failed. Every variant except [`ToolError::Suspend`] becomes an error
/// result, so the text should tell the model what to do differently.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// The call failed; the text tells the model why and what to do.
    #[error("{0}")]
    Failed(String),
    /// The call failed, and front ends get more information than the model: `details` are those of
    /// the result.
    #[error("{why}")]
    FailedWith {
        /// Tells the model why, and what to do.
        why: String,
        /// Data for front ends.
        details: Value,
    },
    /// The call stopped because [`ToolContext::cancelled`](crate::ToolContext::cancelled) resolved.
    #[error("cancelled")]
    Cancelled,
    /// The call needs something from outside first. It must be returned before any effect. After
    /// the decision the tool is called again with the same call id, and
    /// [`ToolContext::decision`](crate::ToolContext::decision) returns the decision.
    #[error("waiting for {}", .0.kind)]
    Suspend(ActionRequest),
}

impl ToolError {
    /// Builds a failure with a text for the model.
    pub fn failed(why: impl fmt::Display) -> Self {
        ToolError::Failed(why.to_string())
    }
}

/// Describes what a suspended tool call needs from outside.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ActionRequest {
    /// What kind of request it is, such as `login`.
    pub kind: String,
    /// Data for the front end that shows the request.
    #[serde(default)]
    pub data: Value,
}

impl ActionRequest {
    /// Builds a request of this kind with data for the front end.
    pub fn new(kind: impl Into<String>, data: impl Into<Value>) -> Self {
        ActionRequest { kind: kind.into(), data: data.into() }
    }
}

/// Describes why a model request failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ModelError {
    /// The kind of failure.
    pub kind: ModelErrorKind,
    /// A sentence for people: what was wrong, where, and what to do.
    pub message: String,
    /// The HTTP status, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// How long the provider asks to wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Duration>,
    #[serde(skip)]
    cause: Option<Arc<Failure>>,
}

impl ModelError {
    /// Builds an error of this kind.
    pub fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        ModelError { kind, message: message.into(), status: None, retry_after: None, cause: None }
    }

    /// Sets the error that caused this one, which [`Error::source`] returns. It is not serialised.
    pub fn with_source(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.cause = Some(Arc::new(Failure::new("").with_source(source)));
        self
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for ModelError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.as_ref()?.source()
    }
}

/// Classifies a [`ModelError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ModelErrorKind {
    /// The key is missing, wrong, or not allowed to make this request.
    Auth,
    /// Too many requests or tokens in a short time.
    RateLimited,
    /// A quota of a day or longer is used up; a short wait does not help.
    QuotaExhausted,
    /// The provider is overloaded or has an internal error.
    Overloaded,
    /// The request is larger than the model's context window.
    ContextOverflow,
    /// The provider rejects the request.
    InvalidRequest,
    /// The provider's content filter rejected the request or the reply.
    ContentFiltered,
    /// The connection failed or broke.
    Network,
    /// The provider did not answer in time.
    Timeout,
    /// The provider's response could not be parsed.
    Protocol,
    /// The provider could not parse what the model generated, such as a tool call that is not
    /// JSON. The next request should tell the model so.
    Malformed,
}

impl ModelErrorKind {
    /// Returns whether the same request can succeed later. After
    /// [`Malformed`](ModelErrorKind::Malformed) a different request is needed.
    pub fn is_retryable(self) -> bool {
        use ModelErrorKind::*;
        matches!(self, RateLimited | Overloaded | Network | Timeout | Protocol)
    }
}

/// Describes why an operation of a memory or a store failed. The stored data is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The log does not end where the writer expected: another owner has opened the session, or
    /// has written to it.
    #[error(
        "the session's log ends at entry {end}, not at {at}: another process has taken over the \
         session, open it again to continue"
    )]
    Conflict {
        /// The end that the writer expected.
        at: u64,
        /// The actual end.
        end: u64,
    },
    /// Another process, or another handle of this one, has the session open.
    #[error("the session `{0}` is in use: wait until it is closed, or close it there")]
    InUse(Arc<str>),
    /// There is no such session.
    #[error("there is no session `{0}`")]
    NoSession(Arc<str>),
    /// A session of that name exists.
    #[error("there is a session `{0}` already: choose another name")]
    Exists(Arc<str>),
    /// Other sessions share the start of its log.
    #[error(
        "the session `{session}` cannot be deleted, because others share the start of its log: \
         delete {} first", .branches.join(", ")
    )]
    HasBranches {
        /// The session.
        session: Arc<str>,
        /// The sessions that were forked from it.
        branches: Vec<String>,
    },
    /// The stored data is corrupt. The file was left untouched.
    #[error(transparent)]
    Damaged(Failure),
    /// The data was written by a newer version.
    #[error(
        "{source_name} was written by a newer version of loopwright (format {found}, this one \
         reads up to {known}): update loopwright to open it"
    )]
    Newer {
        /// The file, table or other origin of the data.
        source_name: String,
        /// Its format.
        found: u64,
        /// The newest format that this version can read.
        known: u64,
    },
    /// Reading or writing failed.
    #[error(transparent)]
    Failed(Failure),
}

impl MemoryError {
    /// Builds a [`Damaged`](MemoryError::Damaged) from an error or a message, as
    /// [`failed`](MemoryError::failed) does.
    pub fn damaged(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        MemoryError::Damaged(error.into().into())
    }

    /// Builds a [`Failed`](MemoryError::Failed) from an error or a message. An error's text becomes
    /// the message, and the error is the source.
    pub fn failed(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        MemoryError::Failed(error.into().into())
    }
}

/// Describes why a run cannot continue. Its text ends the run in `agent_end`.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// The model failed.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The session's memory failed; what it holds is still valid.
    #[error("the session's memory failed: {0}")]
    Memory(#[from] MemoryError),
    /// A budget is used up.
    #[error("{0} is reached")]
    Limit(Limit),
    /// The pattern sent a request while tool calls have no result yet.
    #[error(
        "{0} tool call(s) of the last reply have no result yet: call `call_tools` before the next \
         request"
    )]
    BatchOpen(usize),
    /// There is no message for a model to answer.
    #[error("there is nothing to answer: the conversation is empty or ends with the assistant")]
    NothingToAnswer,
    /// The answer did not fit the output schema, even after the retries.
    #[error("the answer does not fit the output schema: {0}")]
    Output(String),
    /// The pattern or a hook panicked.
    #[error("the behaviour pattern or a hook panicked: {0}")]
    Panicked(String),
    /// A tool source could not list its tools.
    #[error("the tools of source `{source_name}` could not be listed: {error}")]
    ToolSource {
        /// The source's prefix.
        source_name: String,
        /// The error that it returned, or why its tools cannot be used.
        #[source]
        error: Failure,
    },
    /// A cost limit is set, but the model has no prices.
    #[error(
        "a cost limit is set, but the prices of `{0}` are not known: give the model its prices, \
         or set no cost limit"
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
        "the process was interrupted in the middle of this run, and a new request came instead of \
         `Continue`"
    )]
    Interrupted,
    /// The pattern ended its step with
    /// [`StepEnd::AwaitingAction`](crate::StepEnd::AwaitingAction), but no call waits for a
    /// decision.
    #[error("the pattern ended its step `AwaitingAction`, but no call waits for a decision")]
    NothingPending,
    /// The pattern reports an error of its own.
    #[error(transparent)]
    Pattern(Failure),
}

impl StepError {
    /// Builds a [`Pattern`](StepError::Pattern) error from an error or a message. An error's text
    /// becomes the message, and the error is the source.
    ///
    /// ```
    /// use std::error::Error;
    ///
    /// use loopwright_core::StepError;
    ///
    /// fn parse(text: &str) -> Result<u32, StepError> {
    ///     text.parse().map_err(StepError::pattern)
    /// }
    ///
    /// assert!(parse("x").unwrap_err().source().is_some());
    /// assert_eq!(StepError::pattern("no plan").to_string(), "no plan");
    /// ```
    pub fn pattern(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        StepError::Pattern(error.into().into())
    }
}

/// Describes why an input was not accepted. The session is unchanged.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// A run is in progress.
    #[error(
        "a run is in progress: steer it, queue a follow-up, or send a request that waits its turn"
    )]
    Busy,
    /// Too many requests wait already.
    #[error("{0} requests wait already: try again when some are done")]
    Full(usize),
    /// There is nothing to continue from.
    #[error("there is nothing to continue: the conversation is empty or ends with the assistant")]
    NothingToContinue,
    /// An input with this id was accepted before.
    #[error("input `{0}` was accepted before, and its run is not repeated")]
    Known(Arc<str>),
    /// The call does not wait for a decision: it is unknown, or has been resolved.
    #[error("call `{0}` is not waiting for a decision")]
    NotPending(CallId),
    /// The arguments are not those that were shown.
    #[error(
        "the digest given for call `{0}` is not that of the arguments that would run: fetch the \
         pending action again"
    )]
    DigestDiffers(CallId),
    /// The edited arguments do not fit the tool's schema.
    #[error("the edited arguments do not fit the tool: {0}")]
    BadArguments(String),
    /// The decision does not fit what the call asks for.
    #[error("{0}")]
    BadDecision(String),
    /// The output schema of the request is not a valid schema.
    #[error("the output schema is not valid: {0}")]
    OutputSchema(String),
    /// The agent has no compaction policy.
    #[error("the agent does not compact: give it a policy with `AgentBuilder::compaction`")]
    NoCompaction,
    /// The conversation was not compacted and is unchanged.
    #[error("the conversation was not compacted: {0}")]
    NotCompacted(String),
    /// The session's memory failed; the input was not accepted.
    #[error("the input could not be recorded: {0}")]
    Memory(#[from] MemoryError),
    /// The session has ended.
    #[error("the session has ended")]
    Gone,
}

/// Describes why an agent could not be built or started.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// A tool cannot be used.
    #[error(transparent)]
    Tool(#[from] ToolboxError),
    /// The session's memory failed.
    #[error("the session could not be opened: {0}")]
    Memory(#[from] MemoryError),
    /// The output schema is not a valid schema.
    #[error("the output schema is not valid: {0}")]
    OutputSchema(String),
}

/// Describes why a tool cannot be added to a toolbox.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ToolboxError {
    /// The name is taken.
    #[error("there are two tools named `{0}`: rename one, or give its source a prefix")]
    Twice(Arc<str>),
    /// The name is not one that every provider accepts.
    #[error("`{0}` is not a valid tool name: use 1 to 64 of letters, digits, `_` and `-`")]
    Name(Arc<str>),
    /// The tool has only a schema, and schemas are not checked.
    #[error(
        "the arguments of tool `{0}` cannot be checked: enable the feature `schema` of \
         loopwright-core, or implement `Tool::check_arguments`"
    )]
    Unchecked(Arc<str>),
    /// The tool's schema is not a JSON Schema.
    #[error("the schema of tool `{name}` is not valid: {why}")]
    Schema {
        /// The tool.
        name: Arc<str>,
        /// What is wrong with it.
        why: String,
    },
}
