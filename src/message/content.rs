//! The content of user messages and tool results.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An item of the content of a user message or a tool result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Content {
    /// A block of text.
    Text {
        /// Text for the model.
        text: String,
    },
    /// An image, or a PDF. A model that cannot read this type of file gets a note instead.
    Image {
        /// The media type, such as `image/png` or `application/pdf`.
        media_type: String,
        /// The bytes in base64.
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
