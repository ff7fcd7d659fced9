//! The events of a run, for tests.

use std::sync::Arc;

use loopwright_core::event::{AgentEvent, Envelope, Role, RunCause, RunOutcome, RunStatus};
use loopwright_core::message::{
    AssistantMessage, CallId, Content, ContentPart, DetachedMessage, Message, MessageId,
    ResultStatus, RunId, ToolCall, ToolResult, Usage,
};
use loopwright_core::model::Update;
use serde_json::{Value, json};

use crate::openai::ResponseHead;

pub(crate) fn head() -> ResponseHead {
    ResponseHead { id: "1".into(), created: 7, model: "coding".into() }
}

/// The events of a run so far.
pub(crate) struct Run(pub(crate) Vec<Envelope>);

impl Run {
    pub(crate) fn new() -> Self {
        Run(Vec::new())
            .event(AgentEvent::AgentStart { cause: RunCause::UserRequest("i".into()), trace: None })
    }

    pub(crate) fn event(mut self, event: AgentEvent) -> Self {
        let seq = self.0.len() as u64;
        self.0.push(Envelope::new(seq, "s", RunId(1), 7, event));
        self
    }

    fn id(&self) -> MessageId {
        MessageId(self.0.len() as u64)
    }

    pub(crate) fn update(self, message_id: MessageId, update: Update) -> Self {
        self.event(AgentEvent::MessageUpdate { message_id, update })
    }

    /// Adds a reply whose first deltas are withdrawn. The next reply repeats it.
    pub(crate) fn withdrawn(self, text: &str) -> Self {
        let message_id = self.id();
        self.event(AgentEvent::MessageStart { message_id, role: Role::Assistant })
            .update(message_id, Update::Text { block: 0, delta: text.into() })
            .update(message_id, Update::Withdrawn)
    }

    /// Adds a reply that streams in these deltas.
    pub(crate) fn reply(self, deltas: &[&str]) -> Self {
        let message_id = self.id();
        let start = AgentEvent::MessageStart { message_id, role: Role::Assistant };
        let run = deltas.iter().fold(self.event(start), |run, delta| {
            run.update(message_id, Update::Text { block: 0, delta: (*delta).into() })
        });
        run.ended(message_id, AssistantMessage::from(deltas.concat()))
    }

    /// Adds a streaming reply that thinks, says something and calls a tool.
    pub(crate) fn thoughtful(self, thought: &str, text: &str, call: &str) -> Self {
        let message_id = self.id();
        let part = |block: u32, text: &str| match block {
            0 => ContentPart::Thinking { text: text.into(), signature: None },
            _ => ContentPart::Text { text: text.into(), signature: None },
        };
        let call = ContentPart::ToolCall(ToolCall::new(call, "count", "{}"));
        self.event(AgentEvent::MessageStart { message_id, role: Role::Assistant })
            .update(message_id, Update::Thinking { block: 0, delta: thought.into() })
            .update(message_id, Update::Text { block: 1, delta: text.into() })
            .update(message_id, Update::ToolCallStart { block: 2, name: "count".into() })
            .ended(message_id, AssistantMessage::new(vec![part(0, thought), part(1, text), call]))
    }

    fn ended(self, id: MessageId, reply: AssistantMessage) -> Self {
        self.event(AgentEvent::MessageEnd { message: Arc::new(Message::new(id, reply)) })
    }

    /// Adds a streaming detached reply that is shown.
    pub(crate) fn shown(self, speaker: &str, text: &str) -> Self {
        let message_id = self.id();
        let shown = DetachedMessage::new(speaker, AssistantMessage::from(text.to_owned()));
        let update = Update::Text { block: 0, delta: text.into() };
        let message = Arc::new(Message::new(message_id, shown));
        self.event(AgentEvent::DetachedUpdate { message_id, speaker: speaker.into(), update })
            .event(AgentEvent::MessageEnd { message })
    }

    /// Adds a call with its result.
    pub(crate) fn call(self, id: &str, name: &str, result: &str, ok: bool) -> Self {
        let (call, name) = (CallId::from(id), Arc::<str>::from(name));
        let status = if ok { ResultStatus::Ok } else { ResultStatus::Error };
        let content = vec![Content::text(result)];
        let result = ToolResult::new(call.clone(), name.clone(), status, content);
        let result = Arc::new(Message::new(self.id(), result));
        let arguments = Arc::new(json!({ "of": "sheep" }));
        self.event(AgentEvent::ToolExecutionStart {
            call: call.clone(),
            name: name.clone(),
            arguments,
        })
        .event(AgentEvent::ToolExecutionEnd { call, name, status, is_error: !ok, result })
    }

    pub(crate) fn end(self) -> Self {
        self.end_with(|_| {})
    }

    /// Ends the run with an outcome that `change` has changed.
    pub(crate) fn end_with(self, change: impl FnOnce(&mut RunOutcome)) -> Self {
        let outcome: Value = json!({
            "end": "done", "usage": Usage::new(3, 2), "cost": 0.0, "text": "", "limit": null,
        });
        let mut outcome: RunOutcome = serde_json::from_value(outcome).unwrap();
        assert_eq!(outcome.end, RunStatus::Done);
        change(&mut outcome);
        self.event(AgentEvent::AgentEnd(Arc::new(outcome)))
    }

    /// Removes the deltas, as in a run that is not streamed.
    pub(crate) fn without_deltas(mut self) -> Self {
        self.0.retain(|envelope| !matches!(envelope.event, AgentEvent::MessageUpdate { .. }));
        self
    }
}
