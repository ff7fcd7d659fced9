//! The OpenAI API, in which an agent is the model: Chat Completions and Responses.
//!
//! A request contains the whole conversation: [`ChatCompletionRequest`] and [`ResponsesRequest`]
//! convert it to an [`AgentRequest`]. [`ChatStream`] and [`ResponseStream`] convert the events of
//! the run that answers it. The agent runs its own tools: a client never receives a call that it
//! would have to answer, and cannot add tools of its own.

mod chat;
mod chat_stream;
mod content;
mod options;
mod response;
mod response_stream;
mod responses;

use std::sync::Arc;

use loopwright_core::event::{IncompleteReply, Prompt, RunOutcome};
use loopwright_core::log::LogEntry;
use loopwright_core::message::Usage;
use loopwright_core::model::ThinkingLevel;
use schemars::JsonSchema;
use serde::Serialize;

pub use chat::ChatCompletionRequest;
pub use chat_stream::{ChatCompletion, ChatCompletionChunk, ChatFrame, ChatStream};
pub use response::{Echo, Response, ResponseEvent};
pub use response_stream::ResponseStream;
pub use responses::ResponsesRequest;

/// Holds what a request asks of an agent.
#[derive(Debug)]
#[non_exhaustive]
pub struct AgentRequest {
    /// The agent's name, which is the name of the model.
    pub agent: String,
    /// The client's instructions, to be added to the agent's system prompt: those of the request
    /// and its system and developer messages.
    pub instructions: Option<String>,
    /// The log of a session that has the earlier messages.
    pub history: Vec<LogEntry>,
    /// The last message of the user, and the schema of the answer.
    pub prompt: Prompt,
    /// The sampling temperature.
    pub temperature: Option<f32>,
    /// The maximum number of output tokens of each of the agent's requests.
    pub max_tokens: Option<u32>,
    /// How much the model thinks.
    pub thinking: Option<ThinkingLevel>,
    /// Whether the answer is streamed.
    pub stream: bool,
}

/// Names a response: what its frames have in common.
#[derive(Debug, Clone)]
pub struct ResponseHead {
    /// A unique text of letters and digits.
    pub id: Arc<str>,
    /// The time in seconds since 1970.
    pub created: u64,
    /// The agent's name.
    pub model: Arc<str>,
}

/// The body of an error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "OpenAiErrorBody")]
pub struct ErrorBody {
    /// The error.
    pub error: ErrorObject,
}

/// An error of the OpenAI API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "OpenAiError")]
pub struct ErrorObject {
    /// What was wrong, and what to do.
    pub message: String,
    /// The class of the error, such as `invalid_request_error`.
    pub r#type: &'static str,
    /// The field of the request that is wrong, such as `messages[0].content`.
    pub param: Option<String>,
    /// The kind of the error.
    pub code: Option<String>,
}

impl ErrorBody {
    /// Builds the error of a response with this HTTP status. `path` is a JSON Pointer into the
    /// request, and empty for all of it.
    pub fn new(status: u16, message: &str, code: &str, path: &str) -> Self {
        let r#type = match status {
            401 => "authentication_error",
            403 => "permission_error",
            429 => "rate_limit_error",
            500.. => "server_error",
            _ => "invalid_request_error",
        };
        let param = (!path.is_empty()).then(|| param(path));
        let (message, code) = (message.to_owned(), Some(code.to_owned()));
        ErrorBody { error: ErrorObject { message, r#type, param, code } }
    }
}

/// Converts a JSON Pointer to the form of the API: `/messages/0/content` is `messages[0].content`.
fn param(path: &str) -> String {
    let mut param = String::new();
    for segment in path.split('/').skip(1) {
        match segment.bytes().all(|byte| byte.is_ascii_digit()) && !segment.is_empty() {
            true => param.push_str(&format!("[{segment}]")),
            false if param.is_empty() => param.push_str(segment),
            false => param.push_str(&format!(".{segment}")),
        }
    }
    param.replace("~1", "/").replace("~0", "~")
}

/// Returns why an answer is cut off, if that is why its run failed.
fn incomplete(outcome: &RunOutcome) -> Option<&'static str> {
    match outcome.incomplete {
        Some(IncompleteReply::Length) => Some("max_output_tokens"),
        Some(IncompleteReply::ContentFilter) => Some("content_filter"),
        _ => None,
    }
}

/// Returns the answer of a run that has a schema: its value, or what there is of it.
fn typed_answer(outcome: &RunOutcome) -> String {
    outcome.value.as_ref().map_or_else(|| outcome.text.clone(), |value| value.to_string())
}

/// Returns the tokens of the input, with those that the cache has read and written.
fn input_tokens(usage: &Usage) -> u64 {
    usage.total().saturating_sub(usage.output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_becomes_a_param() {
        assert_eq!(param("/messages/0/content/1/image_url"), "messages[0].content[1].image_url");
        assert_eq!((param("/a~1b").as_str(), param("/0").as_str()), ("a/b", "[0]"));
        let error = ErrorBody::new(400, "No.", "bad_request", "").error;
        assert_eq!((error.param, error.r#type), (None, "invalid_request_error"));
    }
}
