//! Messages of the user.

use loopwright_core::event::{Input, InputEvent, Prompt};
use loopwright_core::message::{Content, UserMessage};

use crate::error::DecodeError;
use crate::json::Node;

/// Returns the request with this content, under the id of the client's message.
pub(crate) fn request(message: &Node<'_>, content: Vec<Content>) -> Result<Input, DecodeError> {
    let id = message.field("id")?.id()?;
    if is_blank(&content) {
        return Err(message.error("The message is empty: write what is to be done."));
    }
    let prompt = Prompt::from(UserMessage::new(content));
    Ok(InputEvent::UserRequest(prompt).with_id(id))
}

/// Returns whether a message contains only white space.
pub(crate) fn is_blank(content: &[Content]) -> bool {
    content.iter().all(|content| match content {
        Content::Text { text } => text.trim().is_empty(),
        _ => false,
    })
}
