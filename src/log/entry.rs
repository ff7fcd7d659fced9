//! The entries of a session's log.
//!
//! The state of a session in RAM is a fold of its log. The rules of the log (what is an entry, what
//! must be durable before what) are in `docs/design/core.md`; a model checker found each necessary.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{ActionRequest, ModelErrorKind};
use crate::limits::{Budget, Limit};
use crate::log::action::ExternalAction;
use crate::log::compaction::CompactionCause;
use crate::log::event::Parent;
use crate::log::input::{Decision, QueueKind, Urgency};
use crate::log::outcome::{RunCause, RunStatus};
use crate::log::owner_note::OwnerNote;
use crate::log::turn::{Estimate, Reservation, Used};
use crate::message::{CallId, InputId, Message, MessageId, RunId, Usage};
use crate::model::OutputSchema;
use crate::principal::Principal;
use crate::tool::ActionTerms;
use crate::trace_context::TraceContext;

/// Represents one entry of a session's log.
///
/// Stores serialise entries and need not interpret them, except for
/// [`must_be_durable`](LogEntry::must_be_durable).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum LogEntry {
    /// A process has opened the session. Writes of every earlier owner fail from here on.
    Opened {
        /// The number of openings so far.
        epoch: u64,
        /// The time in milliseconds since 1970; zero if it is not known.
        #[serde(default)]
        time: u64,
        /// The call that the session works for, if it is a sub-agent's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<Arc<Parent>>,
        /// The principal that the session belongs to, if the host named one when it was opened for
        /// the first time.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<Principal>,
    },
    /// The host's settings for opening the session again, such as the model and the directory; see
    /// [`RunContext::settings`](crate::RunContext::settings). The last entry applies.
    Settings {
        /// The host's data; never a key. `null` removes earlier settings.
        settings: Arc<Value>,
    },
    /// A run started.
    RunStarted {
        /// Its number.
        run: RunId,
        /// What started it.
        cause: RunCause,
        /// The time in milliseconds since 1970.
        time: u64,
        /// The trace context that it belongs to, if the host gave one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trace: Option<Arc<TraceContext>>,
    },
    /// A run ended. Messages that it hands back are withdrawn by the same entry.
    RunEnded {
        /// Its number.
        run: RunId,
        /// How it ended.
        end: RunStatus,
        /// The time in milliseconds since 1970.
        time: u64,
        /// The text of the error, if it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Arc<str>>,
        /// The kind of the model's error, if it was one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model_error: Option<ModelErrorKind>,
        /// The budget that was used up, if that ended the run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<Limit>,
        /// The typed value, if an output schema was set.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value: Option<Arc<Value>>,
        /// Queued messages that are handed back to the user.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        handed_back: Vec<InputId>,
    },
    /// A message was queued: a request, a steer or a follow-up.
    Queued {
        /// The input that contained it.
        input: InputId,
        /// The queue.
        kind: QueueKind,
        /// The urgency of a steer.
        #[serde(default)]
        urgency: Urgency,
        /// The message.
        message: Arc<Message>,
        /// The schema that the answer to a request must fit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<Arc<OutputSchema>>,
        /// The principal that sent it, if the host named one for the input.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        principal: Option<Principal>,
    },
    /// A queued message was added to the conversation.
    Delivered {
        /// The input that contained it.
        input: InputId,
    },
    /// Queued messages were withdrawn.
    Withdrawn {
        /// The inputs that contained them.
        inputs: Vec<InputId>,
    },
    /// A model request is about to be sent. It counts as a turn, and is charged with the estimate
    /// until its end (`Replied` or `Charged`) is in the log.
    RequestStarted {
        /// The number that the reply will have.
        message: MessageId,
        /// The model, as `provider/name`.
        model: Arc<str>,
        /// The names of the tools that it offers; `None` if it offers all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tools: Option<Arc<[Arc<str>]>>,
        /// A digest of what was asked, if the request does not consist of the conversation alone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        asked: Option<Arc<str>>,
        /// What the request is charged with.
        #[serde(default, skip_serializing_if = "Estimate::is_zero")]
        estimate: Estimate,
    },
    /// Detached requests are about to be sent. Each counts as a turn, and is charged with its
    /// estimate until its end (`Detached`, `Charged` or `NotSent`) is in the log.
    DetachedStarted {
        /// The requests.
        requests: Vec<Reservation>,
    },
    /// A provider charged for attempts at a request whose output is in no reply of the log: they
    /// failed, were withdrawn, or were cut off before any content.
    Charged {
        /// The number that the reply of the request has, or would have had.
        message: MessageId,
        /// The usage that the provider reported; zero if it reported none.
        #[serde(default, skip_serializing_if = "is_zero")]
        usage: Usage,
        /// Its cost in US dollars, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost: Option<f64>,
        /// Whether the request has ended without a reply.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        ended: bool,
    },
    /// Requests that were about to be sent have not been sent, and are not charged for.
    NotSent {
        /// The numbers that the replies would have had.
        messages: Vec<MessageId>,
    },
    /// The model's reply was added to the conversation.
    Replied {
        /// The reply.
        message: Arc<Message>,
        /// The cost of the request in US dollars, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost: Option<f64>,
    },
    /// A model replied to a detached request. The reply is not part of the conversation.
    Detached {
        /// The reply.
        message: Arc<Message>,
        /// The cost of the request in US dollars, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost: Option<f64>,
        /// The pattern's key of the request. Within a request of the user, the reply is found under
        /// it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<Arc<str>>,
        /// A digest of the request, if it has a key. Another request under the key is sent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        asked: Option<Arc<str>>,
    },
    /// The pattern makes calls: a message that contains them was added to the conversation.
    Called {
        /// The message.
        message: Arc<Message>,
        /// The pattern's keys of its calls. Within a request of the user, a call with a key is made
        /// once.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        keys: BTreeMap<CallId, Arc<str>>,
        /// Whether models do not see the calls and their results.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        hidden: bool,
    },
    /// Later requests contain `message` in place of the messages from `first` to `last`, which
    /// remain in the log.
    Compacted {
        /// The first message that is replaced.
        first: MessageId,
        /// The last message that is replaced.
        last: MessageId,
        /// The message that replaces them.
        message: Arc<Message>,
        /// The data of the policy.
        details: Arc<Value>,
        /// The detached reply that summarises them; `None` if they are left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<MessageId>,
        /// Why there is no summary although one was requested.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Arc<str>>,
        /// What caused the compaction.
        why: CompactionCause,
    },
    /// The pattern removed the messages after `to` from later requests, except those that the user
    /// sent for the request in progress. They remain in the log. Summaries of messages on both
    /// sides of `to` are undone.
    Rewound {
        /// The last message before the removed ones; the number 0 is the start of the conversation.
        to: MessageId,
    },
    /// The pattern added a message to the conversation.
    Remembered {
        /// The message.
        message: Arc<Message>,
    },
    /// The pattern stored a value. The entry is in the append of the pattern's next write, or in
    /// that of the end of the run.
    State {
        /// How long the value is kept.
        #[serde(default)]
        scope: StateScope,
        /// The key of the value.
        key: Arc<str>,
        /// The value; `null` removes it.
        value: Arc<Value>,
    },
    /// The pattern emitted an event.
    Emitted {
        /// The pattern's name for it.
        kind: Arc<str>,
        /// Its data.
        data: Arc<Value>,
    },
    /// A call waits for a decision.
    CallAwaiting {
        /// The call.
        call: CallId,
        /// The tool's name.
        name: Arc<str>,
        /// The arguments that would run.
        arguments: Arc<Value>,
        /// The digest of the action, which the decision must name.
        digest: Arc<str>,
        /// What a suspended tool needs; `None` asks for the approval of the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<Arc<ActionRequest>>,
        /// What the approver is shown, who may decide, how, and until when.
        #[serde(default, skip_serializing_if = "ActionTerms::is_default")]
        terms: Arc<ActionTerms>,
        /// The time since which it waits, in milliseconds since 1970.
        time: u64,
    },
    /// A principal approved a call that needs more approvals. The last one is `Decided`.
    Approved {
        /// The input that contained the decision.
        input: InputId,
        /// The call.
        call: CallId,
        /// The tool's name.
        name: Arc<str>,
        /// The digest of the action.
        digest: Arc<str>,
        /// Who approved.
        by: Arc<str>,
        /// What the decision was sent with, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source: Option<Arc<str>>,
        /// When it was received, in milliseconds since 1970.
        time: u64,
    },
    /// A decision resolved an action.
    Decided {
        /// The input that contained the decision.
        input: InputId,
        /// The call.
        call: CallId,
        /// The tool's name; older logs do not have it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<Arc<str>>,
        /// The digest of the action; older logs do not have it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        digest: Option<Arc<str>>,
        /// The decision.
        decision: Arc<Decision>,
        /// Who decided, if known; `system` for the decision that was taken at the deadline.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Arc<str>>,
        /// What the decision was sent with, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source: Option<Arc<str>>,
        /// When it was received, in milliseconds since 1970.
        #[serde(default)]
        time: u64,
    },
    /// A call is about to run. Written before the call can have an effect.
    CallStarted {
        /// The call.
        call: CallId,
        /// The arguments, after coercion, hooks and edits.
        arguments: Arc<Value>,
    },
    /// A sub-agent is about to be started for a call. Written together with `CallStarted`, before
    /// the sub-agent's session is opened.
    ChildStarted {
        /// The call.
        call: CallId,
        /// The session of the sub-agent.
        session: Arc<str>,
        /// What it may use of the budgets of its parent, which are charged with it until the end.
        #[serde(default)]
        share: Budget,
    },
    /// A sub-agent needs decisions.
    ChildAwaits {
        /// The call that it works for.
        call: CallId,
        /// The actions that became pending; all its pending ones if it is idle.
        actions: Vec<Arc<ExternalAction>>,
        /// The time in milliseconds since 1970.
        time: u64,
        /// Whether it only waits. Then its own log has every decision that came before this entry.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        idle: bool,
    },
    /// A sub-agent has ended, as its own log says. Written together with the result of its call.
    ChildEnded {
        /// The call that it worked for.
        call: CallId,
        /// What it has used, its own sub-agents included.
        used: Used,
    },
    /// A call finished. Results are written as they arrive; the conversation has them in source
    /// order.
    CallFinished {
        /// The result.
        result: Arc<Message>,
    },
    /// The user requested an abort of the run. It is completed after a restart, too.
    AbortRequested {
        /// The input that contained the request.
        input: InputId,
    },
    /// An input that leaves no other entry with its id was carried out.
    Handled {
        /// The input.
        input: InputId,
    },
    /// A note of the owner about itself.
    Owner {
        /// The note.
        note: OwnerNote,
    },
    /// The conversation was reset. Earlier messages remain in the log and are in no request.
    Reset,
}

fn is_zero(usage: &Usage) -> bool {
    *usage == Usage::default()
}

/// Says how long a pattern's value is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StateScope {
    /// Until the next request of the user begins.
    Request,
    /// Until the conversation is reset.
    #[default]
    Session,
}

impl LogEntry {
    /// Returns whether the session wrote the entry for an input or for its own opening, and not for
    /// something that a pattern has done.
    pub(crate) fn is_of_input(&self) -> bool {
        use LogEntry::*;
        matches!(
            self,
            Opened { .. }
                | Settings { .. }
                | RunStarted { .. }
                | Queued { .. }
                | Withdrawn { .. }
                | Approved { .. }
                | Decided { .. }
                | AbortRequested { .. }
                | Handled { .. }
                | Owner { .. }
        )
    }

    /// Returns whether the work of a session has come further with this entry: not if a process
    /// that is killed each time could repeat it for ever.
    pub fn is_progress(&self) -> bool {
        use LogEntry::*;
        !matches!(
            self,
            Opened { .. }
                | Settings { .. }
                | Handled { .. }
                | Owner { .. }
                | RequestStarted { .. }
                | DetachedStarted { .. }
                | NotSent { .. }
                | Charged { .. }
                | CallStarted { .. }
                | ChildStarted { .. }
                | State { .. }
                | Withdrawn { .. }
        )
    }

    /// Returns the id of the input whose acceptance the entry records, or `None`.
    pub fn input(&self) -> Option<&InputId> {
        match self {
            LogEntry::Queued { input, .. }
            | LogEntry::Approved { input, .. }
            | LogEntry::Decided { input, .. }
            | LogEntry::AbortRequested { input }
            | LogEntry::Handled { input } => Some(input),
            _ => None,
        }
    }

    /// Returns the session of the sub-agent that the entry starts, or `None`.
    pub fn sub_agent(&self) -> Option<&Arc<str>> {
        match self {
            LogEntry::ChildStarted { session, .. } => Some(session),
            _ => None,
        }
    }

    /// Returns the message that the entry adds, or `None`. Detached replies and summaries do not
    /// count.
    pub fn message(&self) -> Option<&Arc<Message>> {
        match self {
            LogEntry::Queued { message, .. }
            | LogEntry::Replied { message, .. }
            | LogEntry::Called { message, .. }
            | LogEntry::Remembered { message }
            | LogEntry::CallFinished { result: message } => Some(message),
            _ => None,
        }
    }

    /// Returns whether the entry, and all before it, must be on disk before the append returns,
    /// since an input is then acknowledged or an effect starts. Other entries may be flushed later.
    pub fn must_be_durable(&self) -> bool {
        use LogEntry::*;
        matches!(
            self,
            Opened { .. }
                | Queued { .. }
                | Withdrawn { .. }
                | Approved { .. }
                | Decided { .. }
                | AbortRequested { .. }
                | Handled { .. }
                | CallStarted { .. }
                | ChildStarted { .. }
                | RunEnded { .. }
                | Reset
        )
    }
}
