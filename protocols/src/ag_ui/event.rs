//! [`Event`]: an event of AG-UI.

use std::collections::VecDeque;
use std::sync::Arc;

use loopwright_core::message::{Content, Usage};
use serde::Serialize;
use serde_json::{Value, json};

/// The version of the protocol.
pub(super) const PROTOCOL_VERSION: &str = "1.0";

/// An event of AG-UI, as JSON.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Event(pub(super) Value);

/// Events that are ready to be sent.
pub(super) type Events = VecDeque<Event>;

/// Returns a `TokenUsage`, whose totals include their parts. A model is named `PROVIDER/NAME`.
pub(super) fn token_usage((model, usage): (&Arc<str>, &Usage)) -> Value {
    let (provider, name) = model.split_once('/').unwrap_or(("", model));
    let mut value = json!({
        "model": name, "inputTokens": usage.total().saturating_sub(usage.output),
        "outputTokens": usage.output, "totalTokens": usage.total(),
        "reasoningTokens": usage.reasoning, "cachedInputTokens": usage.cache_read,
        "cacheWriteInputTokens": usage.cache_write,
    });
    if !provider.is_empty() {
        value["provider"] = provider.into();
    }
    value
}

/// Returns the content of a message: a string, or parts if it has more than text.
pub(super) fn content(content: &[Content]) -> Value {
    let part = |content: &Content| match content {
        Content::Text { text } => Some(json!({ "type": "text", "text": text })),
        Content::Image { media_type, data } => {
            let kind = if media_type.starts_with("image/") { "image" } else { "document" };
            let source = json!({ "type": "data", "value": data, "mimeType": media_type });
            Some(json!({ "type": kind, "source": source }))
        }
        _ => None,
    };
    match content {
        [] => json!(""),
        [Content::Text { text }] => json!(text),
        parts => parts.iter().filter_map(part).collect(),
    }
}
