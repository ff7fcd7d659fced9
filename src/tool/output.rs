//! [`ToolOutput`], the output of a tool.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::message::Content;

/// The output of a tool call. Strings and JSON values convert into it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[non_exhaustive]
pub struct ToolOutput {
    /// The content for the model.
    pub content: Vec<Content>,
    /// Data for a user interface; never sent to a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    /// `true` if the run may end without another request. It ends if all results of the batch
    /// agree.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub terminate: bool,
    /// The whole seconds that the call took. The engine measures the time of the tool, and raises a
    /// smaller number to it.
    #[serde(skip)]
    pub seconds: u32,
}

impl ToolOutput {
    /// Builds an output from a text for the model.
    pub fn text(text: impl Into<String>) -> Self {
        ToolOutput { content: vec![Content::text(text)], ..Self::default() }
    }

    /// Sets the data for a user interface.
    pub fn details(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }

    /// Raises the time that the call took to this number of seconds.
    pub(crate) fn took_at_least(self, seconds: u32) -> Self {
        ToolOutput { seconds: self.seconds.max(seconds), ..self }
    }

    /// Asks to end the run after this batch.
    pub fn terminate(mut self) -> Self {
        self.terminate = true;
        self
    }
}

impl From<String> for ToolOutput {
    fn from(text: String) -> Self {
        ToolOutput::text(text)
    }
}

impl From<&str> for ToolOutput {
    fn from(text: &str) -> Self {
        ToolOutput::text(text)
    }
}

impl From<Value> for ToolOutput {
    fn from(value: Value) -> Self {
        ToolOutput::text(value.to_string())
    }
}
