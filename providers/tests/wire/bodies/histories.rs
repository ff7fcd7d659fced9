//! Random requests: whatever a session, a hook or an import may hand to a model.

use std::sync::Arc;

use loopwright_core::Message;
use loopwright_core::message::{
    AssistantMessage, ContentPart, CustomMessage, MessageId, MessageKind, ResultStatus, StopReason,
    ToolCall, ToolResult, UserMessage,
};
use loopwright_core::model::{ChatRequest, OutputSchema, ThinkingLevel, ToolChoice};
use loopwright_core::tool::{ToolList, ToolSpec};
use loopwright_providers::Wire;
use serde_json::{Value, json};

use super::targets::TARGETS;
use super::values::{
    answer, arguments, attachment, call_id, call_name, content, text, tools, words,
};
use crate::random::Random;

/// A conversation in the making.
struct History<'a> {
    random: &'a mut Random,
    /// The target that wrote most of the replies.
    author: usize,
    messages: Vec<MessageKind>,
    calls: usize,
}

/// Returns the request with this number. Each target wrote the replies of some histories.
pub(super) fn request(random: &mut Random, number: usize) -> ChatRequest {
    let messages = Vec::new();
    let mut history = History { random, author: number % TARGETS.len(), messages, calls: 0 };
    for _ in 0..=history.random.below(9) {
        history.step();
    }
    let is_result = |body: &MessageKind| matches!(body, MessageKind::ToolResult(_));
    let answered = history.messages.iter().rposition(|body| !is_result(body));
    let open = answered.is_some_and(|at| {
        let is_called = |body: &MessageKind| match body {
            MessageKind::Assistant(reply) => reply.stop == StopReason::ToolCalls,
            _ => false,
        };
        at + 1 < history.messages.len() && is_called(&history.messages[at])
    });
    if !open || history.random.percent(50) {
        let mut parts = content(history.random);
        parts.push(loopwright_core::message::Content::text(words(history.random)));
        history.messages.push(UserMessage::new(parts).into());
    }
    let messages = (1..).zip(history.messages);
    let messages: Vec<_> =
        messages.map(|(id, body)| Arc::new(Message::new(MessageId(id), body))).collect();
    let mut request = ChatRequest::default();
    let count = messages.len();
    request.messages = Arc::new(messages);
    request.compacted = random.percent(10).then(|| MessageId(1 + random.below(count) as u64));
    settings(random, &mut request);
    request
}

/// Sets everything but the conversation.
fn settings(random: &mut Random, request: &mut ChatRequest) {
    if random.percent(70) {
        request.system = text(random).into();
    }
    let all = tools();
    let first = random.below(all.len());
    let count = [0, 1, 2, 3, all.len()][random.below(5)];
    let chosen: Vec<_> = all.into_iter().cycle().skip(first).take(count).collect();
    if let Some((name, _)) = chosen.first() {
        request.tool_choice = match random.below(8) {
            0 => ToolChoice::None,
            1 => ToolChoice::Required,
            2 => ToolChoice::Tool(name.clone()),
            _ => ToolChoice::Auto,
        };
    }
    let spec = |(name, schema): (String, Value)| {
        Arc::new(ToolSpec::with_schema(name, "Does \"it\".", schema))
    };
    request.tools = Arc::new(ToolList::new(chosen.into_iter().map(spec).collect()));
    request.thinking = *random.pick(&ThinkingLevel::ALL);
    if random.percent(25) {
        let name = *random.pick(&["Answer", "a_1-b", "x"]);
        request.output = Some(Arc::new(OutputSchema::new(name, answer(random))));
    }
    request.max_tokens = *random.pick(&[None, None, Some(1), Some(500), Some(2000), Some(60_000)]);
    request.temperature = *random.pick(&[None, None, Some(0.0), Some(0.7), Some(1.0), Some(1.7)]);
    let stops: &[&str] = match random.below(4) {
        0 => &["END"],
        1 => &["\n\nUser:", "</a>"],
        _ => &[],
    };
    request.stop = stops.iter().map(|&stop| stop.into()).collect();
    request.session = match random.below(3) {
        0 => "".into(),
        1 => "0198c1de-session".into(),
        _ => "s".repeat(80).into(),
    };
}

impl History<'_> {
    fn step(&mut self) {
        match self.random.below(20) {
            0..6 => {
                let parts = content(self.random);
                self.messages.push(UserMessage::new(parts).into());
            }
            6 => self.messages.push(MessageKind::Custom(CustomMessage::new("note", json!({})))),
            7 => {
                let stray = ToolCall::new("of nobody", "read_file", "{}");
                let result = self.result(&stray);
                self.messages.push(result);
            }
            _ => self.reply(),
        }
    }

    /// Adds a reply, and results of its calls.
    fn reply(&mut self) {
        let author = match self.random.below(10) {
            0..6 => Some(self.author),
            6..9 => Some(self.random.below(TARGETS.len())),
            _ => None,
        };
        let (model, wire) = author.map_or(("acme/old", Wire::OpenAiChat), |author| {
            (TARGETS[author].id, TARGETS[author].wire)
        });
        let mut parts = Vec::new();
        for _ in 0..self.random.below(6) {
            let part = self.part(model, wire);
            parts.push(part);
        }
        let calls: Vec<ToolCall> = parts
            .iter()
            .filter_map(
                |part| if let ContentPart::ToolCall(call) = part { Some(call) } else { None },
            )
            .cloned()
            .collect();
        let stop = match self.random.below(20) {
            0 => StopReason::Length,
            1 => StopReason::ContentFilter,
            2 => StopReason::Interrupted,
            3 => StopReason::Aborted,
            4 => StopReason::Error,
            _ if calls.is_empty() => StopReason::Stop,
            _ => StopReason::ToolCalls,
        };
        self.messages.push(AssistantMessage::new(parts).stop(stop).model(model).into());
        let mut results: Vec<MessageKind> = calls.iter().map(|call| self.result(call)).collect();
        if !results.is_empty() {
            let one = self.random.below(results.len());
            match self.random.below(12) {
                0 => drop(results.remove(one)),
                1 => results.push(results[one].clone()),
                2 => results.reverse(),
                3 => results.clear(),
                _ => {}
            }
        }
        self.messages.extend(results);
    }

    /// Returns a part of a reply, signed as its author's provider does it.
    fn part(&mut self, model: &str, wire: Wire) -> ContentPart {
        let signed = self.random.percent(75);
        match self.random.below(10) {
            0..3 => {
                let (text, signature) = self.thought(model, wire);
                ContentPart::Thinking { text, signature: signature.filter(|_| signed) }
            }
            3..6 => {
                let signature: Option<Arc<str>> = match wire {
                    Wire::OpenAiResponses if self.random.percent(50) => {
                        Some("phase:commentary".into())
                    }
                    Wire::OpenAiResponses => Some("phase:final_answer".into()),
                    Wire::Gemini => Some("CiQBcsjafA==".into()),
                    _ => None,
                };
                ContentPart::Text {
                    text: text(self.random),
                    signature: signature.filter(|_| signed),
                }
            }
            _ => {
                self.calls += 1;
                let id = call_id(self.random, self.calls);
                let call = ToolCall::new(id, call_name(self.random), arguments(self.random));
                let signature: Option<Arc<str>> = (wire == Wire::Gemini).then(|| "CiQBcg+/".into());
                ContentPart::ToolCall(call.signature(signature.filter(|_| signed)))
            }
        }
    }

    /// Returns a thought and its signature.
    fn thought(&mut self, model: &str, wire: Wire) -> (String, Option<Arc<str>>) {
        let text = text(self.random);
        let signature = match wire {
            Wire::Anthropic if self.random.percent(30) => {
                return (String::new(), Some("redacted:EmwKAhgBEgz+/w==".into()));
            }
            Wire::Anthropic => "EqoBCkYIBxgCIkD+/w==".to_owned(),
            Wire::OpenAiResponses => json!({"id": format!("rs_{}", self.messages.len()),
                "type": "reasoning", "summary": [{"type": "summary_text", "text": text}],
                "encrypted_content": "gAAAAAB+/w=="})
            .to_string(),
            Wire::Gemini => "CiQBcsjafA==".to_owned(),
            _ if model.starts_with("openrouter/") => {
                let detail = json!({"type": "reasoning.text", "text": text, "signature": "EqoB",
                    "format": "anthropic-claude-v1", "index": 0});
                format!("reasoning_details:{}", json!([detail]))
            }
            _ => return (text, None),
        };
        (text, Some(signature.into()))
    }

    fn result(&mut self, call: &ToolCall) -> MessageKind {
        let statuses = [ResultStatus::Ok, ResultStatus::Ok, ResultStatus::Error];
        let status = if self.random.percent(5) {
            ResultStatus::OutcomeUnknown
        } else {
            *self.random.pick(&statuses)
        };
        let mut parts = content(self.random);
        if self.random.percent(10) {
            parts.push(attachment(self.random));
        }
        let (id, name) = (call.id.clone(), call.name.clone());
        MessageKind::ToolResult(ToolResult::new(id, name, status, parts))
    }
}
