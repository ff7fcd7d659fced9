//! Checks of requests, transcripts and events against the rules of every agent and pattern.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::trace::{describe, line};
use crate::event::{AgentEvent, Envelope, Role};
use crate::message::{CallId, Message, MessageId, MessageKind};
use crate::model::{ChatRequest, ToolChoice, Update};

/// Checks that a provider would accept `request`.
///
/// The messages fulfil [`check_transcript`] and are all meant for the model. The last message is
/// not the assistant's, tool names are unique, and no tool is forced that is not offered.
///
/// # Errors
///
/// Returns the first violated rule.
pub fn check_request(request: &ChatRequest) -> Result<(), String> {
    check_transcript(&request.messages)?;
    if let Some(message) = request.messages.iter().find(|m| !m.is_for_model()) {
        return Err(format!("a message is not for the model: {}", line(message)));
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

/// Checks the pairing of calls and results: every call has exactly one result, directly after its
/// message and in source order. No result lacks a call, and call ids are unique.
///
/// # Errors
///
/// Returns the first violated rule.
///
/// ```
/// use loopwright_core::Message;
/// use loopwright_core::message::{AssistantMessage, MessageId, UserMessage};
/// use loopwright_core::testing::check_transcript;
///
/// let user = Message::new(MessageId(1), UserMessage::from("Hello"));
/// let assistant = Message::new(MessageId(2), AssistantMessage::default());
/// assert_eq!(check_transcript(&[user.into(), assistant.into()]), Ok(()));
/// ```
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
                    let next = rest.next();
                    let result = next.and_then(|message| message.as_tool_result());
                    if result.is_none_or(|result| result.call != call.id) {
                        let next = next.map_or("the end".to_owned(), |message| line(message));
                        let id = &call.id;
                        return Err(format!(
                            "call {id} is not followed by its result but by {next}"
                        ));
                    }
                }
            }
            MessageKind::ToolResult(result) => {
                return Err(format!("the result of {} has no call before it", result.call));
            }
            MessageKind::User(_) | MessageKind::Custom(_) | MessageKind::Detached(_) => {}
        }
    }
    Ok(())
}

/// Checks that events nest, that their sequence numbers have no gaps, and that every started tool
/// call ended. The deltas of a message must add up to its text. Messages that a pattern has written
/// itself have no deltas.
///
/// The events must begin with the first event of a session or with the start of a run.
///
/// # Errors
///
/// Returns the rule that an event violates, then the first such event and its index.
pub fn check_events(events: &[Arc<Envelope>]) -> Result<(), String> {
    let mut state = Nesting::default();
    for (at, event) in events.iter().enumerate() {
        state
            .check(event)
            .map_err(|why| format!("{why}; this is event {at}, `{}`", describe(&event.event)))?;
    }
    Ok(())
}

#[derive(Default)]
struct Nesting {
    seq: Option<u64>,
    run: bool,
    turn: bool,
    message: Option<MessageId>,
    /// `true` while the message streams: its start has no number of its own.
    streams: bool,
    /// `true` if the streaming message was withdrawn: it may continue, or never end.
    is_withdrawn: bool,
    text: HashMap<u32, String>,
    /// The length of the text of each detached reply that streams.
    detached: HashMap<MessageId, usize>,
    tools: HashSet<CallId>,
    suspended: HashSet<CallId>,
}

impl Nesting {
    fn check(&mut self, envelope: &Envelope) -> Result<(), String> {
        let next = self.seq.map_or(envelope.seq, |seq| seq + 1);
        if envelope.seq != next && Some(envelope.seq) != self.seq {
            return Err(format!("seq {} follows {}", envelope.seq, self.seq.unwrap_or_default()));
        }
        let is_transient = Some(envelope.seq) == self.seq;
        self.seq = Some(envelope.seq);
        match &envelope.event {
            AgentEvent::AgentStart { .. } => {
                ensure(!std::mem::replace(&mut self.run, true), "a run starts within a run")
            }
            AgentEvent::AgentEnd(_) => {
                ensure(
                    !self.turn && (self.message.is_none() || self.is_withdrawn),
                    "the run ends with something open",
                )?;
                self.message = None;
                ensure(self.detached.is_empty(), "the run ends while a detached reply streams")?;
                ensure(self.tools.is_empty(), "the run ends while tools run")?;
                self.run = false;
                Ok(())
            }
            AgentEvent::TurnStart { .. } => {
                ensure(self.run && !std::mem::replace(&mut self.turn, true), "a turn out of place")
            }
            AgentEvent::TurnEnd { .. } => {
                ensure(std::mem::take(&mut self.turn), "a turn ends that was not started")
            }
            AgentEvent::MessageStart { message_id, .. } => {
                ensure(self.turn, "a message outside of a turn")?;
                let free = self.message.is_none() || self.is_withdrawn;
                self.withdraw(false);
                (self.message, self.streams) = (Some(*message_id), is_transient);
                ensure(free, "a message starts within a message")
            }
            AgentEvent::MessageUpdate { message_id, update } => {
                ensure(
                    self.message == Some(*message_id),
                    "a delta of a message that is not streaming",
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
            AgentEvent::DetachedUpdate { message_id, update, .. } => {
                match update {
                    Update::Withdrawn => drop(self.detached.remove(message_id)),
                    Update::Text { delta, .. } => {
                        *self.detached.entry(*message_id).or_default() += delta.len()
                    }
                    _ => drop(self.detached.entry(*message_id).or_default()),
                }
                ensure(self.run, "a detached reply outside of a run")
            }
            AgentEvent::Retry(_) => ensure(self.run, "a retry outside of a run"),
            AgentEvent::MessageEnd { message } if message.is_detached() => {
                let streamed = self.detached.remove(&message.id);
                ensure(
                    streamed.is_none_or(|streamed| streamed == message.text().len()),
                    "the deltas do not add up to the detached message",
                )
            }
            AgentEvent::MessageEnd { message } => {
                ensure(
                    self.message.take() == Some(message.id),
                    "a message ends that was not started",
                )?;
                let streamed: usize = self.text.values().map(String::len).sum();
                ensure(
                    message.role() != Role::Assistant
                        || streamed == message.text().len()
                        || !self.streams && streamed == 0,
                    "the deltas do not add up to the message",
                )
            }
            AgentEvent::ToolExecutionStart { call, .. } => {
                ensure(self.turn && self.tools.insert(call.clone()), "a call starts out of place")
            }
            AgentEvent::ToolExecutionUpdate { call, .. } => {
                ensure(self.tools.contains(call), "an update of a call that is not running")
            }
            AgentEvent::ToolExecutionEnd { call, .. } => ensure(
                self.tools.remove(call) || self.suspended.remove(call),
                "a call ends that was not started",
            ),
            // A started call that suspended continues when its action is resolved, perhaps in
            // another run.
            AgentEvent::ExternalAction(action) => {
                self.suspended.extend(self.tools.take(&action.call));
                Ok(())
            }
            AgentEvent::ExternalActionApproval { .. } | AgentEvent::Held(_) => Ok(()),
            AgentEvent::ExternalActionEnd { call, .. } => {
                self.tools.extend(self.suspended.take(call));
                Ok(())
            }
            AgentEvent::Compaction(_) => {
                ensure(
                    self.run && (self.message.is_none() || self.is_withdrawn),
                    "a compaction out of place",
                )?;
                ensure(self.tools.is_empty(), "a compaction while tools run")
            }
            AgentEvent::QueueUpdate { .. } | AgentEvent::Custom { .. } | AgentEvent::Reset => {
                Ok(())
            }
        }
    }

    /// Discards the deltas so far.
    fn withdraw(&mut self, is_withdrawn: bool) {
        self.text.clear();
        self.is_withdrawn = is_withdrawn;
    }
}

/// Returns an error with this text unless `holds`.
fn ensure(holds: bool, why: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why.to_owned()) }
}
