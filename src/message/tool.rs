//! Tool calls and their results.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::json::check_size;
use crate::message::content::{Content, join_text};
use crate::message::ids::CallId;

/// A tool call as the model wrote it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ToolCall {
    /// The id, unique in the session.
    pub id: CallId,
    /// The tool's name.
    pub name: Arc<str>,
    /// The JSON text of the arguments, unchanged. It may be malformed.
    pub arguments: Arc<str>,
    /// The provider's signature, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<Arc<str>>,
}

impl ToolCall {
    /// Builds a call without a signature.
    pub fn new(
        id: impl Into<CallId>,
        name: impl Into<Arc<str>>,
        arguments: impl Into<Arc<str>>,
    ) -> Self {
        ToolCall { id: id.into(), name: name.into(), arguments: arguments.into(), signature: None }
    }

    /// Returns the arguments, or `None` if they are not JSON, longer than 4 MiB, or have more than
    /// 100,000 values. Such calls do not run.
    pub fn parse_arguments(&self) -> Option<Value> {
        check_size(&self.arguments).ok()?;
        serde_json::from_str(&self.arguments).ok()
    }

    /// Sets the provider's signature.
    pub fn signature(mut self, signature: impl Into<Option<Arc<str>>>) -> Self {
        self.signature = signature.into();
        self
    }
}

/// The result of a tool call. Each call has exactly one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ToolResult {
    /// The id of the call.
    pub call: CallId,
    /// The tool's name.
    pub name: Arc<str>,
    /// The way the call ended.
    pub status: ResultStatus,
    /// The content for the model.
    pub content: Vec<Content>,
    /// Data for a user interface; never sent to a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Arc<Value>>,
    /// `true` if the tool asks for the end of the run after this batch, without another request.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub terminate: bool,
    /// The whole seconds that the call took; zero if it took less than one or did not run. Never
    /// sent to a model.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub seconds: u32,
}

fn is_zero(seconds: &u32) -> bool {
    *seconds == 0
}

impl ToolResult {
    /// Builds a result without details that does not end the run.
    pub fn new(
        call: impl Into<CallId>,
        name: impl Into<Arc<str>>,
        status: ResultStatus,
        content: Vec<Content>,
    ) -> Self {
        ToolResult {
            call: call.into(),
            name: name.into(),
            status,
            content,
            details: None,
            terminate: false,
            seconds: 0,
        }
    }

    /// Sets the data for a user interface.
    pub fn details(mut self, details: impl Into<Option<Arc<Value>>>) -> Self {
        self.details = details.into();
        self
    }

    /// Asks for the end of the run after this batch.
    pub fn terminate(mut self) -> Self {
        self.terminate = true;
        self
    }

    /// Returns the texts, joined.
    pub fn text(&self) -> String {
        join_text(&self.content)
    }

    /// Returns whether the call failed or did not run, from the model's point of view.
    pub fn is_error(&self) -> bool {
        self.status != ResultStatus::Ok
    }
}

/// The way a tool call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ResultStatus {
    /// The call ran, or a decision provided its result.
    Ok,
    /// The call could not run, or it failed.
    Error,
    /// The user, a hook, or a later message of the user refused the call.
    Denied,
    /// A steer or the end of the run came before the call started.
    Skipped,
    /// The call was cancelled.
    Aborted,
    /// A crash cut off the call. It may have had effects.
    OutcomeUnknown,
}
