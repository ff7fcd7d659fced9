//! The entries of a session's log.
//!
//! The log is the truth and the session in RAM is a fold of it. Its rules (what is an item, what
//! is durable before what) are in `docs/design/core.md`; a model checker found each necessary.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{ActionRequest, ModelErrorKind};
use crate::limits::Limit;
use crate::log::compaction::CompactionCause;
use crate::log::event::{RunCause, RunStatus};
use crate::log::input::{Decision, QueueKind, Urgency};
use crate::message::{CallId, InputId, Message, MessageId, RunId};
use crate::model::OutputSchema;

/// One entry of a session's log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum LogEntry {
    /// A process has opened the session; every earlier owner's writes fail from here on.
    Opened {
        /// Counts the openings.
        epoch: u64,
        /// Milliseconds since 1970; zero in logs from before it was kept.
        #[serde(default)]
        time: u64,
    },
    /// What the host needs to open the session again, such as which model and directory: see
    /// [`RunContext::settings`](crate::RunContext::settings). The last one counts.
    Settings {
        /// The host's own data; never a key.
        settings: Arc<Value>,
    },
    /// A run began.
    RunStarted {
        /// Its number.
        run: RunId,
        /// What it started from.
        cause: RunCause,
        /// Milliseconds since 1970.
        time: u64,
    },
    /// A run ended; what it handed back is withdrawn by the same item.
    RunEnded {
        /// Its number.
        run: RunId,
        /// How.
        end: RunStatus,
        /// Milliseconds since 1970.
        time: u64,
        /// The error, for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Arc<str>>,
        /// The kind of the model's error, if it was one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model_error: Option<ModelErrorKind>,
        /// The budget that is used up, if that was it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<Limit>,
        /// The typed value, if an output schema was set.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value: Option<Arc<Value>>,
        /// Queued messages that are handed back to the user.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        handed_back: Vec<InputId>,
    },
    /// A message waits: a request for its run, a steer, a follow-up.
    Queued {
        /// The input that brought it.
        input: InputId,
        /// Where it waits.
        kind: QueueKind,
        /// How urgent it is; only steering looks at it.
        #[serde(default)]
        urgency: Urgency,
        /// The message.
        message: Arc<Message>,
        /// For a request: the schema that its answer must fit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<Arc<OutputSchema>>,
    },
    /// A queued message is in the conversation from here on.
    Delivered {
        /// The input that brought it.
        input: InputId,
    },
    /// Queued messages were taken back.
    Withdrawn {
        /// The inputs that brought them.
        inputs: Vec<InputId>,
    },
    /// A model request is going out.
    RequestStarted {
        /// The number that the reply will have.
        message: MessageId,
        /// `provider/name`.
        model: Arc<str>,
        /// The names of the tools that it offers, where it does not offer all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tools: Option<Arc<[Arc<str>]>>,
    },
    /// The model's reply is in the conversation from here on.
    Replied {
        /// The reply.
        message: Arc<Message>,
        /// What the request cost in US dollars, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost: Option<f64>,
    },
    /// A model's reply that stays out of the conversation.
    Detached {
        /// The reply.
        message: Arc<Message>,
        /// What the request cost in US dollars, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost: Option<f64>,
    },
    /// From here on requests show `message` in place of the messages from `first` to `last`. The
    /// log keeps them.
    Compacted {
        /// The first message that is replaced.
        first: MessageId,
        /// The last one.
        last: MessageId,
        /// What is shown in their place.
        message: Arc<Message>,
        /// The policy's own data.
        details: Arc<Value>,
        /// The aside that is the summary of them; nothing where they are only left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<MessageId>,
        /// Why there is no summary, where there was to be one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Arc<str>>,
        /// Why it was done.
        why: CompactionCause,
    },
    /// A message that the pattern puts into the conversation.
    Remembered {
        /// The message.
        message: Arc<Message>,
    },
    /// A value that the pattern keeps.
    State {
        /// Its name.
        key: Arc<str>,
        /// The value; `null` removes it.
        value: Arc<Value>,
    },
    /// An event of the pattern's own.
    Emitted {
        /// The pattern's name for it.
        kind: Arc<str>,
        /// Its data.
        data: Arc<Value>,
    },
    /// A call waits for an answer from outside.
    CallAwaiting {
        /// The call.
        call: CallId,
        /// The tool's name.
        name: Arc<str>,
        /// What would run.
        arguments: Arc<Value>,
        /// Digest of what was asked; an answer must name it.
        digest: Arc<str>,
        /// What a suspended tool needs; nothing means the confirmation of the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<Arc<ActionRequest>>,
        /// When it was put to the outside, in milliseconds since 1970.
        time: u64,
    },
    /// The outside has answered.
    Decided {
        /// The input that brought the answer.
        input: InputId,
        /// The call.
        call: CallId,
        /// The answer.
        decision: Arc<Decision>,
        /// Who answered, if told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Arc<str>>,
    },
    /// A call is about to run: written before its effect.
    CallStarted {
        /// The call.
        call: CallId,
        /// What runs: after coercion, hooks and edits.
        arguments: Arc<Value>,
    },
    /// A call has its result. Results are written as they come; the fold puts them in source order.
    CallFinished {
        /// The result.
        result: Arc<Message>,
    },
    /// The user wants the run to stop; a restart finishes it.
    AbortRequested {
        /// The input that asked.
        input: InputId,
    },
    /// The conversation begins anew: what was before is in the log and in no request.
    Reset,
}

impl LogEntry {
    /// The message that it brings into the log, if it brings one; not that of an aside or a
    /// summary.
    pub fn message(&self) -> Option<&Arc<Message>> {
        match self {
            LogEntry::Queued { message, .. }
            | LogEntry::Replied { message, .. }
            | LogEntry::Remembered { message }
            | LogEntry::CallFinished { result: message } => Some(message),
            _ => None,
        }
    }

    /// Whether the log must be on disk before anything goes on (a receipt, an effect): the other
    /// items may wait for the next one that must.
    pub fn must_be_durable(&self) -> bool {
        use LogEntry::*;
        matches!(
            self,
            Opened { .. }
                | Queued { .. }
                | Withdrawn { .. }
                | Decided { .. }
                | AbortRequested { .. }
                | CallStarted { .. }
                | RunEnded { .. }
                | Reset
        )
    }
}
