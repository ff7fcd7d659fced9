//! The content of user messages and tool results.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Represents one item of the content of a user message or a tool result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Content {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// An image, or a PDF. A model that cannot take a file of this type gets a text that says so.
    Image {
        /// Its media type, such as `image/png` or `application/pdf`.
        media_type: String,
        /// Its bytes in base64.
        data: String,
    },
}

impl Content {
    /// Builds a text.
    pub fn text(text: impl Into<String>) -> Self {
        Content::Text { text: text.into() }
    }

    /// Builds an image or a PDF from its media type and its bytes in base64.
    pub fn image(media_type: impl Into<String>, data: impl Into<String>) -> Self {
        Content::Image { media_type: media_type.into(), data: data.into() }
    }
}

pub(crate) fn join_text(content: &[Content]) -> String {
    let mut out = String::new();
    for item in content {
        if let Content::Text { text } = item {
            out.push_str(text);
        }
    }
    out
}
