//! [`Update`], one change of a streaming reply.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One change of a streaming message; never the whole message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Update {
    /// A fragment of text for the user.
    Text {
        /// The number of the block in the message.
        block: u32,
        /// The text to append.
        delta: String,
    },
    /// A fragment of the model's thinking.
    Thinking {
        /// The number of the block in the message.
        block: u32,
        /// The text to append.
        delta: String,
    },
    /// The start of a tool call.
    ToolCallStart {
        /// The number of the block in the message.
        block: u32,
        /// The tool's name.
        name: Arc<str>,
    },
    /// A fragment of the JSON text of a call's arguments.
    ToolCall {
        /// The number of the block in the message.
        block: u32,
        /// The text to append.
        delta: String,
    },
    /// All deltas of this message are void: the attempt is retried, was lost in a crash, or had no
    /// result.
    Withdrawn,
}
