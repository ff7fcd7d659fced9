//! The conversation as a fold of the log, and the events that each item is told by.
//!
//! [`Fold::apply`] is the only way from an item to state and to numbered events: the live session,
//! a restart and a reader that resumes all go through it, so they cannot disagree.

mod asked;
mod compacted;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::log::calls::{Batch, Call, Phase};
use crate::log::compaction::Load;
use crate::log::entry::LogEntry;
use crate::log::event::{AgentEvent, ExternalAction, RunCause, RunOutcome};
use crate::log::input::{Decision, QueueKind};
use crate::log::queue::{Queue, Waiting};
use crate::log::turn::{Spent, Turn};
use crate::message::{
    AssistantMessage, CallId, History, InputId, Message, MessageId, MessageKind, RunId,
};
use crate::model::OutputSchema;
use crate::tool::Resolution;

pub(crate) use asked::Tail;
pub(crate) use compacted::Standing;

/// What the log says.
#[derive(Default)]
pub(crate) struct Fold {
    /// Items folded so far: where the next append goes.
    pub(crate) len: u64,
    pub(crate) epoch: u64,
    /// Everything that was said.
    pub(crate) history: History,
    /// What a model is shown of it, before hooks.
    pub(crate) context: History,
    /// How large that is.
    pub(crate) load: Load,
    /// What was compacted last.
    pub(crate) standing: Option<Standing>,
    pub(crate) batch: Option<Batch>,
    pub(crate) queue: Queue,
    pub(crate) state: BTreeMap<Arc<str>, Arc<Value>>,
    /// What the host needs to open the session again.
    pub(crate) settings: Option<Arc<Value>>,
    /// The run that goes on.
    pub(crate) run: Option<RunId>,
    pub(crate) runs: u64,
    /// Where in the log it began.
    pub(crate) run_at: u64,
    pub(crate) cause: Option<RunCause>,
    pub(crate) abort_requested: bool,
    pub(crate) turn: Turn,
    pub(crate) spent: Spent,
    /// The number of a reply whose request went out and that is not in the log yet.
    pub(crate) requested: Option<MessageId>,
    /// The tools that the last request offered, where not all.
    pub(crate) offered: Option<Arc<[Arc<str>]>>,
    /// The schema that the present request's answer must fit.
    pub(crate) output: Option<Arc<OutputSchema>>,
    pub(crate) last_error: Option<Arc<str>>,
    /// What the user asked, if the present run started from a request.
    pub(crate) request: Option<Arc<Message>>,
    /// The last answer from outside.
    pub(crate) answered: Option<(CallId, Arc<Decision>)>,
    /// How the last run ended.
    pub(crate) outcome: Option<Arc<RunOutcome>>,
    /// When the run began, in milliseconds since 1970.
    started: u64,
    inputs: HashSet<InputId>,
    call_ids: HashSet<CallId>,
    /// The highest number of a message.
    pub(crate) messages: u64,
    /// Counters begin anew once the open batch is closed.
    fresh_after_batch: bool,
}

impl Fold {
    /// Takes an item in; `tell` is given the events that tell of it, in order.
    pub(crate) fn apply(&mut self, item: &LogEntry, tell: &mut dyn FnMut(AgentEvent)) {
        self.len += 1;
        match item {
            LogEntry::Opened { epoch, .. } => (self.epoch, self.requested) = (*epoch, None),
            LogEntry::Settings { settings } => self.settings = Some(settings.clone()),
            LogEntry::RunStarted { run, cause, time } => {
                self.started = *time;
                self.start_run(*run, cause, tell)
            }
            LogEntry::RunEnded { .. } => self.end_run(item, tell),
            LogEntry::Queued { input, lane, urgency, message, output } => {
                let (input, message, output) = (input.clone(), message.clone(), output.clone());
                self.note(&message);
                self.inputs.insert(input.clone());
                self.queue.push(Waiting {
                    input,
                    lane: *lane,
                    urgency: *urgency,
                    message,
                    output,
                    at: self.len,
                });
                if *lane != QueueKind::Request {
                    tell(self.queue_update());
                }
            }
            LogEntry::Delivered { input } => self.deliver(input, tell),
            LogEntry::Withdrawn { inputs } => {
                self.queue.remove(inputs);
                tell(self.queue_update());
            }
            LogEntry::RequestStarted { message, tools, .. } => {
                (self.requested, self.offered) = (Some(*message), tools.clone());
                self.messages = self.messages.max(message.0);
                self.open_turn(tell);
            }
            LogEntry::Replied { message, cost } => self.reply(message, *cost, tell),
            LogEntry::Detached { message, cost } => {
                self.note(message);
                self.spent.detached += 1;
                self.spend(message, *cost);
            }
            LogEntry::Compacted { .. } => self.compact(item, tell),
            LogEntry::Remembered { message } => self.say(message, tell),
            LogEntry::State { key, value } if value.is_null() => drop(self.state.remove(key)),
            LogEntry::State { key, value } => drop(self.state.insert(key.clone(), value.clone())),
            LogEntry::Emitted { kind, data } => {
                tell(AgentEvent::Custom { kind: kind.clone(), data: data.clone() })
            }
            LogEntry::CallAwaiting { call, arguments, digest, need, .. } => {
                self.open_turn(tell);
                let at = self.len;
                let Some(batch) = &mut self.batch else { return };
                batch.asked_at = at;
                let Some(found) = batch.calls.iter_mut().find(|c| c.call.id == *call) else {
                    return;
                };
                let (name, arguments) = (found.call.name.clone(), arguments.clone());
                let action = ExternalAction {
                    call: call.clone(),
                    name,
                    arguments,
                    digest: digest.clone(),
                    need: need.clone(),
                };
                let action = Arc::new(action);
                found.phase = Phase::Awaiting(action.clone());
                tell(AgentEvent::ExternalAction(action));
            }
            LogEntry::Decided { input, call, decision, by } => {
                self.inputs.insert(input.clone());
                let Some(found) = self.call_mut(call) else {
                    return;
                };
                let Phase::Awaiting(action) = &found.phase else {
                    return;
                };
                let (action, decision, by) = (action.clone(), decision.clone(), by.clone());
                found.answer = Resolution::to(&action, &decision, by.as_deref());
                found.phase = Phase::Decided { action, decision: decision.clone(), by: by.clone() };
                self.answered = Some((call.clone(), decision.clone()));
                tell(AgentEvent::ExternalActionEnd { call: call.clone(), decision, by });
            }
            LogEntry::CallStarted { call, arguments } => {
                self.open_turn(tell);
                let Some(found) = self.call_mut(call) else {
                    return;
                };
                found.phase = Phase::Started { arguments: arguments.clone() };
                found.tell_start(arguments.clone(), tell);
            }
            LogEntry::CallFinished { result } => self.finish_call(result, tell),
            LogEntry::AbortRequested { input } => {
                self.inputs.insert(input.clone());
                self.abort_requested = self.run.is_some();
            }
            LogEntry::Reset => self.reset(tell),
        }
    }

    fn start_run(&mut self, run: RunId, cause: &RunCause, tell: &mut dyn FnMut(AgentEvent)) {
        (self.run, self.runs, self.abort_requested) = (Some(run), run.0, false);
        self.run_at = self.len;
        (self.cause, self.last_error) = (Some(cause.clone()), None);
        self.request = match cause {
            RunCause::UserRequest(input) => {
                self.queue.iter().find(|w| w.input == *input).map(|w| w.message.clone())
            }
            _ => None,
        };
        if cause.is_fresh() {
            match self.batch {
                Some(_) => self.fresh_after_batch = true,
                None => self.begin_anew(),
            }
        }
        tell(AgentEvent::AgentStart { cause: cause.clone() });
    }

    fn end_run(&mut self, item: &LogEntry, tell: &mut dyn FnMut(AgentEvent)) {
        let LogEntry::RunEnded { end, time, error, model_error, limit, value, handed_back, .. } =
            item
        else {
            return;
        };
        self.close_turn(tell);
        self.spent.time += Duration::from_millis(time.saturating_sub(self.started));
        let back = self
            .queue
            .iter()
            .filter(|w| handed_back.contains(&w.input))
            .map(|w| w.message.text())
            .collect();
        if !handed_back.is_empty() {
            self.queue.remove(handed_back);
            tell(self.queue_update());
        }
        (self.run, self.abort_requested, self.requested) = (None, false, None);
        self.last_error = error.clone();
        let outcome = Arc::new(RunOutcome {
            end: *end,
            error: error.clone(),
            model_error: *model_error,
            limit: *limit,
            usage: self.spent.usage,
            cost: self.spent.cost,
            value: value.clone(),
            handed_back: back,
            text: self.last_reply().map(|reply| reply.text()).unwrap_or_default(),
        });
        self.outcome = Some(outcome.clone());
        tell(AgentEvent::AgentEnd(outcome));
    }

    fn deliver(&mut self, input: &InputId, tell: &mut dyn FnMut(AgentEvent)) {
        let Some(waiting) = self.queue.take(input) else {
            return;
        };
        match waiting.lane {
            // A message that came with `Continue` goes on with the request that there is.
            QueueKind::Request
                if waiting.output.is_none()
                    && matches!(self.cause, Some(RunCause::Continue(_))) => {}
            QueueKind::Request => self.output = waiting.output,
            _ => tell(self.queue_update()),
        }
        self.say(&waiting.message, tell);
    }

    fn reply(
        &mut self,
        message: &Arc<Message>,
        cost: Option<f64>,
        tell: &mut dyn FnMut(AgentEvent),
    ) {
        self.open_turn(tell);
        self.requested = None;
        self.push(message);
        if let Some(reply) = message.as_assistant() {
            self.load.count(reply);
        }
        self.spend(message, cost);
        self.turn.message = Some(message.clone());
        tell(AgentEvent::MessageEnd { message: message.clone() });
        let calls: Vec<Call> = message
            .as_assistant()
            .into_iter()
            .flat_map(AssistantMessage::calls)
            .map(Call::from)
            .collect();
        if calls.is_empty() {
            self.close_turn(tell);
        } else {
            self.call_ids.extend(calls.iter().map(|c| c.call.id.clone()));
            self.batch = Some(Batch { message: message.clone(), calls, asked_at: 0 });
        }
    }

    fn finish_call(&mut self, result: &Arc<Message>, tell: &mut dyn FnMut(AgentEvent)) {
        let MessageKind::ToolResult(told) = &result.body else {
            return;
        };
        self.open_turn(tell);
        self.note(result);
        let Some(found) = self.call_mut(&told.call) else {
            return;
        };
        if found.result.is_some() {
            return;
        }
        let arguments = match &found.phase {
            Phase::Awaiting(action) | Phase::Decided { action, .. } => action.arguments.clone(),
            Phase::Started { arguments } => arguments.clone(),
            _ => Arc::new(
                serde_json::from_str(&found.call.arguments)
                    .unwrap_or(Value::String(found.call.arguments.to_string())),
            ),
        };
        found.tell_start(arguments, tell);
        (found.phase, found.result) = (Phase::Finished, Some(result.clone()));
        tell(AgentEvent::ToolExecutionEnd {
            call: told.call.clone(),
            name: told.name.clone(),
            status: told.status,
            is_error: told.is_error(),
            result: result.clone(),
        });
        self.close_batch_if_done(tell);
    }

    /// With the last result of the batch, all are in the conversation, in source order.
    fn close_batch_if_done(&mut self, tell: &mut dyn FnMut(AgentEvent)) {
        let done = |batch: &mut Batch| batch.calls.iter().all(|c| c.result.is_some());
        let Some(batch) = self.batch.take_if(done) else {
            return;
        };
        for result in batch.calls.into_iter().filter_map(|c| c.result) {
            self.push(&result);
            tell_message(&result, tell);
            self.turn.results.push(result);
        }
        self.turn.message = Some(batch.message);
        self.close_turn(tell);
        if std::mem::take(&mut self.fresh_after_batch) {
            self.begin_anew();
        }
    }

    fn reset(&mut self, tell: &mut dyn FnMut(AgentEvent)) {
        self.close_turn(tell);
        (self.history, self.context) = Default::default();
        (self.load, self.standing) = Default::default();
        (self.batch, self.output, self.last_error) = (None, None, None);
        self.queue.clear();
        self.state.clear();
        self.begin_anew();
        tell(AgentEvent::Reset);
        tell(self.queue_update());
    }

    fn begin_anew(&mut self) {
        (self.turn, self.spent, self.fresh_after_batch) = Default::default();
    }

    /// A turn with an open batch goes on under its number.
    fn open_turn(&mut self, tell: &mut dyn FnMut(AgentEvent)) {
        if self.turn.open {
            return;
        }
        if self.batch.is_none() {
            self.turn = Turn { number: self.turn.number + 1, ..Turn::default() };
        }
        self.turn.open = true;
        tell(AgentEvent::TurnStart { turn: self.turn.number });
    }

    fn close_turn(&mut self, tell: &mut dyn FnMut(AgentEvent)) {
        if !std::mem::take(&mut self.turn.open) {
            return;
        }
        let message =
            self.turn.message.clone().or_else(|| self.batch.as_ref().map(|b| b.message.clone()));
        let tool_results = match &self.batch {
            Some(open) => open.calls.iter().filter_map(|c| c.result.clone()).collect(),
            None => std::mem::take(&mut self.turn.results),
        };
        tell(AgentEvent::TurnEnd { turn: self.turn.number, message, tool_results });
    }

    /// A message that is whole as soon as it is there.
    fn say(&mut self, message: &Arc<Message>, tell: &mut dyn FnMut(AgentEvent)) {
        self.open_turn(tell);
        self.push(message);
        tell_message(message, tell);
    }

    fn push(&mut self, message: &Arc<Message>) {
        self.note(message);
        Arc::make_mut(&mut self.history).push(message.clone());
        if message.is_for_model() {
            self.load.add(message);
            Arc::make_mut(&mut self.context).push(message.clone());
        }
    }

    fn note(&mut self, message: &Message) {
        self.messages = self.messages.max(message.id.0);
    }

    fn spend(&mut self, message: &Message, cost: Option<f64>) {
        if let Some(reply) = message.as_assistant() {
            self.spent.usage += reply.usage;
        }
        self.spent.cost += cost.unwrap_or(0.0);
    }

    fn call_mut(&mut self, id: &str) -> Option<&mut Call> {
        self.batch.as_mut()?.calls.iter_mut().find(|c| *c.call.id == *id)
    }

    fn queue_update(&self) -> AgentEvent {
        let (steering, follow_up) =
            (self.queue.texts(QueueKind::Steering), self.queue.texts(QueueKind::FollowUp));
        AgentEvent::QueueUpdate { steering, follow_up }
    }
}

fn tell_message(message: &Arc<Message>, tell: &mut dyn FnMut(AgentEvent)) {
    tell(AgentEvent::MessageStart { message_id: message.id, role: message.role() });
    tell(AgentEvent::MessageEnd { message: message.clone() });
}
