//! The state of a session, and queries on it. Nothing here emits events.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::compaction::{Compaction, ContextSize};
use crate::event::action::ExternalAction;
use crate::event::input::{QueueKind, Urgency};
use crate::event::outcome::{IncompleteReply, RunCause, RunOutcome, RunStatus};
use crate::limits::Limit;
use crate::log::calls::{Batch, CALLER, Call, KeyedResult, Phase};
use crate::log::due::Due;
use crate::log::edited::Edited;
use crate::log::entry::StateScope;
use crate::log::queue::{Queue, QueuedMessage};
use crate::log::seen_inputs::SeenInputs;
use crate::log::session_info::SessionInfo;
use crate::log::stages::Stage;
use crate::log::turn::{Estimate, Turn, Used};
use crate::message::{
    AssistantMessage, CallId, History, InputId, Message, MessageId, MessageKind, RunId, StopReason,
};
use crate::model::OutputSchema;
use crate::principal::Principal;
use crate::trace_context::TraceContext;

/// The state of a session, as its log determines it.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct SessionState {
    /// The description of the session in lists. Its id is empty, since the log does not have it.
    pub(crate) info: SessionInfo,
    pub(crate) epoch: u64,
    /// Time of the first opening, in milliseconds since 1970.
    pub(crate) created: Option<u64>,
    /// All messages of the conversation.
    #[serde(skip)]
    pub(crate) history: History,
    /// The messages of the next request, before hooks.
    #[serde(skip)]
    pub(crate) context: History,
    /// Size of the context, in tokens.
    pub(crate) size: ContextSize,
    /// The compactions, even if no message of them is left in the context.
    pub(super) summaries: Vec<ActiveSummary>,
    /// The messages of the history that are no longer part of the conversation.
    pub(super) removed: HashSet<MessageId>,
    /// The messages that the user sent for this request.
    pub(crate) of_user: HashSet<MessageId>,
    pub(crate) batch: Option<Batch>,
    /// The last reply, if the results of its calls ask to end the run and no message or run
    /// followed.
    pub(crate) terminated: Option<Arc<Message>>,
    pub(crate) queue: Queue,
    /// The request of the current run, until the conversation has it.
    pub(crate) undelivered: Option<QueuedMessage>,
    /// The pattern's values.
    #[serde(with = "pairs")]
    pub(crate) values: BTreeMap<(StateScope, Arc<str>), Arc<Value>>,
    /// The stages of the pattern's work, as the last event or the log says.
    pub(crate) stages: Vec<Stage>,
    /// The results of the calls that the pattern made under a key for this request of the user.
    pub(crate) keyed_results: BTreeMap<Arc<str>, KeyedResult>,
    /// The replies to detached requests with a key, for this request of the user: the digest of the
    /// request, and the reply.
    pub(crate) keyed_replies: BTreeMap<Arc<str>, (Arc<str>, Arc<Message>)>,
    pub(crate) runs: u64,
    /// Position in the log of the start of the run.
    pub(crate) run_at: u64,
    pub(crate) cause: Option<RunCause>,
    /// The trace context of the current or last run.
    pub(crate) trace: Option<Arc<TraceContext>>,
    pub(crate) abort_requested: bool,
    pub(crate) turn: Turn,
    /// The usage since the last request of the user.
    pub(crate) spent: Used,
    /// The part of the session's usage that `info` does not have; tokens and cost are zero.
    pub(super) uncounted: Used,
    /// The estimates of requests whose end is not in the log yet.
    pub(crate) reserved: BTreeMap<MessageId, Estimate>,
    /// The number of a reply whose request was sent and that is not in the log yet.
    pub(crate) requested: Option<MessageId>,
    /// The digest of the last request, if it contained more than the conversation, and the number
    /// of its reply.
    pub(crate) request_digest: Option<(MessageId, Arc<str>)>,
    /// The limit that the run has reached, if the last request asked for an answer at it, and the
    /// number of that answer.
    pub(crate) wrap_up: Option<(MessageId, Limit)>,
    /// The tools in the last request; `None` for all.
    pub(crate) offered: Option<Arc<[Arc<str>]>>,
    /// The schema that the answer to the current request must fit.
    pub(crate) output: Option<Arc<OutputSchema>>,
    pub(crate) last_error: Option<Arc<str>>,
    /// The message of the user's request that the current run works on; `None` if it has no
    /// message.
    pub(crate) request: Option<Arc<Message>>,
    /// The principal that sent that request, if the host named one.
    pub(crate) principal: Option<Principal>,
    /// The defect of the last reply, if it is not a whole answer.
    pub(super) incomplete: Option<IncompleteReply>,
    /// The last message before a decision, before a timer rang, or before a run after one that
    /// repeated calls had ended. Calls before it are not compared with calls after it.
    #[serde(default)]
    pub(crate) fresh_after: MessageId,
    /// The outcome of the last run.
    pub(crate) outcome: Option<Arc<RunOutcome>>,
    /// Start of the run, in milliseconds since 1970.
    pub(super) started: u64,
    pub(crate) inputs: SeenInputs,
    pub(super) call_ids: HashSet<CallId>,
    /// The highest number of a message so far.
    pub(crate) messages: u64,
    /// The parts of the state to reset when the open batch is closed.
    pub(super) after_batch: AfterBatch,
}

/// A map as a list of pairs, since the keys of JSON objects are strings.
mod pairs {
    use std::collections::BTreeMap;

    use serde::de::{Deserialize, Deserializer};
    use serde::ser::{Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(
        map: &BTreeMap<impl Serialize, impl Serialize>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(map)
    }

    pub(super) fn deserialize<'de, K, V, D>(deserializer: D) -> Result<BTreeMap<K, V>, D::Error>
    where
        K: Deserialize<'de> + Ord,
        V: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        Ok(Vec::<(K, V)>::deserialize(deserializer)?.into_iter().collect())
    }
}

/// The parts of the state to reset when the open batch is closed. A run that started in the
/// meantime is not about the batch.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct AfterBatch {
    /// `true` to reset the counters of the limits.
    pub(super) counters: bool,
    /// `true` to drop the values of the request.
    pub(super) request: bool,
}

/// A compaction, with the messages that it replaced.
#[derive(Serialize, Deserialize)]
pub(crate) struct ActiveSummary {
    pub(crate) compaction: Arc<Compaction>,
    pub(crate) details: Arc<Value>,
    /// The run of the compaction.
    pub(crate) run: Option<RunId>,
    /// The messages of the context that the compaction replaced.
    #[serde(skip)]
    pub(super) replaced: Vec<Arc<Message>>,
    /// Length of the history up to the last message that this compaction replaced, directly or
    /// through an earlier summary.
    pub(super) covered: usize,
}

/// A model's possible next contribution to the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tail {
    /// None: the conversation is empty.
    Empty,
    /// None: the conversation ends with a reply.
    Replied,
    /// An answer.
    Answerable,
}

impl SessionState {
    /// Raises the highest message number to the number of `message`.
    pub(super) fn note(&mut self, message: &Message) {
        self.messages = self.messages.max(message.id.0);
    }

    /// Generates an id for an input without one.
    pub(crate) fn make_input_id(&self) -> InputId {
        self.inputs.make_id()
    }

    /// Returns the client's id of an input if an input with this id was accepted before.
    pub(crate) fn seen(&self, input: Option<&InputId>) -> Option<InputId> {
        self.inputs.known(input)
    }

    pub(crate) fn has_seen(&self, input: &InputId) -> bool {
        self.inputs.contains(input)
    }

    /// Returns the provider's id if it is new, otherwise a generated one.
    pub(crate) fn unique_call_id(&self, given: &CallId, taken: &[CallId]) -> CallId {
        let free =
            |id: &CallId| !id.is_empty() && !self.call_ids.contains(id) && !taken.contains(id);
        if free(given) {
            return given.clone();
        }
        let stem = if given.is_empty() { "call" } else { given };
        let mut ids =
            (self.call_ids.len() as u64 + 1..).map(|n| CallId::from(format!("{stem}_{n}")));
        ids.find(free).unwrap_or_else(|| given.clone())
    }

    /// Returns whether the message came after the last pending action, and after the calls if the
    /// pattern made them. Only such a message can replace a decision.
    pub(crate) fn is_after_question(&self, message: &QueuedMessage) -> bool {
        self.batch.as_ref().is_some_and(|batch| {
            let made_at = batch.made.as_ref().map_or(0, |made| made.at);
            message.at > batch.awaiting_since.max(made_at)
        })
    }

    /// Returns whether a call of the open batch has waited for a decision.
    pub(crate) fn has_asked(&self) -> bool {
        self.batch.as_ref().is_some_and(|batch| batch.awaiting_since > 0)
    }

    /// Returns every message that is not in the conversation yet: the request of the current run
    /// first, then the queue.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &QueuedMessage> {
        self.undelivered.iter().chain(self.queue.iter())
    }

    pub(crate) fn calls(&self) -> &[Call] {
        self.batch.as_ref().map_or(&[], |batch| &batch.calls)
    }

    pub(crate) fn call(&self, id: &str) -> Option<&Call> {
        self.calls().iter().find(|c| *c.call.id == *id)
    }

    /// Returns the change that a decision made to the arguments of a call of the model, if the call
    /// has started. A pattern knows the decisions on its own calls.
    pub(crate) fn edited(&self, id: &str) -> Option<&Edited> {
        self.batch.as_ref().filter(|batch| batch.made.is_none())?;
        let call = self.call(id)?;
        call.edited.as_ref().filter(|_| matches!(call.phase, Phase::Started { .. }))
    }

    /// Returns the pending actions in source order.
    pub(crate) fn pending(&self) -> impl Iterator<Item = &Arc<ExternalAction>> {
        self.calls().iter().flat_map(|c| {
            let own = if let Phase::Awaiting(action) = &c.phase { Some(action) } else { None };
            own.into_iter().chain(c.child.iter().flat_map(|child| &child.actions))
        })
    }

    /// Returns the trace context of the run in progress, in the session with this id.
    pub(crate) fn run_trace(&self, session: &str) -> Option<TraceContext> {
        Some(self.trace.as_ref()?.run(session, self.info.run?))
    }

    /// Returns whether a message started the run and replaces the decisions on pending actions, in
    /// agents where messages do.
    pub(crate) fn run_supersedes(&self) -> bool {
        let replaces = |w: &QueuedMessage| self.is_after_question(w);
        match self.cause.as_ref().filter(|_| self.info.run.is_some()) {
            Some(RunCause::UserRequest(_) | RunCause::Continue(Some(_))) => {
                self.undelivered.as_ref().is_some_and(replaces)
            }
            Some(RunCause::Steer) => {
                let mut steers = self.queue.of(QueueKind::Steering);
                steers.any(|w| w.urgency >= Urgency::SkipPending && replaces(w))
            }
            _ => false,
        }
    }

    /// Returns the cause of the next run while no run is in progress. `holds` is true if messages
    /// wait while an action is pending.
    pub(crate) fn next_run(&self, holds: bool) -> Option<RunCause> {
        match self.info.next()? {
            (Due::Decision, _) => {
                let decided = self.calls().iter().find(|c| c.is_decided())?;
                Some(RunCause::ActionResult(decided.call.id.clone()))
            }
            _ if holds && !self.info.pending.is_empty() => None,
            (Due::Request, input) => Some(RunCause::UserRequest(input?.clone())),
            _ => Some(RunCause::Steer),
        }
    }

    /// Returns whether the work of the last run waits: for decisions on its calls, or because the
    /// agent sleeps.
    pub(crate) fn waits(&self) -> bool {
        let sleeps = self.outcome.as_ref().is_some_and(|run| run.end == RunStatus::Sleeping);
        self.batch.is_some() || sleeps && self.info.has_wait()
    }

    pub(crate) fn tail(&self) -> Tail {
        match self.context.last().map(|m| &m.body) {
            None => Tail::Empty,
            // The user may want the reply to be continued.
            Some(MessageKind::Assistant(reply)) if reply.stop == StopReason::Aborted => {
                Tail::Answerable
            }
            Some(MessageKind::Assistant(_)) => Tail::Replied,
            Some(_) => Tail::Answerable,
        }
    }

    /// Returns whether the last run failed or reached a limit after a complete reply, for example
    /// in a detached request.
    pub(crate) fn failed_after_reply(&self) -> bool {
        let is_whole = |reply: &AssistantMessage| reply.stop != StopReason::Error;
        let ends_early = |end| matches!(end, RunStatus::Error | RunStatus::Limit);
        let last = self.context.last().and_then(|message| message.as_assistant());
        last.is_some_and(is_whole) && self.outcome.as_ref().is_some_and(|run| ends_early(run.end))
    }

    /// Returns the messages of the conversation: the history without the messages that the pattern
    /// removed, and without detached replies.
    pub(crate) fn messages(&self) -> impl DoubleEndedIterator<Item = &Arc<Message>> {
        let is_left = |message: &&Arc<Message>| !self.removed.contains(&message.id);
        self.history.iter().filter(is_left).filter(|message| !message.is_detached())
    }

    /// Returns whether the pattern has removed messages.
    pub(crate) fn has_removed(&self) -> bool {
        !self.removed.is_empty()
    }

    /// Returns the last reply since the user's request. Calls that the pattern made are not a
    /// reply.
    pub(crate) fn last_reply(&self) -> Option<&Arc<Message>> {
        let request = self.request.as_ref().map(|request| request.id);
        let is_reply = |reply: &AssistantMessage| {
            *reply.model != *CALLER || reply.stop != StopReason::ToolCalls || reply.has_text()
        };
        self.messages()
            .rev()
            .take_while(|message| Some(message.id) != request)
            .find(|message| message.as_assistant().is_some_and(is_reply))
    }
}
