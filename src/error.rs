//! Errors, grouped by their handler: the model, the loop or the caller.

mod failure;
mod memory;
mod model;
mod retrieval;
mod schedule;
mod tool;

use std::error::Error;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::limits::LimitReached;
use crate::message::{CallId, MessageId, RunId};
use crate::step_end::StepEnd;

pub use failure::Failure;
pub use memory::MemoryError;
pub use model::{ModelError, ModelErrorKind};
pub use retrieval::RetrievalError;
pub use schedule::InvalidSchedule;
pub use tool::{ActionRequest, ToolError, ToolboxError};

/// The reason why a run cannot continue. Its text ends the run in `agent_end`.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// The model failed.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The session's memory failed. Its stored data is still valid.
    #[error("the session's memory failed: {0}")]
    Memory(#[from] MemoryError),
    /// A budget is used up, or too small for the next request.
    #[error("{0}")]
    Limit(LimitReached),
    /// The pattern sent a request, or added a message, while tool calls have no result yet.
    #[error(
        "{0} tool call(s) of the last reply have no result yet: call `call_tools` before the next \
         request or message"
    )]
    BatchOpen(usize),
    /// The pattern would add an assistant message with tool calls, which no results could follow.
    #[error(
        "an assistant message with tool calls cannot be remembered: only calls of a reply to `ask` \
         get results; leave the calls out"
    )]
    CallsWithoutReply,
    /// The conversation has no message for a model to answer.
    #[error("there is nothing to answer: the conversation is empty or ends with the assistant")]
    NothingToAnswer,
    /// The answer did not fit the output schema, even after the retries.
    #[error("the answer does not fit the output schema: {0}")]
    Output(String),
    /// The pattern or a hook panicked.
    #[error("the behaviour pattern or a hook panicked: {0}")]
    Panicked(String),
    /// A tool source could not list its tools, or one of them is not valid.
    #[error("the tools of source `{source_name}` cannot be used: {error}")]
    ToolSource {
        /// The source's prefix.
        source_name: String,
        /// The error that the source returned, or the reason why its tools cannot be used.
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
        /// The names of the agent's models.
        known: Vec<String>,
    },
    /// The compaction policy planned to replace messages that cannot be replaced.
    #[error("the compaction policy made an invalid plan: {0}")]
    CompactionPlan(String),
    /// The pattern would rewind the conversation to a message that is not part of it, or that is
    /// followed by the results of calls.
    #[error("the conversation cannot be rewound to {to}: {why}")]
    Rewind {
        /// The message that the pattern would rewind to.
        to: MessageId,
        /// The reason why that is impossible.
        why: &'static str,
    },
    /// The model answered a request for a summary without text.
    #[error("the model answered without a summary")]
    EmptySummary,
    /// The process ended during the run, and a new request came instead of `Continue`.
    #[error(
        "the process was interrupted in the middle of this run, and a new request came instead of \
         `Continue`"
    )]
    Interrupted,
    /// The pattern ended its step with [`StepEnd::AwaitingAction`], but no call waits for a
    /// decision.
    #[error("the pattern ended its step `AwaitingAction`, but no call waits for a decision")]
    NothingPending,
    /// The pattern ended its step with [`StepEnd::Sleeping`], but waits for nothing.
    #[error(
        "the pattern ended its step `Sleeping`, but waits for nothing: call `sleep_until` or \
         `wait_for_event` before"
    )]
    NoWait,
    /// The pattern began a wait that the session cannot have.
    #[error("the pattern cannot wait: {0}")]
    InvalidWait(&'static str),
    /// The pattern gave a key to two calls, to a call and a question, or to two requests that it
    /// sends together. Keys are unique within a user's request.
    #[error("the key `{key}` is taken by {by}: give each call, question and request its own key")]
    KeyTaken {
        /// The key that the pattern used twice.
        key: Arc<str>,
        /// The call, question or request that already has the key.
        by: Arc<str>,
    },
    /// A request that has a key, is shown, or is one of several requests is not detached.
    #[error(
        "only detached requests can have a key, be shown or be sent together: build them with \
         `Ask::detached`"
    )]
    NotDetached,
    /// The question cannot be asked.
    #[error("the question cannot be asked: {0}")]
    Question(String),
    /// A value for the log, such as a state, cannot be written as JSON.
    #[error("a value cannot be written as JSON: {0}")]
    NotJson(#[source] Failure),
    /// The step ends without a failure, as if the pattern returned this value, because calls wait
    /// for decisions or a hook ended the run. Methods such as
    /// [`Reply::or_end`](crate::Reply::or_end) return it, so that `?` ends the step, even through
    /// patterns that wrap this one.
    #[error("the step ended with {0:?}")]
    Ended(StepEnd),
    /// A steer with [`Urgency::Interrupt`](crate::event::Urgency::Interrupt) interrupted a request.
    /// This is not a failure: the engine delivers the steer and enters the pattern again.
    #[error("a steer interrupted the request")]
    Steered,
    /// An error of the pattern itself.
    #[error(transparent)]
    Pattern(Failure),
}

impl StepError {
    /// Builds a [`Pattern`](StepError::Pattern) error from another error, whose text becomes the
    /// message. For a message alone, write `StepError::Pattern("no plan".into())`.
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
    /// assert!(StepError::Pattern("no plan".into()).source().is_none());
    /// ```
    pub fn pattern(error: impl Error + Send + Sync + 'static) -> Self {
        StepError::Pattern(Failure::of(error))
    }
}

/// Ends the step with `?`: `step.call_all(calls).await?.ok_or(StepEnd::AwaitingAction)?`.
impl From<StepEnd> for StepError {
    fn from(end: StepEnd) -> Self {
        StepError::Ended(end)
    }
}

/// The reason why an input was not accepted. The session is unchanged.
///
/// Refusals of the session can be serialised. The other errors, which leave the fate of the input
/// unknown, cannot.
#[derive(Debug, Clone, PartialEq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum InputError {
    /// A run is in progress.
    #[error(
        "a run is in progress: steer it, queue a follow-up, or send a request that waits its turn"
    )]
    Busy,
    /// Too many requests already wait.
    #[error("{0} requests wait already: try again when some are done")]
    Full(usize),
    /// Too many steers and follow-ups already wait, or too large ones.
    #[error(
        "{messages} messages with {bytes} bytes are queued already, and at most 1,000 messages \
         wait, or as many as fill 1 MiB: try again when some were delivered, or withdraw them"
    )]
    QueueFull {
        /// The number of waiting steers and follow-ups.
        messages: usize,
        /// The bytes of their content.
        bytes: usize,
    },
    /// The run that an abort names is neither in progress nor waits for decisions.
    #[error("there is nothing to abort: run {0} has ended, or there is no such run")]
    NothingToAbort(RunId),
    /// The conversation has no end to continue from.
    #[error("there is nothing to continue: the conversation is empty or ends with the assistant")]
    NothingToContinue,
    /// The input is neither a request nor a continuation, so it has no outcome of a run.
    #[error("the input starts no run: use `AgentHandle::send`")]
    #[serde(skip)]
    StartsNoRun,
    /// An input with this id was accepted before.
    #[error("input `{0}` was accepted before, and its run is not repeated")]
    Known(Arc<str>),
    /// An input with this id was refused before, so this one is refused too.
    #[error("input `{id}` was refused before: {why}; a new attempt needs a new id")]
    #[serde(skip)]
    AlreadyRefused {
        /// The client's id of both inputs.
        id: Arc<str>,
        /// The reason for the first refusal.
        #[source]
        why: Box<InputError>,
    },
    /// The call does not wait for a decision: it is unknown, or has been resolved.
    #[error("call `{0}` is not waiting for a decision")]
    NotPending(CallId),
    /// The decision was sent at or after the deadline of the call.
    #[error("the deadline of call `{0}` had passed when the decision was sent")]
    DeadlinePassed(CallId),
    /// The digest of the decision is not the digest of the pending action.
    #[error(
        "the digest given for call `{0}` is not that of the arguments that would run: fetch the \
         pending action again"
    )]
    DigestDiffers(CallId),
    /// The edited arguments do not fit the tool's schema.
    #[error("the edited arguments do not fit the tool: {0}")]
    BadArguments(String),
    /// The agent has no tool for the call, so it cannot run.
    #[error(
        "the agent has no tool `{0}`: open the session with an agent that has it, or deny the call"
    )]
    NoTool(Arc<str>),
    /// The decision does not fit the request of the call.
    #[error("{0}")]
    BadDecision(String),
    /// The output schema of the request is invalid, or the feature `schema` is off.
    #[error("the output schema cannot be used: {0}")]
    OutputSchema(String),
    /// No sub-agent works for the call that a steer names.
    #[error("no sub-agent works for the call `{0}`: it has ended, or waits for a decision")]
    NoSubAgent(CallId),
    /// The signal's key or value has the wrong size.
    #[error("the signal cannot be taken: {0}")]
    BadSignal(String),
    /// Too many signals wait that the pattern has not taken.
    #[error(
        "the session keeps {0} signals that its agent has not waited for: send this one again, \
         under a new id, when the agent has taken some"
    )]
    SignalsFull(usize),
    /// The agent has no compaction policy.
    #[error("the agent does not compact: give it a policy with `AgentBuilder::compaction`")]
    NoCompaction,
    /// The conversation was not compacted and is unchanged.
    #[error("the conversation was not compacted: {0}")]
    NotCompacted(#[source] Failure),
    /// The input cannot be posted to a session that another process has open.
    #[error("the input cannot be posted: {0}")]
    NotPostable(Arc<str>),
    /// The input waited in the mailbox for a person, and an abort dropped it.
    #[error(
        "the input was dropped by an abort: it waited, since processes ended while they worked on \
         this session"
    )]
    Dropped,
    /// The session's memory failed. The input was not accepted.
    #[serde(skip)]
    #[error("the input could not be recorded: {0}")]
    Memory(#[from] MemoryError),
    /// Another process has taken over the session.
    #[error("another process has taken over the session: open it again, or send the input there")]
    #[serde(skip)]
    Moved,
    /// The session has ended.
    #[error("the session has ended")]
    #[serde(skip)]
    Gone,
}

impl InputError {
    /// Returns whether the queue that the input is for is full.
    pub(crate) fn is_full(&self) -> bool {
        use InputError::*;
        matches!(self, Full(_) | QueueFull { .. } | SignalsFull(_))
    }

    /// Returns whether the session has refused the input. If the same input arrives again, it must
    /// be refused too.
    pub(crate) fn is_refusal(&self) -> bool {
        use InputError::*;
        !matches!(
            self,
            StartsNoRun
                | Known(_)
                | AlreadyRefused { .. }
                | NotPostable(_)
                | Memory(_)
                | Moved
                | Gone
        )
    }
}

/// The reason why an agent could not be built or started.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// A tool cannot be used.
    #[error(transparent)]
    Tool(#[from] ToolboxError),
    /// The session's memory failed.
    #[error("the session could not be opened: {0}")]
    Memory(#[from] MemoryError),
    /// The output schema is invalid, or the feature `schema` is off.
    #[error("the output schema cannot be used: {0}")]
    OutputSchema(String),
    /// The agent has sub-agents, but the session's memory does not belong to a store.
    #[error(
        "the agent has sub-agents, whose sessions need a store: open the session with \
         `RunContext::stored`"
    )]
    NoStore,
}
