//! Errors of tools and toolboxes.

use std::sync::Arc;
use std::{fmt, io};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The reason why a tool call failed. Every variant except [`ToolError::Suspend`] becomes an error
/// result, so the text should tell the model what to do differently.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// The call failed. The text tells the model why and what to do.
    #[error("{0}")]
    Failed(String),
    /// The call failed, and front ends get more information than the model: the `details` become
    /// the details of the result.
    #[error("{why}")]
    FailedWith {
        /// The reason and the remedy, for the model.
        why: String,
        /// Data for front ends.
        details: Value,
    },
    /// The call stopped because [`ToolContext::cancelled`](crate::ToolContext::cancelled) resolved.
    #[error("cancelled")]
    Cancelled,
    /// The call stopped as with [`ToolError::Cancelled`], but already had output. The model and
    /// front ends get the output, after a line that reports the abort.
    #[error("cancelled")]
    CancelledWith {
        /// The output so far, for the model.
        output: String,
        /// Data for front ends; `null` for none.
        details: Value,
    },
    /// The call first needs something from outside. A tool must return this before any effect.
    /// After the decision the tool is called again with the same call id, and
    /// [`ToolContext::decision`](crate::ToolContext::decision) returns the decision.
    #[error("waiting for {}", .0.kind)]
    Suspend(ActionRequest),
}

impl ToolError {
    /// Builds a failure with a text for the model.
    pub fn failed(why: impl fmt::Display) -> Self {
        ToolError::Failed(why.to_string())
    }
}

/// A tool that reads or writes needs only `?`: the model gets the error's text.
///
/// ```
/// # use loopwright_core::ToolError;
/// fn read(path: &str) -> Result<String, ToolError> {
///     Ok(std::fs::read_to_string(path)?)
/// }
/// assert!(matches!(read("no such file"), Err(ToolError::Failed(_))));
/// ```
impl From<io::Error> for ToolError {
    fn from(error: io::Error) -> Self {
        ToolError::failed(error)
    }
}

/// A suspended tool call's request to the outside.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ActionRequest {
    /// The kind of request, such as `login`; `question` for a
    /// [`Question`](crate::tool::Question), which is then the data.
    pub kind: String,
    /// Data for the front end that shows the request.
    #[serde(default)]
    pub data: Value,
}

impl ActionRequest {
    /// Builds a request of this kind with data for the front end.
    pub fn new(kind: impl Into<String>, data: impl Into<Value>) -> Self {
        ActionRequest { kind: kind.into(), data: data.into() }
    }
}

/// The reason why a tool cannot be added to a toolbox.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ToolboxError {
    /// Another tool has the name.
    #[error("there are two tools named `{0}`: rename one, or give its source a prefix")]
    Twice(Arc<str>),
    /// Some provider would not accept the name.
    #[error("`{0}` is not a valid tool name: use 1 to 64 of letters, digits, `_` and `-`")]
    Name(Arc<str>),
    /// The tool has only a schema, and the feature that checks schemas is off.
    #[error(
        "the arguments of tool `{0}` cannot be checked: enable the feature `schema` of \
         loopwright-core, or implement `Tool::check_arguments`"
    )]
    Unchecked(Arc<str>),
    /// The tool's schema is not a valid JSON Schema.
    #[error("the schema of tool `{name}` is not valid: {why}")]
    Schema {
        /// The tool with the invalid schema.
        name: Arc<str>,
        /// The error in the schema.
        why: String,
    },
}
