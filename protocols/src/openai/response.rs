//! [`Response`] and [`ResponseEvent`]: what `POST /v1/responses` answers.

use std::sync::Arc;

use loopwright_core::message::Usage;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::outcome::input_tokens;

/// Holds what a response repeats of its request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "ResponseEcho")]
pub struct Echo {
    pub(super) instructions: Option<String>,
    pub(super) temperature: Option<f32>,
    pub(super) max_output_tokens: Option<u32>,
    pub(super) metadata: Map<String, Value>,
}

/// Holds a response as far as it has come.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "OpenAiResponse")]
pub struct Response {
    pub(super) id: String,
    pub(super) object: &'static str,
    pub(super) created_at: u64,
    pub(super) status: Status,
    pub(super) error: Option<ResponseError>,
    pub(super) incomplete_details: Option<IncompleteDetails>,
    pub(super) model: Arc<str>,
    pub(super) output: Vec<OutputItem>,
    pub(super) usage: Option<ResponseUsage>,
    #[serde(flatten)]
    pub(super) echo: Echo,
    /// The agent runs its tools itself, so there are none.
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

/// How far a response, an item or a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "OpenAiStatus")]
pub(super) enum Status {
    InProgress,
    Completed,
    Incomplete,
    Failed,
}

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(super) struct ResponseError {
    /// `rate_limit_exceeded` or `server_error`.
    pub(super) code: &'static str,
    pub(super) message: String,
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
        content: Vec<OutputText>,
        /// `commentary` if the agent calls tools after it, else `final_answer`; missing if that is
        /// not known.
        #[serde(skip_serializing_if = "Option::is_none")]
        phase: Option<&'static str>,
    },
    /// What the model thought.
    Reasoning { id: String, summary: Vec<SummaryText>, status: Status },
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

/// Text of a message.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "type", rename = "output_text")]
pub(super) struct OutputText {
    pub(super) text: String,
    /// There are none.
    pub(super) annotations: [(); 0],
    /// There are none.
    pub(super) logprobs: [(); 0],
}

/// Text of a summary.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "type", rename = "summary_text")]
pub(super) struct SummaryText {
    pub(super) text: String,
}

/// Why a call failed.
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

#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
struct InputTokens {
    cached_tokens: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
struct OutputTokens {
    reasoning_tokens: u64,
}

impl From<&Usage> for ResponseUsage {
    fn from(usage: &Usage) -> Self {
        ResponseUsage {
            input_tokens: input_tokens(usage),
            input_tokens_details: InputTokens { cached_tokens: usage.cache_read },
            output_tokens: usage.output,
            output_tokens_details: OutputTokens { reasoning_tokens: usage.reasoning },
            total_tokens: usage.total(),
        }
    }
}

/// Represents an event of a stream.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ResponseEvent {
    pub(super) sequence_number: u64,
    #[serde(flatten)]
    pub(super) kind: EventKind,
}

impl ResponseEvent {
    /// Returns the `type` of the event, which is the name of its frame.
    pub fn name(&self) -> &'static str {
        match &self.kind {
            EventKind::Created { .. } => "response.created",
            EventKind::InProgress { .. } => "response.in_progress",
            EventKind::Completed { .. } => "response.completed",
            EventKind::Incomplete { .. } => "response.incomplete",
            EventKind::Failed { .. } => "response.failed",
            EventKind::ItemAdded { .. } => "response.output_item.added",
            EventKind::ItemDone { .. } => "response.output_item.done",
            EventKind::PartAdded { .. } => "response.content_part.added",
            EventKind::PartDone { .. } => "response.content_part.done",
            EventKind::TextDelta { .. } => "response.output_text.delta",
            EventKind::TextDone { .. } => "response.output_text.done",
            EventKind::SummaryAdded { .. } => "response.reasoning_summary_part.added",
            EventKind::SummaryDone { .. } => "response.reasoning_summary_part.done",
            EventKind::SummaryDelta { .. } => "response.reasoning_summary_text.delta",
            EventKind::SummaryTextDone { .. } => "response.reasoning_summary_text.done",
            EventKind::CallInProgress { .. } => "response.mcp_call.in_progress",
            EventKind::CallArguments { .. } => "response.mcp_call_arguments.done",
            EventKind::CallCompleted { .. } => "response.mcp_call.completed",
            EventKind::CallFailed { .. } => "response.mcp_call.failed",
        }
    }

    /// Returns the response, if the event is the last of a stream.
    pub fn into_response(self) -> Option<Response> {
        match self.kind {
            EventKind::Completed { response }
            | EventKind::Incomplete { response }
            | EventKind::Failed { response } => Some(response),
            _ => None,
        }
    }
}

impl Response {
    /// Returns the code and the message of the error, if the run failed.
    pub fn failure(&self) -> Option<(&str, &str)> {
        self.error.as_ref().map(|error| (error.code, &*error.message))
    }
}

/// Where in the output an event belongs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(super) struct At {
    pub(super) item_id: String,
    pub(super) output_index: usize,
}

/// The kinds of events.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "type")]
#[schemars(rename = "ResponseEventKind")]
pub(super) enum EventKind {
    #[serde(rename = "response.created")]
    Created { response: Response },
    #[serde(rename = "response.in_progress")]
    InProgress { response: Response },
    #[serde(rename = "response.completed")]
    Completed { response: Response },
    #[serde(rename = "response.incomplete")]
    Incomplete { response: Response },
    #[serde(rename = "response.failed")]
    Failed { response: Response },
    #[serde(rename = "response.output_item.added")]
    ItemAdded { output_index: usize, item: OutputItem },
    #[serde(rename = "response.output_item.done")]
    ItemDone { output_index: usize, item: OutputItem },
    #[serde(rename = "response.content_part.added")]
    PartAdded {
        #[serde(flatten)]
        at: At,
        content_index: u32,
        part: OutputText,
    },
    #[serde(rename = "response.content_part.done")]
    PartDone {
        #[serde(flatten)]
        at: At,
        content_index: u32,
        part: OutputText,
    },
    #[serde(rename = "response.output_text.delta")]
    TextDelta {
        #[serde(flatten)]
        at: At,
        content_index: u32,
        delta: String,
        logprobs: [(); 0],
    },
    #[serde(rename = "response.output_text.done")]
    TextDone {
        #[serde(flatten)]
        at: At,
        content_index: u32,
        text: String,
        logprobs: [(); 0],
    },
    #[serde(rename = "response.reasoning_summary_part.added")]
    SummaryAdded {
        #[serde(flatten)]
        at: At,
        summary_index: u32,
        part: SummaryText,
    },
    #[serde(rename = "response.reasoning_summary_part.done")]
    SummaryDone {
        #[serde(flatten)]
        at: At,
        summary_index: u32,
        part: SummaryText,
    },
    #[serde(rename = "response.reasoning_summary_text.delta")]
    SummaryDelta {
        #[serde(flatten)]
        at: At,
        summary_index: u32,
        delta: String,
    },
    #[serde(rename = "response.reasoning_summary_text.done")]
    SummaryTextDone {
        #[serde(flatten)]
        at: At,
        summary_index: u32,
        text: String,
    },
    #[serde(rename = "response.mcp_call.in_progress")]
    CallInProgress {
        #[serde(flatten)]
        at: At,
    },
    #[serde(rename = "response.mcp_call_arguments.done")]
    CallArguments {
        #[serde(flatten)]
        at: At,
        arguments: String,
    },
    #[serde(rename = "response.mcp_call.completed")]
    CallCompleted {
        #[serde(flatten)]
        at: At,
    },
    #[serde(rename = "response.mcp_call.failed")]
    CallFailed {
        #[serde(flatten)]
        at: At,
    },
}
