//! [`Update`], one change of a reply that streams.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Describes one change of a message that streams; never the whole message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Update {
    /// Text.
    Text {
        /// The block of the message.
        block: u32,
        /// The text to append.
        delta: String,
    },
    /// Thinking.
    Thinking {
        /// The block of the message.
        block: u32,
        /// The text to append.
        delta: String,
    },
    /// A tool call starts.
    ToolCallStart {
        /// The block of the message.
        block: u32,
        /// The tool's name.
        name: Arc<str>,
    },
    /// A fragment of the JSON text of a call's arguments.
    ToolCall {
        /// The block of the message.
        block: u32,
        /// The text to append.
        delta: String,
    },
    /// All deltas of this message are void: the attempt is retried, was lost in a crash, or
    /// produced nothing.
    Withdrawn,
}
