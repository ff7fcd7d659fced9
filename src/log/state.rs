//! [`SessionState`]: the state of a session, computed from its log, and the events of each entry.
//!
//! Only [`SessionState::apply`] turns an entry into state and numbered events. The live session, a
//! restart and a reader that reconnects all use it, so they cannot disagree.

mod at_stage;
mod charges;
mod children;
mod compacted;
mod rewound;
mod runs;
mod session_state;
mod snapshot;

use std::sync::Arc;

use serde_json::Value;

use crate::event::action::ExternalAction;
use crate::event::input::{Decision, QueueKind};
use crate::event::outcome::{IncompleteReply, RunCause};
use crate::event::owner_note::OwnerNote;
use crate::event::{AgentEvent, QueuedText};
use crate::log::calls::{Batch, Call, ChildCall, MadeCalls, Phase};
use crate::log::edited::Edited;
use crate::log::entry::LogEntry;
use crate::log::pending::PendingAction;
use crate::log::queue::QueuedMessage;
use crate::message::{CallId, DetachedMessage, InputId, Message, MessageId, MessageKind};
use crate::tool::{ApprovalRecord, Resolution};

use session_state::AfterBatch;
pub(crate) use session_state::{SessionState, Tail};
pub(crate) use snapshot::Restored;

impl SessionState {
    /// Applies an entry and passes its events to `emit`, in order.
    pub(crate) fn apply(&mut self, entry: &LogEntry, emit: &mut dyn FnMut(AgentEvent)) {
        self.change(entry, emit);
        self.update_stages(entry, emit);
    }

    fn change(&mut self, entry: &LogEntry, emit: &mut dyn FnMut(AgentEvent)) {
        let was_held = self.info.held.is_some();
        self.info.apply(entry);
        if let Some((usage, cost)) = entry.charge() {
            self.spent.charge(usage, cost);
        }
        match entry {
            LogEntry::Opened { epoch, time, .. } => {
                (self.epoch, self.requested) = (*epoch, None);
                self.lose_reserved();
                self.created.get_or_insert(*time);
            }
            LogEntry::RunStarted { run, cause, time, trace } => {
                (self.started, self.trace) = (*time, trace.clone());
                self.start_run(*run, cause, emit)
            }
            LogEntry::RunEnded { .. } => self.end_run(entry, emit),
            LogEntry::Queued { input, kind, urgency, message, output, principal } => {
                self.note(message);
                self.inputs.insert(input.clone());
                self.queue.push(QueuedMessage {
                    input: input.clone(),
                    kind: *kind,
                    urgency: *urgency,
                    message: message.clone(),
                    output: output.clone(),
                    principal: principal.clone(),
                    at: self.info.entries,
                });
                if *kind != QueueKind::Request {
                    let added = Arc::new(QueuedText::new(input.clone(), *kind, message.text()));
                    emit(AgentEvent::QueueUpdate { added: Some(added), removed: Vec::new() });
                }
            }
            LogEntry::Delivered { input } => self.deliver(input, emit),
            LogEntry::Withdrawn { inputs } => {
                self.undelivered.take_if(|request| inputs.contains(&request.input));
                self.dequeue(inputs, emit);
            }
            LogEntry::RequestStarted {
                message, tools, request_digest, estimate, wrap_up, ..
            } => {
                self.wrap_up = wrap_up.map(|limit| (*message, limit));
                if let Some(replaced) = self.requested.replace(*message) {
                    self.reserved.remove(&replaced);
                }
                self.offered = tools.clone();
                let digest = request_digest.clone();
                self.request_digest = digest.map(|digest| (*message, digest));
                self.count_request();
                self.reserved.insert(*message, *estimate);
                self.messages = self.messages.max(message.0);
                self.open_turn(emit);
            }
            LogEntry::Replied { message, .. } => self.reply(message, emit),
            LogEntry::Detached { message, key, request_digest, speaker, .. } => {
                self.note(message);
                if let (Some(speaker), Some(reply)) = (speaker, message.as_assistant()) {
                    let shown = DetachedMessage::new(speaker.clone(), reply.clone());
                    let shown = Arc::new(Message::new(message.id, shown));
                    Arc::make_mut(&mut self.history).push(shown.clone());
                    emit(AgentEvent::MessageEnd { message: shown });
                }
                if let (Some(key), Some(digest)) = (key, request_digest) {
                    let recorded = (digest.clone(), message.clone());
                    self.keyed_replies.insert(key.clone(), recorded);
                }
                // Logs of older versions have no entry of a detached request before its reply.
                if self.reserved.remove(&message.id).is_none() {
                    self.count_request();
                }
            }
            LogEntry::DetachedStarted { requests } => {
                for request in requests {
                    self.messages = self.messages.max(request.message.0);
                    self.count_request();
                    self.reserved.insert(request.message, request.estimate);
                }
            }
            LogEntry::Charged { message, ended: true, .. } => {
                self.end_request(*message);
            }
            LogEntry::NotSent { messages } => {
                for message in messages {
                    if self.end_request(*message) {
                        for account in [&mut self.spent, &mut self.uncounted] {
                            account.turns = account.turns.saturating_sub(1);
                        }
                    }
                }
            }
            LogEntry::Called { message, keys, hidden, at_most, first } => {
                let (keys, at) = (keys.clone(), self.info.entries);
                let (hidden, at_most, first) = (*hidden, *at_most, *first);
                let made = MadeCalls { at, keys, hidden, at_most, first };
                self.open_turn(emit);
                self.push(message, !hidden);
                emit_message(message, emit);
                self.open_batch(message, Some(made));
            }
            LogEntry::Compacted { .. } => self.compact(entry, emit),
            LogEntry::Rewound { to } => self.rewind(*to),
            LogEntry::Remembered { message } => self.add_whole(message, emit),
            LogEntry::State { scope, key, value } => {
                let key = (*scope, key.clone());
                if value.is_null() {
                    self.values.remove(&key);
                } else {
                    self.values.insert(key, value.clone());
                }
            }
            LogEntry::Emitted { kind, data } => {
                emit(AgentEvent::Custom { kind: kind.clone(), data: data.clone() })
            }
            LogEntry::CallAwaiting { call, .. } => {
                self.open_turn(emit);
                let Some(batch) = &mut self.batch else { return };
                batch.awaiting_since = self.info.entries;
                let Some(found) = batch.calls.iter_mut().find(|c| c.call.id == *call) else {
                    return;
                };
                let Some(PendingAction { action, .. }) = self.info.pending.last_mut() else {
                    return;
                };
                ExternalAction::set_name(action, &found.call.name);
                found.phase = Phase::Awaiting(action.clone());
                emit(AgentEvent::ExternalAction(action.clone()));
            }
            LogEntry::ChildStarted { call, session, share } => {
                let Some(found) = self.call_mut(call) else { return };
                found.child.get_or_insert_with(|| {
                    let session = session.clone();
                    Box::new(ChildCall { session, share: *share, actions: vec![], decided: vec![] })
                });
            }
            LogEntry::ChildAwaits { call, actions, idle, .. } => {
                self.open_turn(emit);
                self.child_awaits(call, actions, *idle, emit)
            }
            LogEntry::ChildEnded { call, used } => {
                self.call_mut(call).and_then(|found| found.child.take());
                self.spent.count_child(used);
                self.uncounted.count_child(used);
            }
            LogEntry::Approved { input, call, digest, by, time, source, change, .. } => {
                self.inputs.insert(input.clone());
                let approval = ApprovalRecord {
                    by: Some(by.clone()),
                    time: *time,
                    source: source.clone(),
                    change: change.clone(),
                };
                self.add_approval(call, digest, approval, emit)
            }
            LogEntry::Decided {
                input, call, digest, decision, by, time, source, change, ..
            } => {
                self.inputs.insert(input.clone());
                self.fresh_after = MessageId(self.messages);
                if self.decide_for_child(entry, emit) {
                    return;
                }
                let Some(found) = self.call_mut(call) else {
                    return;
                };
                let Phase::Awaiting(action) = &found.phase else {
                    return;
                };
                if !action.is_decided_by(digest.as_ref()) {
                    return; // what was decided is not what the log has now: it is asked again
                }
                let (action, decision, by) = (action.clone(), decision.clone(), by.clone());
                let shown = action.shown(&decision);
                found.resolution = Resolution::of(&action, &decision, by.as_deref(), *time);
                if let Decision::ApproveWith(edited) = &*decision {
                    found.edited = Edited::between(&action.arguments, edited, by.as_ref());
                }
                // The decision on a suspended call is its resolution.
                if decision.runs_the_tool() && action.request.is_none() {
                    let last = ApprovalRecord {
                        by: by.clone(),
                        time: *time,
                        source: source.clone(),
                        change: change.clone(),
                    };
                    found.approvals = action.approvals.iter().cloned().chain([last]).collect();
                }
                found.phase = Phase::Decided { action, decision: decision.clone(), by: by.clone() };
                emit(AgentEvent::ExternalActionEnd { call: call.clone(), decision: shown, by });
            }
            LogEntry::CallStarted { call, arguments } => {
                self.open_turn(emit);
                let Some(found) = self.call_mut(call) else {
                    return;
                };
                let arguments = found.approved_arguments().unwrap_or(arguments).clone();
                found.phase = Phase::Started { arguments: arguments.clone() };
                found.emit_start(arguments, emit);
            }
            LogEntry::CallFinished { result } => self.finish_call(result, emit),
            LogEntry::AbortRequested { input } => {
                self.inputs.insert(input.clone());
                self.abort_requested = self.info.run.is_some();
            }
            LogEntry::Handled { input } | LogEntry::Signalled { input, .. } => {
                self.inputs.insert(input.clone());
            }
            LogEntry::Owner { note: OwnerNote::Held(held) } if !was_held => {
                emit(AgentEvent::Held(*held))
            }
            LogEntry::WaitEnded { .. } => self.fresh_after = MessageId(self.messages),
            LogEntry::Settings { .. }
            | LogEntry::WaitStarted { .. }
            | LogEntry::WaitCancelled { .. }
            | LogEntry::Charged { .. }
            | LogEntry::Owner { .. } => {} // they change the description only
            LogEntry::Reset => self.reset(emit),
        }
    }

    fn deliver(&mut self, input: &InputId, emit: &mut dyn FnMut(AgentEvent)) {
        let own = self.undelivered.take_if(|request| request.input == *input);
        let Some(queued) = own.or_else(|| self.queue.take(input)) else { return };
        match queued.kind {
            // A message that came with `Continue` belongs to the request in progress.
            QueueKind::Request
                if queued.output.is_none() && matches!(self.cause, Some(RunCause::Continue(_))) => {
            }
            QueueKind::Request => self.output = queued.output,
            _ => emit(AgentEvent::QueueUpdate { added: None, removed: vec![input.clone()] }),
        }
        self.of_user.insert(queued.message.id);
        self.add_whole(&queued.message, emit);
    }

    fn reply(&mut self, message: &Arc<Message>, emit: &mut dyn FnMut(AgentEvent)) {
        self.open_turn(emit);
        self.requested = None;
        self.reserved.remove(&message.id);
        self.push(message, true);
        if let Some(reply) = message.as_assistant() {
            self.size.count(reply);
        }
        // Results of the pattern's earlier calls do not belong to the reply.
        (self.turn.message, self.turn.results) = (Some(message.clone()), Vec::new());
        emit(AgentEvent::MessageEnd { message: message.clone() });
        if !self.open_batch(message, None) {
            self.close_turn(emit);
        }
    }

    /// Opens the batch of a message. Returns `false` if the message has no calls.
    fn open_batch(&mut self, message: &Arc<Message>, made: Option<MadeCalls>) -> bool {
        self.batch = Batch::of(message, made);
        self.call_ids.extend(self.batch.iter().flat_map(|b| &b.calls).map(|c| c.call.id.clone()));
        self.batch.is_some()
    }

    fn finish_call(&mut self, result: &Arc<Message>, emit: &mut dyn FnMut(AgentEvent)) {
        let MessageKind::ToolResult(tool_result) = &result.body else {
            return;
        };
        self.open_turn(emit);
        self.note(result);
        let Some(batch) = &mut self.batch else { return };
        let is_wanted = |c: &&Call| c.call.id == tool_result.call && c.result.is_none();
        self.keyed_results
            .extend(batch.calls.iter().find(is_wanted).and_then(|call| batch.keyed(call, result)));
        let Some(found) = batch.calls.iter_mut().find(|c| is_wanted(&&**c)) else { return };
        let arguments = match &found.phase {
            Phase::Awaiting(action) | Phase::Decided { action, .. } => action.arguments.clone(),
            Phase::Started { arguments } => arguments.clone(),
            _ => Arc::new(
                found
                    .call
                    .parse_arguments()
                    .unwrap_or_else(|| Value::String(found.call.arguments.to_string())),
            ),
        };
        found.emit_start(arguments, emit);
        (found.phase, found.result) = (Phase::Finished, Some(result.clone()));
        emit(AgentEvent::ToolExecutionEnd {
            call: tool_result.call.clone(),
            name: tool_result.name.clone(),
            status: tool_result.status,
            is_error: tool_result.is_error(),
            result: result.clone(),
        });
        self.close_batch_if_done(emit);
    }

    /// Adds all results to the conversation in source order, once the last one has arrived.
    fn close_batch_if_done(&mut self, emit: &mut dyn FnMut(AgentEvent)) {
        let done = |batch: &mut Batch| batch.calls.iter().all(|c| c.result.is_some());
        let Some(batch) = self.batch.take_if(done) else {
            return;
        };
        let is_for_model = batch.is_for_model();
        let mut terminates = batch.made.is_none();
        for result in batch.calls.into_iter().filter_map(|c| c.result) {
            terminates &= result.as_tool_result().is_some_and(|result| result.terminate);
            self.push(&result, is_for_model);
            emit_message(&result, emit);
            self.turn.results.push(result);
        }
        self.terminated = terminates.then(|| batch.message.clone());
        self.turn.message = Some(batch.message);
        // Calls that the pattern made belong to the turn of its next request, unless that serves
        // another request of the user.
        if batch.made.is_none() || self.after_batch.counters {
            self.close_turn(emit);
        }
        self.begin_afresh();
    }

    fn reset(&mut self, emit: &mut dyn FnMut(AgentEvent)) {
        self.close_turn(emit);
        (self.history, self.context) = Default::default();
        (self.size, self.summaries, self.removed) = Default::default();
        (self.batch, self.output, self.last_error) = (None, None, None);
        self.terminated = None;
        (self.undelivered, self.incomplete) = (None, None);
        self.values.clear();
        self.request = None;
        self.after_batch = AfterBatch { counters: true, request: true };
        self.begin_afresh();
        emit(AgentEvent::Reset);
        let queued: Vec<InputId> = self.queue.iter().map(|w| w.input.clone()).collect();
        self.dequeue(&queued, emit);
    }

    /// Adds a message that did not stream.
    fn add_whole(&mut self, message: &Arc<Message>, emit: &mut dyn FnMut(AgentEvent)) {
        self.open_turn(emit);
        self.push(message, true);
        emit_message(message, emit);
    }

    fn push(&mut self, message: &Arc<Message>, is_for_model: bool) {
        self.note(message);
        self.terminated = None;
        match &message.body {
            MessageKind::User(_) => self.incomplete = None,
            MessageKind::Assistant(reply) => self.incomplete = IncompleteReply::of(reply),
            _ => {}
        }
        Arc::make_mut(&mut self.history).push(message.clone());
        if is_for_model && message.is_for_model() {
            self.size.add(message);
            Arc::make_mut(&mut self.context).push(message.clone());
        }
    }

    /// Adds an approval to a pending action that needs more approvals.
    fn add_approval(
        &mut self,
        call: &CallId,
        digest: &Arc<str>,
        approval: ApprovalRecord,
        emit: &mut dyn FnMut(AgentEvent),
    ) {
        let calls = self.batch.iter_mut().flat_map(|batch| &mut batch.calls);
        let mut actions = calls.flat_map(Call::actions_mut);
        let is_it = |action: &&mut Arc<ExternalAction>| {
            action.call == *call && action.is_decided_by(Some(digest))
        };
        let Some(action) = actions.find(is_it) else { return };
        let Some(approved) = self.info.action(call) else { return };
        *action = approved.clone();
        emit(AgentEvent::ExternalActionApproval { call: call.clone(), approval: approval.into() });
    }

    fn call_mut(&mut self, id: &str) -> Option<&mut Call> {
        self.batch.as_mut()?.calls.iter_mut().find(|c| *c.call.id == *id)
    }
}

fn emit_message(message: &Arc<Message>, emit: &mut dyn FnMut(AgentEvent)) {
    emit(AgentEvent::MessageStart { message_id: message.id, role: message.role() });
    emit(AgentEvent::MessageEnd { message: message.clone() });
}
