//! Checks of requests, transcripts, events and logs: the rules that hold for every agent and
//! pattern.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::log::event::{AgentEvent, Envelope, Role};
use crate::message::{Message, MessageKind};
use crate::model::Update;
use crate::model::{ChatRequest, ToolChoice};
use crate::testing::trace::line;

/// Whether a provider would take the request: every call has its result directly after its message,
/// in source order; no result without a call; something to answer at the end; tools with unique
/// names, and no forced choice of a tool that is not offered.
pub fn check_request(request: &ChatRequest) -> Result<(), String> {
    check_transcript(&request.messages)?;
    if let Some(message) = request.messages.iter().find(|m| !m.is_for_model()) {
        return Err(format!("a message that is not for the model: {}", line(message)));
    }
    let mut names = HashSet::new();
    if let Some(twice) = request.tools.iter().find(|spec| !names.insert(&*spec.name)) {
        return Err(format!("two tools are named {}", twice.name));
    }
    if let ToolChoice::Tool(name) = &request.tool_choice
        && !names.contains(&**name)
    {
        return Err(format!("the choice is forced on the unknown tool {name}"));
    }
    match request.messages.last().map(|m| &m.body) {
        None => Err("the request has no messages".into()),
        Some(MessageKind::Assistant(_)) => {
            Err("the request ends with the assistant: there is nothing to answer".into())
        }
        Some(_) => Ok(()),
    }
}

/// Whether every call has exactly one result, directly after its message and in source order, no
/// result is without a call, and call ids are unique.
pub fn check_transcript(messages: &[Arc<Message>]) -> Result<(), String> {
    let mut ids = HashSet::new();
    let mut rest = messages.iter();
    while let Some(message) = rest.next() {
        match &message.body {
            MessageKind::Assistant(reply) => {
                for call in reply.calls() {
                    if !ids.insert(&call.id) {
                        return Err(format!("two calls have the id {}", call.id));
                    }
                    match rest.next().map(|m| &m.body) {
                        Some(MessageKind::ToolResult(result)) if result.call == call.id => {}
                        other => {
                            return Err(format!(
                                "call {} is not followed by its result but by {other:?}",
                                call.id
                            ));
                        }
                    }
                }
            }
            MessageKind::ToolResult(result) => {
                return Err(format!("the result of {} has no call before it", result.call));
            }
            MessageKind::User(_) | MessageKind::Custom(_) => {}
        }
    }
    Ok(())
}

/// Whether events nest, their numbers have no gaps, every tool call that started ended, and deltas
/// belong to messages that stream. For the events of a session from its first one, or from the
/// start of a run on.
pub fn check_events(events: &[Arc<Envelope>]) -> Result<(), String> {
    let mut state = Nesting::default();
    for (at, event) in events.iter().enumerate() {
        state.take(event).map_err(|why| format!("event {at} ({:?}): {why}", event.event))?;
    }
    Ok(())
}

#[derive(Default)]
struct Nesting {
    seq: Option<u64>,
    run: bool,
    turn: bool,
    message: Option<crate::message::MessageId>,
    /// The message that streams was withdrawn: it may go on, or nothing of it comes.
    void: bool,
    text: HashMap<u32, String>,
    tools: HashSet<crate::message::CallId>,
    suspended: HashSet<crate::message::CallId>,
}

impl Nesting {
    fn take(&mut self, envelope: &Envelope) -> Result<(), String> {
        let next = self.seq.map_or(envelope.seq, |seq| seq + 1);
        if envelope.seq != next && Some(envelope.seq) != self.seq {
            return Err(format!("seq {} follows {:?}", envelope.seq, self.seq));
        }
        self.seq = Some(envelope.seq);
        match &envelope.event {
            AgentEvent::AgentStart { .. } => {
                ensure(!std::mem::replace(&mut self.run, true), "a run in a run")
            }
            AgentEvent::AgentEnd(_) => {
                ensure(
                    !self.turn && (self.message.is_none() || self.void),
                    "the run ends with something open",
                )?;
                self.message = None;
                ensure(self.tools.is_empty(), "the run ends while tools run")?;
                self.run = false;
                Ok(())
            }
            AgentEvent::TurnStart { .. } => {
                ensure(self.run && !std::mem::replace(&mut self.turn, true), "a turn out of place")
            }
            AgentEvent::TurnEnd { .. } => {
                ensure(std::mem::take(&mut self.turn), "a turn ends that had not begun")
            }
            AgentEvent::MessageStart { message_id, .. } => {
                ensure(self.turn, "a message outside of a turn")?;
                let free = self.message.is_none() || self.void;
                self.withdraw(false);
                self.message = Some(*message_id);
                ensure(free, "a message in a message")
            }
            AgentEvent::MessageUpdate { message_id, update } => {
                ensure(
                    self.message == Some(*message_id),
                    "a delta of a message that does not stream",
                )?;
                match update {
                    Update::Withdrawn => self.withdraw(true),
                    Update::Text { block, delta } => {
                        self.text.entry(*block).or_default().push_str(delta)
                    }
                    _ => {}
                }
                Ok(())
            }
            AgentEvent::MessageEnd { message } => {
                ensure(
                    self.message.take() == Some(message.id),
                    "a message ends that had not begun",
                )?;
                let said: usize = self.text.values().map(String::len).sum();
                ensure(
                    message.role() != Role::Assistant || said == message.text().len(),
                    "the deltas are not the message",
                )
            }
            AgentEvent::ToolExecutionStart { call, .. } => {
                ensure(self.turn && self.tools.insert(call.clone()), "a call starts out of place")
            }
            AgentEvent::ToolExecutionUpdate { call, .. } => {
                ensure(self.tools.contains(call), "an update of a call that does not run")
            }
            AgentEvent::ToolExecutionEnd { call, .. } => ensure(
                self.tools.remove(call) || self.suspended.remove(call),
                "a call ends that had not started",
            ),
            // A call that had started and suspended goes on with the answer, perhaps in another
            // run.
            AgentEvent::ExternalAction(action) => {
                self.suspended.extend(self.tools.take(&action.call));
                Ok(())
            }
            AgentEvent::ExternalActionEnd { call, .. } => {
                self.tools.extend(self.suspended.take(call));
                Ok(())
            }
            AgentEvent::Compaction(_) => {
                ensure(
                    self.run && (self.message.is_none() || self.void),
                    "a compaction out of place",
                )?;
                ensure(self.tools.is_empty(), "a compaction while tools run")
            }
            AgentEvent::QueueUpdate { .. } | AgentEvent::Custom { .. } | AgentEvent::Reset => {
                Ok(())
            }
        }
    }

    /// The deltas so far count no more.
    fn withdraw(&mut self, void: bool) {
        self.text.clear();
        self.void = void;
    }
}

pub(super) fn ensure(holds: bool, why: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why.to_owned()) }
}
