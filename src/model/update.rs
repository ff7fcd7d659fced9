//! [`Update`]: one change of a reply that streams.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One piece of a message that streams; never the whole of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Update {
    /// Text.
    Text {
        /// The block of the message.
        block: u32,
        /// What is added.
        delta: String,
    },
    /// Thinking.
    Thinking {
        /// The block of the message.
        block: u32,
        /// What is added.
        delta: String,
    },
    /// A tool call begins.
    ToolCallStart {
        /// The block of the message.
        block: u32,
        /// The tool's name.
        name: Arc<str>,
    },
    /// Raw JSON of a call's arguments.
    ToolCall {
        /// The block of the message.
        block: u32,
        /// What is added.
        delta: String,
    },
    /// Forget this message's deltas so far: the attempt is retried, was lost in a crash, or nothing
    /// was said.
    Withdrawn,
}
