//! The amount of thinking that a request asks for, as far as its other settings allow.

use std::sync::Arc;

use loopwright_core::Message;
use loopwright_core::message::{AssistantMessage, ContentPart, MessageKind};
use loopwright_core::model::{ChatRequest, ThinkingLevel, ToolChoice};
use serde_json::{Value, json};

use super::profile::Settings;
use super::profile::Thinks;
use super::wire::REDACTED;
use crate::formats::encoding::tool_result_pairing::pair_tool_results;

/// The smallest budget that the API accepts.
const MIN_BUDGET_TOKENS: u32 = 1024;

/// The amount of thinking.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Thinking {
    Off,
    Budget(u32),
    Effort(&'static str),
}

/// Returns whether the request forces a tool.
pub(super) fn forces_tool(request: &ChatRequest) -> bool {
    let forced = matches!(request.tool_choice, ToolChoice::Required | ToolChoice::Tool(_));
    forced && !request.tools.is_empty()
}

impl Thinking {
    /// Returns the requested amount of thinking, as far as the provider allows it. A forced tool
    /// excludes thinking. With a budget, so does a turn that this model did not start with
    /// thinking. The user's own option takes precedence if it asks for another kind of thinking.
    pub(super) fn of(request: &ChatRequest, settings: &Settings) -> Thinking {
        if settings.profile.forces && forces_tool(request) {
            return Thinking::Off;
        }
        let thinking = Thinking::of_level(request, settings);
        match settings.options.get("thinking") {
            Some(own) if !settings.has_part("thinking") && own["type"] != thinking.kind() => {
                Thinking::Off
            }
            _ => thinking,
        }
    }

    fn of_level(request: &ChatRequest, settings: &Settings) -> Thinking {
        let (tokens, effort) = match request.thinking {
            ThinkingLevel::Off => return Thinking::Off,
            ThinkingLevel::Minimal => (MIN_BUDGET_TOKENS, "low"),
            ThinkingLevel::Low => (4096, "low"),
            ThinkingLevel::Medium => (8192, "medium"),
            ThinkingLevel::High => (16_384, "high"),
            ThinkingLevel::XHigh => (32_768, "max"),
        };
        // A quarter of the limit, which includes the thinking, is reserved for the reply.
        let limit = request
            .max_tokens
            .or(settings.max_output)
            .map_or(u32::MAX, |max| max - max.div_ceil(4));
        match settings.profile.thinks {
            Thinks::Effort => Thinking::Effort(effort),
            Thinks::Budget
                if limit < MIN_BUDGET_TOKENS || continues_without_thinking(request, settings) =>
            {
                Thinking::Off
            }
            Thinks::Budget => Thinking::Budget(tokens.min(limit)),
        }
    }

    /// Returns the `type` of the `thinking` field. An empty string stands for no field.
    fn kind(self) -> &'static str {
        match self {
            Thinking::Off => "",
            Thinking::Budget(_) => "enabled",
            Thinking::Effort(_) => "adaptive",
        }
    }

    /// Returns the value of the `thinking` field.
    pub(super) fn field(self, settings: &Settings) -> Option<Value> {
        let kind = self.kind();
        match self {
            Thinking::Off => settings.profile.off.map(|off| json!({"type": off})),
            Thinking::Budget(tokens) => Some(json!({"type": kind, "budget_tokens": tokens})),
            Thinking::Effort(_) => Some(json!({"type": kind, "display": "summarized"})),
        }
    }

    /// Returns whether a temperature may be sent. No model accepts one while it thinks.
    pub(super) fn takes_temperature(self, settings: &Settings) -> bool {
        self == Thinking::Off
            && settings.profile.temperature
            && !settings.options.contains_key("thinking")
    }

    /// Returns the output limit, which includes the thinking.
    pub(super) fn max_tokens(self, request: &ChatRequest, settings: &Settings) -> u32 {
        let room = match self {
            Thinking::Off => 0,
            Thinking::Budget(tokens) => tokens,
            Thinking::Effort(_) => 8192,
        };
        let usual = || settings.profile.max_tokens.saturating_add(room);
        request.max_tokens.or(settings.max_output).unwrap_or_else(usual)
    }
}

/// Returns whether the request continues a turn of calls and results that does not start with
/// thinking of this model. What the user says after results is sent in the same message, so that it
/// does not end the turn.
fn continues_without_thinking(request: &ChatRequest, settings: &Settings) -> bool {
    let conversation = pair_tool_results(&request.messages);
    let is_sent = |message: &&Arc<Message>| {
        let says = |reply: &AssistantMessage| reply.has_text() || reply.calls().next().is_some();
        message.is_for_model() && message.as_assistant().is_none_or(says)
    };
    let mut back = conversation.iter().rev().filter(is_sent).peekable();
    let mut first = None;
    while let Some(message) = back.next() {
        let goes_on = back.peek().is_some_and(|before| before.as_assistant().is_none());
        match &message.body {
            MessageKind::User(_) if !goes_on => break,
            MessageKind::Assistant(_) => first = Some(message),
            _ => {}
        }
    }
    first.is_some_and(|message| {
        let begins = message.as_assistant().and_then(|reply| thought(reply.parts.first()?));
        begins.is_none() || !keeps_thinking(message, request, settings)
    })
}

/// Returns whether a reply is sent with its thinking. Only the model that wrote the reply gets it
/// back. For a model that binds thinking, it is lost in two cases: the user's options add tools of
/// the provider, whose results are not part of a reply, or the thinking is older than a compaction.
pub(super) fn keeps_thinking(
    message: &Message,
    request: &ChatRequest,
    settings: &Settings,
) -> bool {
    let older = request.compacted.is_some_and(|compacted| message.id < compacted);
    let lost = settings.profile.binds && (older || settings.options.contains_key("tools"));
    let own = |reply: &AssistantMessage| {
        reply.model == settings.id && reply.parts.iter().any(|p| thought(p).is_some())
    };
    !lost && message.as_assistant().is_some_and(own)
}

/// Encodes a thinking block as received. Returns `None` for a block without a signature, which the
/// API requires.
pub(super) fn thought(part: &ContentPart) -> Option<Value> {
    let ContentPart::Thinking { text, signature: Some(signature) } = part else {
        return None;
    };
    Some(match signature.strip_prefix(REDACTED) {
        Some(data) => json!({"type": "redacted_thinking", "data": data}),
        None => json!({"type": "thinking", "thinking": text, "signature": &**signature}),
    })
}
