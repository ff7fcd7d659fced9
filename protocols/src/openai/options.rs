//! Fields that both APIs share, and fields that are refused.

use std::sync::Arc;

use loopwright_core::model::{OutputSchema, ThinkingLevel};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::error::DecodeError;
use crate::from_json::pointer_to;

/// The fields that an agent cannot honour, and the reasons. A value that changes nothing is
/// accepted.
const REFUSED: [(&str, &str); 20] = [
    ("tools", TOOLS),
    ("functions", TOOLS),
    ("web_search_options", TOOLS),
    ("tool_choice", "The agent chooses among its own tools: leave `tool_choice` out."),
    ("max_tool_calls", "The server limits the agent's runs: leave `max_tool_calls` out."),
    ("store", "This server does not store responses: leave `store` out, or set it to false."),
    ("previous_response_id", STATELESS),
    ("conversation", STATELESS),
    ("prompt", "This server has no stored prompts: send `instructions` and `input`."),
    ("background", "A run ends with its connection: leave `background` out."),
    ("n", "A run has one answer: leave `n` out."),
    ("stop", "An agent has no stop sequences: leave `stop` out."),
    ("logprobs", "An agent's answer has no log probabilities: leave `logprobs` out."),
    ("top_logprobs", "An agent's answer has no log probabilities: leave `top_logprobs` out."),
    ("top_p", "Of the sampling parameters only `temperature` is supported: leave `top_p` out."),
    ("frequency_penalty", PENALTY),
    ("presence_penalty", PENALTY),
    ("logit_bias", "Of the sampling parameters only `temperature` is supported."),
    ("seed", "An agent's answers cannot be repeated: leave `seed` out."),
    ("modalities", "An agent answers with text only: leave `modalities` out."),
];
const TOOLS: &str = "The agent has its own tools, and runs them itself: a request cannot add any.";
const STATELESS: &str =
    "This server does not store responses: send the earlier items of the conversation as `input`.";
const PENALTY: &str = "Of the sampling parameters only `temperature` is supported.";

/// Refuses fields that an agent cannot honour, and ignores other unknown fields.
pub(super) fn refuse(fields: &Map<String, Value>) -> Result<(), DecodeError> {
    for (name, why) in REFUSED {
        let changes_something = |value: &Value| match value {
            Value::Null | Value::Bool(false) => false,
            Value::Array(items) => !items.is_empty() && *value != json!(["text"]),
            Value::Object(fields) => !fields.is_empty(),
            Value::Number(number) => match name {
                "n" | "top_p" => number.as_f64() != Some(1.0),
                "seed" => true,
                _ => number.as_f64() != Some(0.0),
            },
            Value::String(text) => name != "tool_choice" || !matches!(&**text, "auto" | "none"),
            Value::Bool(true) => true,
        };
        if fields.get(name).is_some_and(changes_something) {
            return Err(DecodeError::at(pointer_to(name), why));
        }
    }
    Ok(())
}

/// Checks the range of the temperature.
pub(super) fn temperature(value: Option<f32>) -> Result<Option<f32>, DecodeError> {
    match value {
        Some(value) if !(0.0..=2.0).contains(&value) => {
            Err(DecodeError::at("/temperature", "The temperature is not between 0 and 2."))
        }
        value => Ok(value),
    }
}

/// Checks that a maximum number of tokens is not zero.
pub(super) fn max_tokens(value: Option<u32>, field: &str) -> Result<Option<u32>, DecodeError> {
    match value {
        Some(0) => Err(DecodeError::at(
            pointer_to(field),
            "No tokens are allowed: give a number of at least 1.",
        )),
        value => Ok(value),
    }
}

/// The effort of the model's reasoning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum ReasoningEffort {
    None,
    Minimal,
    Low,
    Medium,
    High,
    Xhigh,
    Max,
}

impl From<ReasoningEffort> for ThinkingLevel {
    fn from(effort: ReasoningEffort) -> Self {
        match effort {
            ReasoningEffort::None => ThinkingLevel::Off,
            ReasoningEffort::Minimal => ThinkingLevel::Minimal,
            ReasoningEffort::Low => ThinkingLevel::Low,
            ReasoningEffort::Medium => ThinkingLevel::Medium,
            ReasoningEffort::High => ThinkingLevel::High,
            ReasoningEffort::Xhigh | ReasoningEffort::Max => ThinkingLevel::XHigh,
        }
    }
}

/// A JSON Schema that the answer must fit.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "OpenAiJsonSchema")]
pub(super) struct NamedSchema {
    #[schemars(regex(pattern = r"^[A-Za-z0-9_-]{1,64}$"))]
    name: String,
    schema: Option<Value>,
}

impl NamedSchema {
    /// Returns the schema. `path` is its position in the body.
    pub(super) fn output(self, path: &str) -> Result<Arc<OutputSchema>, DecodeError> {
        if !crate::is_tool_name(&self.name) {
            let why = "Use a name of up to 64 letters, digits, `_` and `-`.";
            return Err(DecodeError::at(format!("{path}/name"), why));
        }
        match self.schema {
            Some(schema @ Value::Object(_)) => Ok(Arc::new(OutputSchema::new(self.name, schema))),
            _ => Err(DecodeError::at(format!("{path}/schema"), "Give a JSON Schema, an object.")),
        }
    }
}

/// Returns the schema of any JSON object.
pub(super) fn any_object() -> Arc<OutputSchema> {
    Arc::new(OutputSchema::new("object", json!({ "type": "object" })))
}
