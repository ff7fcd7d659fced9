//! [`LogEntry`], an entry of a session's log.
//!
//! The state of a session in RAM follows from its log. The rules of the log (its entries, and what
//! must be on disk before what else happens) are in `docs/design/core.md`. A model checker found
//! each rule necessary.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::compaction::CompactionCause;
use crate::error::{ActionRequest, ModelErrorKind};
use crate::event::Parent;
use crate::event::action::ExternalAction;
use crate::event::input::{Decision, QueueKind, Urgency};
use crate::event::outcome::{RunCause, RunStatus};
use crate::event::owner_note::OwnerNote;
use crate::limits::{Budget, Limit};
use crate::log::turn::{Estimate, Reservation, Used};
use crate::message::{CallId, InputId, Message, MessageId, RunId, Usage};
use crate::model::OutputSchema;
use crate::principal::Principal;
use crate::tool::ActionTerms;
use crate::trace_context::TraceContext;

/// An entry of a session's log.
///
/// Stores serialise entries and need not interpret them, except for
/// [`must_be_durable`](LogEntry::must_be_durable).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum LogEntry {
    /// A process has opened the session. Writes of every earlier owner fail from here on.
    Opened {
        /// Number of openings so far, which identifies the owner.
        epoch: u64,
        /// Time in milliseconds since 1970; zero if unknown.
        #[serde(default)]
        time: u64,
        /// The call that the session works for, if it belongs to a sub-agent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<Arc<Parent>>,
        /// The principal that owns the session, if the host named one when it first opened the
        /// session.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<Principal>,
    },
    /// The host's settings to open the session again, such as the model and the directory; see
    /// [`RunContext::settings`](crate::RunContext::settings). The last entry applies.
    Settings {
        /// The host's data; never a key. `null` removes earlier settings.
        settings: Arc<Value>,
    },
    /// A run started, with this cause.
    RunStarted {
        /// The number of the run in the session.
        run: RunId,
        /// The cause of the run.
        cause: RunCause,
        /// Time in milliseconds since 1970.
        time: u64,
        /// The trace context of the run, if the host gave one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trace: Option<Arc<TraceContext>>,
    },
    /// A run ended. Messages that it hands back are withdrawn by the same entry.
    RunEnded {
        /// The number of the run in the session.
        run: RunId,
        /// The ending of the run.
        end: RunStatus,
        /// Time in milliseconds since 1970.
        time: u64,
        /// The text of the error, if the run failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Arc<str>>,
        /// The kind of the error, if a model caused it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model_error: Option<ModelErrorKind>,
        /// The exhausted budget, if that ended the run, with an answer or without.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<Limit>,
        /// The typed value, if an output schema was set.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value: Option<Arc<Value>>,
        /// The queued messages that the user gets back.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        handed_back: Vec<InputId>,
    },
    /// A message was queued: a request, a steer or a follow-up.
    Queued {
        /// The input with the message.
        input: InputId,
        /// The queue of the message.
        kind: QueueKind,
        /// The urgency of a steer.
        #[serde(default)]
        urgency: Urgency,
        /// The message that waits.
        message: Arc<Message>,
        /// The schema that the answer to a request must fit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<Arc<OutputSchema>>,
        /// The principal that sent the message, if the host named one for the input.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        principal: Option<Principal>,
    },
    /// A queued message was added to the conversation.
    Delivered {
        /// The input with the message.
        input: InputId,
    },
    /// Queued messages were withdrawn.
    Withdrawn {
        /// The inputs with the messages.
        inputs: Vec<InputId>,
    },
    /// A model request is about to be sent. It counts as a turn, and is charged with the estimate
    /// until the log has its end (`Replied` or `Charged`).
    RequestStarted {
        /// The number that the reply will have.
        message: MessageId,
        /// The model, as `provider/name`.
        model: Arc<str>,
        /// The names of the tools in the request; `None` for all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tools: Option<Arc<[Arc<str>]>>,
        /// The digest of the request, if it contains more than the conversation.
        #[serde(default, alias = "asked", skip_serializing_if = "Option::is_none")]
        request_digest: Option<Arc<str>>,
        /// The amount that the request is charged with until its end.
        #[serde(default, skip_serializing_if = "Estimate::is_zero")]
        estimate: Estimate,
        /// The limit that the run has reached, if this is its last request, for an answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        wrap_up: Option<Limit>,
    },
    /// Detached requests are about to be sent. Each counts as a turn, and is charged with its
    /// estimate until the log has its end (`Detached`, `Charged` or `NotSent`).
    DetachedStarted {
        /// The replies' numbers and the estimates.
        requests: Vec<Reservation>,
    },
    /// A provider charged for attempts at a request whose output is in no reply of the log: they
    /// failed, were withdrawn, or were cut off before any content.
    Charged {
        /// The number that the reply has, or would have had.
        message: MessageId,
        /// The usage that the provider reported; zero if none.
        #[serde(default, skip_serializing_if = "is_zero")]
        usage: Usage,
        /// The cost in US dollars, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost: Option<f64>,
        /// `true` if the request has ended without a reply.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        ended: bool,
    },
    /// Requests that were announced have not been sent, and are not charged for.
    NotSent {
        /// The numbers that the replies would have had.
        messages: Vec<MessageId>,
    },
    /// The model's reply was added to the conversation.
    Replied {
        /// The reply, with its calls.
        message: Arc<Message>,
        /// The cost of the request in US dollars, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost: Option<f64>,
    },
    /// A model replied to a detached request. The reply is not part of the conversation. If it has
    /// a speaker, it is part of the history.
    Detached {
        /// The reply to the detached request.
        message: Arc<Message>,
        /// The cost of the request in US dollars, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost: Option<f64>,
        /// The pattern's key of the request. Within a request of the user, the pattern finds the
        /// reply under it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<Arc<str>>,
        /// The digest of the request, if it has a key. A different request under the key is sent.
        #[serde(default, alias = "asked", skip_serializing_if = "Option::is_none")]
        request_digest: Option<Arc<str>>,
        /// The name of who speaks, if the reply is [shown](crate::Ask::shown).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        speaker: Option<Arc<str>>,
    },
    /// The pattern makes calls: a message with the calls was added to the conversation.
    Called {
        /// The message with the calls.
        message: Arc<Message>,
        /// The pattern's keys of its calls. Within a request of the user, a call with a key is made
        /// once.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        keys: BTreeMap<CallId, Arc<str>>,
        /// `true` if models see neither the calls nor their results.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        hidden: bool,
        /// The maximum number of the calls that run at the same time, besides the agent's limit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at_most: Option<u32>,
        /// `true` if the first call that succeeds makes the others unnecessary.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        first: bool,
    },
    /// Later requests contain `message` in place of the messages from `first` to `last`, which
    /// remain in the log.
    Compacted {
        /// The first replaced message.
        first: MessageId,
        /// The last replaced message.
        last: MessageId,
        /// The message that replaces them.
        message: Arc<Message>,
        /// The policy's data for the next compaction.
        details: Arc<Value>,
        /// The detached reply with the summary; `None` if the messages are left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<MessageId>,
        /// The error, if a requested summary failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Arc<str>>,
        /// The cause of the compaction.
        why: CompactionCause,
    },
    /// The pattern removed the messages after `to` from later requests, except messages that the
    /// user sent for the request in progress. They remain in the log. Summaries of messages on both
    /// sides of `to` are undone.
    Rewound {
        /// The last message before the removed messages; the number 0 is the start of the
        /// conversation.
        to: MessageId,
    },
    /// The pattern added a message to the conversation.
    Remembered {
        /// The message from the pattern.
        message: Arc<Message>,
    },
    /// The pattern stored a value. The entry is in the append of the pattern's next write, or of
    /// the end of the run.
    State {
        /// The lifetime of the value.
        #[serde(default)]
        scope: StateScope,
        /// The key of the value.
        key: Arc<str>,
        /// The value; `null` removes it.
        value: Arc<Value>,
    },
    /// The pattern waits for a time, a signal, or both. Its run may end, and the process too.
    WaitStarted {
        /// The pattern's key.
        key: Arc<str>,
        /// The time at which the wait is over, in milliseconds since 1970.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<u64>,
        /// `true` if a signal under the key ends the wait.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        for_signal: bool,
    },
    /// A signal arrived. The wait under its key takes it, now or later.
    Signalled {
        /// The input that sent it.
        input: InputId,
        /// The key of the wait.
        key: Arc<str>,
        /// The sender's value.
        value: Arc<Value>,
        /// Time in milliseconds since 1970.
        time: u64,
    },
    /// A wait ended during a run. Otherwise it ends as the cause of a run, a
    /// [timer](RunCause::Timer) or a [signal](RunCause::Signal).
    WaitEnded {
        /// The pattern's key.
        key: Arc<str>,
    },
    /// A wait was removed by the pattern, or because the session is a fork. An abort of the
    /// sleeping session removes all waits with the start of its run.
    WaitCancelled {
        /// The pattern's key.
        key: Arc<str>,
        /// `true` if the signals under the key are dropped too.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        drops_signals: bool,
    },
    /// The pattern emitted an event.
    Emitted {
        /// The pattern's name for it.
        kind: Arc<str>,
        /// The content of the event.
        data: Arc<Value>,
    },
    /// A call waits for a decision.
    CallAwaiting {
        /// The call that waits.
        call: CallId,
        /// The tool's name.
        name: Arc<str>,
        /// The arguments with which the call would run.
        arguments: Arc<Value>,
        /// The digest of the action, which the decision must name.
        digest: Arc<str>,
        /// The request of a suspended tool; `None` asks for the approval of the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<Arc<ActionRequest>>,
        /// The text for the approver, who may decide, the accepted decisions, and the deadline.
        #[serde(default, skip_serializing_if = "ActionTerms::is_default")]
        terms: Arc<ActionTerms>,
        /// Start of the wait, in milliseconds since 1970.
        time: u64,
    },
    /// A principal approved a call that needs more approvals. The last approval is `Decided`.
    Approved {
        /// The input with the decision.
        input: InputId,
        /// The approved call.
        call: CallId,
        /// The tool's name.
        name: Arc<str>,
        /// The digest of the action.
        digest: Arc<str>,
        /// The principal who approved.
        by: Arc<str>,
        /// The front end that sent the decision, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source: Option<Arc<str>>,
        /// The digest of the change that was shown, if a preview was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        change: Option<Arc<str>>,
        /// Time when the decision was received, in milliseconds since 1970.
        time: u64,
    },
    /// A decision resolved an action.
    Decided {
        /// The input with the decision.
        input: InputId,
        /// The call that waited.
        call: CallId,
        /// The tool's name; `None` in older logs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<Arc<str>>,
        /// The digest of the action; `None` in older logs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        digest: Option<Arc<str>>,
        /// The decision, with its data.
        decision: Arc<Decision>,
        /// The principal who decided, if known; `system` for the default decision at the deadline.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Arc<str>>,
        /// The front end that sent the decision, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        source: Option<Arc<str>>,
        /// The digest of the change that was shown, if a preview was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        change: Option<Arc<str>>,
        /// Time when the decision was received, in milliseconds since 1970.
        #[serde(default)]
        time: u64,
    },
    /// A call is about to run. The entry is written before the call can have an effect.
    CallStarted {
        /// The call that runs.
        call: CallId,
        /// The arguments, after coercion, hooks and edits.
        arguments: Arc<Value>,
    },
    /// A sub-agent is about to be started for a call. The entry is written together with
    /// `CallStarted`, before the sub-agent's session is opened.
    ChildStarted {
        /// The call that the sub-agent works for.
        call: CallId,
        /// The session of the sub-agent.
        session: Arc<str>,
        /// The sub-agent's share of its parent's budgets, which are charged with it until the end.
        #[serde(default)]
        share: Budget,
    },
    /// A sub-agent needs decisions.
    ChildAwaits {
        /// The call that the sub-agent works for.
        call: CallId,
        /// The actions that became pending; all pending ones if the sub-agent is idle.
        actions: Vec<Arc<ExternalAction>>,
        /// Time in milliseconds since 1970.
        time: u64,
        /// `true` if the sub-agent only waits. Its own log then has every decision before this
        /// entry.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        idle: bool,
    },
    /// A sub-agent has ended, according to its own log. The entry is written together with the
    /// result of its call.
    ChildEnded {
        /// The call that the sub-agent worked for.
        call: CallId,
        /// The usage of the sub-agent and its own sub-agents.
        used: Used,
    },
    /// A call finished. Results are written as they arrive; the conversation has them in source
    /// order.
    CallFinished {
        /// The result, as a message.
        result: Arc<Message>,
    },
    /// The user requested an abort of the run. A restart completes it, too.
    AbortRequested {
        /// The input with the request.
        input: InputId,
    },
    /// An input was carried out that leaves no other entry with its id.
    Handled {
        /// The input that was carried out.
        input: InputId,
    },
    /// A note of the owner about itself.
    Owner {
        /// The content of the note.
        note: OwnerNote,
    },
    /// The conversation was reset. Earlier messages remain in the log, but in no request.
    Reset,
}

fn is_zero(usage: &Usage) -> bool {
    *usage == Usage::default()
}

/// The start of the keys of the values with which [`StepContext::rest_of`] remembers when a part of
/// the work began.
///
/// [`StepContext::rest_of`]: crate::StepContext::rest_of
pub(crate) const BUDGET_KEY: &str = "budget:";

/// The lifetime of a pattern's value.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Logs of earlier versions have the digest of a request under another name.
    #[test]
    fn an_earlier_name_of_the_digest_is_read() {
        let started = LogEntry::RequestStarted {
            message: MessageId(1),
            model: "a/b".into(),
            tools: None,
            request_digest: Some("d".into()),
            estimate: Estimate::default(),
            wrap_up: None,
        };
        let mut written = serde_json::to_value(&started).unwrap();
        let object = written.as_object_mut().unwrap();
        assert_eq!(object.remove("request_digest"), Some(json!("d")));
        object.insert("asked".into(), json!("d"));
        assert_eq!(LogEntry::deserialize(written).unwrap(), started);
    }
}
