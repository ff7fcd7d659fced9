//! [`Response`] and [`ResponseEvent`]: the bodies that answer `POST /v1/responses`.

use std::sync::Arc;

use loopwright_core::message::Usage;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::outcome::{InputTokens, OutputTokens, input_tokens};

/// The fields of a request that its response repeats.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "ResponseEcho")]
pub struct Echo {
    pub(super) instructions: Option<String>,
    pub(super) temperature: Option<f32>,
    pub(super) max_output_tokens: Option<u32>,
    pub(super) metadata: Map<String, Value>,
}

/// A response in its current state.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "OpenAiResponse")]
pub struct Response {
    pub(super) id: String,
    pub(super) object: &'static str,
    pub(super) created_at: u64,
    pub(super) status: Status,
    /// The reason why the run failed; `None` if it did not.
    pub error: Option<ResponseError>,
    pub(super) incomplete_details: Option<IncompleteDetails>,
    pub(super) model: Arc<str>,
    pub(super) output: Vec<OutputItem>,
    pub(super) usage: Option<ResponseUsage>,
    #[serde(flatten)]
    pub(super) echo: Echo,
    /// Always empty, because the agent runs its tools itself.
    pub(super) tools: [(); 0],
    pub(super) tool_choice: &'static str,
    pub(super) parallel_tool_calls: bool,
    /// Always `false`.
    pub(super) store: bool,
    /// Always `null`.
    pub(super) top_p: (),
    /// Always `null`.
    pub(super) previous_response_id: (),
}

/// The status of a response, an item or a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "OpenAiStatus")]
pub(super) enum Status {
    #[default]
    InProgress,
    Completed,
    Incomplete,
    Failed,
}

/// The reason why a run failed.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ResponseError {
    /// `rate_limit_exceeded` or `server_error`.
    pub code: &'static str,
    /// A text for the user.
    pub message: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(super) struct IncompleteDetails {
    /// `max_output_tokens` or `content_filter`.
    pub(super) reason: &'static str,
}

/// An item of the output.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schemars(rename = "OpenAiOutputItem")]
pub(super) enum OutputItem {
    /// A message of the agent.
    Message {
        id: String,
        role: &'static str,
        status: Status,
        content: Vec<Part>,
        /// `commentary` if the agent calls tools after it, else `final_answer`. Missing if unknown.
        #[serde(skip_serializing_if = "Option::is_none")]
        phase: Option<&'static str>,
    },
    /// The reasoning of the model.
    Reasoning { id: String, summary: Vec<Part>, status: Status },
    /// A call that the agent runs itself.
    McpCall {
        id: String,
        /// The agent's name.
        server_label: Arc<str>,
        name: Arc<str>,
        /// JSON.
        arguments: String,
        status: Status,
        output: Option<String>,
        error: Option<CallError>,
    },
}

/// Text of a message, or of the summary of reasoning.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[schemars(rename = "OpenAiPart")]
pub(super) enum Part {
    /// Text, without annotations and log probabilities.
    OutputText {
        text: String,
        annotations: [(); 0],
        logprobs: [(); 0],
    },
    SummaryText {
        text: String,
    },
}

/// The reason why a call failed.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "type", rename = "mcp_tool_execution_error")]
pub(super) struct CallError {
    pub(super) content: String,
}

/// The tokens of all requests of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub(super) struct ResponseUsage {
    input_tokens: u64,
    input_tokens_details: InputTokens,
    output_tokens: u64,
    output_tokens_details: OutputTokens,
    total_tokens: u64,
}

impl From<&Usage> for ResponseUsage {
    fn from(usage: &Usage) -> Self {
        ResponseUsage {
            input_tokens: input_tokens(usage),
            input_tokens_details: usage.into(),
            output_tokens: usage.output,
            output_tokens_details: usage.into(),
            total_tokens: usage.total(),
        }
    }
}

/// An event of a stream. Its type determines its fields.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct ResponseEvent {
    /// The type, which is also the name of the frame, such as `response.output_text.delta`.
    pub r#type: &'static str,
    pub(super) sequence_number: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// The current state of the response, in the first events and the last one.
    pub response: Option<Response>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) output_index: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) item: Option<OutputItem>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) item_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) content_index: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) summary_index: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) part: Option<Part>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) delta: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) logprobs: Option<[(); 0]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) arguments: Option<String>,
}
