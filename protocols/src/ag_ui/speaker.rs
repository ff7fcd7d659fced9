//! [`Speaker`]: the messages of the agent, or of one sub-agent.

use std::sync::Arc;

use loopwright_core::Message;
use loopwright_core::message::{AssistantMessage, MessageId};
use loopwright_core::model::Update;
use serde_json::{Value, json};

use super::event::{Event, Events};
use crate::reply::{Fragment, PartKind, ReplyFold};

/// The open step, reply and messages of the agent, or of a sub-agent.
#[derive(Default)]
pub(super) struct Speaker {
    /// The id of the sub-agent's run; `None` for the agent itself.
    pub(super) subagent: Option<Arc<str>>,
    /// The ids of the calls that lead to the sub-agent, as in actions: each is followed by `~`.
    pub(super) path: String,
    step: Option<String>,
    reply: ReplyFold,
    /// The id of the open text message.
    text: Option<String>,
    /// The id of the last reasoning message.
    reasoning: String,
}

impl Speaker {
    /// Returns the speaker for a sub-agent.
    pub(super) fn sub_agent(id: Arc<str>, path: String) -> Self {
        Speaker { subagent: Some(id), path, ..Speaker::default() }
    }

    /// Appends an event, with the id of the sub-agent's run.
    pub(super) fn push(&self, mut event: Value, to: &mut Events) {
        if let Some(subagent) = &self.subagent {
            event["subagentRunId"] = json!(subagent);
        }
        to.push_back(Event(event));
    }

    /// Returns the protocol's id of a call.
    pub(super) fn call_id(&self, call: &str) -> String {
        format!("{}{call}", self.path)
    }

    /// Returns the protocol's id of a message.
    pub(super) fn message_id(&self, message: MessageId) -> String {
        match &self.subagent {
            Some(subagent) => format!("{subagent}/{message}"),
            None => message.to_string(),
        }
    }

    /// Starts a step, after ending the previous one.
    pub(super) fn start_step(&mut self, turn: u32, to: &mut Events) {
        self.end_step(to);
        let name = format!("turn {turn}");
        self.push(json!({ "type": "STEP_STARTED", "stepName": name }), to);
        self.step = Some(name);
    }

    pub(super) fn end_step(&mut self, to: &mut Events) {
        if let Some(name) = self.step.take() {
            self.push(json!({ "type": "STEP_FINISHED", "stepName": name }), to);
        }
    }

    /// Appends a whole message, whose author is the value of `role` or `name`. Without a role it is
    /// an assistant's.
    pub(super) fn message(&self, id: &str, author: (&str, &str), text: &str, to: &mut Events) {
        self.push_for("TEXT_MESSAGE_START", id, author, to);
        self.push_for("TEXT_MESSAGE_CONTENT", id, ("delta", text), to);
        self.push(json!({ "type": "TEXT_MESSAGE_END", "messageId": id }), to);
    }

    /// Ends everything that is open.
    pub(super) fn close(&mut self, to: &mut Events) {
        let end = self.reply.end();
        self.fragments(end, to);
        self.end_text(to);
        self.end_step(to);
    }

    /// Appends the events for a change of the streaming reply. Returns `true` if it voids text that
    /// was shown.
    pub(super) fn update(&mut self, message: MessageId, update: &Update, to: &mut Events) -> bool {
        let fragments = self.reply.update(message, update);
        let had_text = fragments.contains(&Fragment::Withdrawn(true));
        self.fragments(fragments, to);
        had_text
    }

    /// Appends the events for a whole reply: the part that was not streamed, and the calls.
    pub(super) fn reply(&mut self, message: &Message, reply: &AssistantMessage, to: &mut Events) {
        let fragments = self.reply.whole(message.id, reply);
        self.fragments(fragments, to);
        self.end_text(to);
        let parent = self.reply_id();
        for call in reply.calls() {
            let id = self.call_id(&call.id);
            let (name, text) = (&call.name, &call.arguments);
            let start = json!({
                "type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": name,
                "parentMessageId": parent,
            });
            self.push(start, to);
            self.push(json!({ "type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": text }), to);
            self.push(json!({ "type": "TOOL_CALL_END", "toolCallId": id }), to);
        }
    }

    fn fragments(&mut self, fragments: impl IntoIterator<Item = Fragment>, to: &mut Events) {
        for fragment in fragments {
            match fragment {
                Fragment::Start(PartKind::Text, _) => {
                    let id = self.reply_id();
                    if self.text.as_ref() != Some(&id) {
                        self.end_text(to);
                        self.push_for("TEXT_MESSAGE_START", &id, ("role", "assistant"), to);
                        self.text = Some(id);
                    }
                }
                Fragment::Delta(PartKind::Text, _, delta) => {
                    let id = self.text.clone().unwrap_or_default();
                    self.push_for("TEXT_MESSAGE_CONTENT", &id, ("delta", &delta), to);
                }
                // The text of a reply is one message, even if other parts interrupt it.
                Fragment::End(PartKind::Text, _) => {}
                Fragment::Start(PartKind::Reasoning, block) => {
                    let id = format!("{}-reasoning-{block}", self.reply_id());
                    self.push(json!({ "type": "REASONING_START", "messageId": id }), to);
                    self.push_for("REASONING_MESSAGE_START", &id, ("role", "reasoning"), to);
                    self.reasoning = id;
                }
                Fragment::Delta(PartKind::Reasoning, _, delta) => {
                    let id = self.reasoning.clone();
                    self.push_for("REASONING_MESSAGE_CONTENT", &id, ("delta", &delta), to);
                }
                Fragment::End(PartKind::Reasoning, _) => {
                    for kind in ["REASONING_MESSAGE_END", "REASONING_END"] {
                        self.push(json!({ "type": kind, "messageId": self.reasoning }), to);
                    }
                }
                Fragment::Withdrawn(_) => self.end_text(to),
            }
        }
    }

    fn push_for(&self, kind: &str, id: &str, (field, value): (&str, &str), to: &mut Events) {
        self.push(json!({ "type": kind, "messageId": id, field: value }), to);
    }

    fn end_text(&mut self, to: &mut Events) {
        if let Some(id) = self.text.take() {
            self.push(json!({ "type": "TEXT_MESSAGE_END", "messageId": id }), to);
        }
    }

    fn reply_id(&self) -> String {
        let (message, withdrawn) = self.reply.id();
        let id = self.message_id(message);
        if withdrawn == 0 { id } else { format!("{id}.{}", withdrawn + 1) }
    }
}
