//! Images and PDFs that a model is not sent: it takes none, or the provider has refused them.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use loopwright_core::Message;
use loopwright_core::message::{Content, MessageKind};
use loopwright_core::model::{ChatRequest, ModelError, ModelErrorKind};

/// The text in place of each file for a model that takes none.
pub(super) const NOT_TAKEN: &str = "[A file is left out here, because this model takes no images.]";
/// The text in place of each file after the provider has refused one.
pub(super) const REFUSED: &str =
    "[A file is left out here, because the provider has refused an image of this conversation.]";
/// The maximum number of sessions that are remembered.
const MAX_SESSIONS: usize = 1_000;

/// The sessions for which a provider has refused an image. They are sent without images from then
/// on, as long as the model lives.
#[derive(Clone, Default)]
pub(crate) struct RefusedImages(Arc<Mutex<HashSet<Arc<str>>>>);

impl RefusedImages {
    pub(super) fn contains(&self, session: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(session)
    }

    pub(super) fn add(&self, session: Arc<str>) {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sessions.len() >= MAX_SESSIONS {
            sessions.clear();
        }
        if !session.is_empty() {
            sessions.insert(session);
        }
    }
}

/// Returns whether a provider has refused a request because of an image.
pub(super) fn names_image(error: &ModelError) -> bool {
    let text = error.message.to_ascii_lowercase();
    error.kind == ModelErrorKind::InvalidRequest
        && ["image", "pdf"].iter().any(|word| text.contains(word))
}

pub(super) fn has_images(request: &ChatRequest) -> bool {
    request.messages.iter().any(|message| content(&message.body).iter().any(is_image))
}

/// Returns the request with a text in place of each image and PDF. Other messages are shared.
pub(super) fn without_images(request: &ChatRequest, text: &str) -> ChatRequest {
    let messages = request.messages.iter().map(|message| {
        if !content(&message.body).iter().any(is_image) {
            return message.clone();
        }
        let mut body = message.body.clone();
        let content = match &mut body {
            MessageKind::User(user) => &mut user.content,
            MessageKind::ToolResult(result) => &mut result.content,
            _ => return message.clone(),
        };
        for file in content.iter_mut().filter(|item| is_image(item)) {
            *file = Content::text(text);
        }
        Arc::new(Message::new(message.id, body))
    });
    let mut request = request.clone();
    request.messages = Arc::new(messages.collect());
    request
}

fn content(body: &MessageKind) -> &[Content] {
    match body {
        MessageKind::User(user) => &user.content,
        MessageKind::ToolResult(result) => &result.content,
        _ => &[],
    }
}

fn is_image(content: &Content) -> bool {
    matches!(content, Content::Image { .. })
}

#[cfg(test)]
mod tests {
    use loopwright_core::message::{MessageId, ResultStatus, ToolResult, UserMessage};

    use super::*;

    #[test]
    fn only_messages_with_images_are_replaced() {
        let pdf = Content::image("application/pdf", "AAAA");
        let text = Content::text("x");
        let result = ToolResult::new("c", "f", ResultStatus::Ok, vec![text.clone(), pdf]);
        let bodies = [MessageKind::User(UserMessage::from("Hi")), MessageKind::ToolResult(result)];
        let messages =
            (1..).zip(bodies).map(|(id, body)| Arc::new(Message::new(MessageId(id), body)));
        let mut request = ChatRequest::default();
        request.messages = Arc::new(messages.collect());
        let without = without_images(&request, NOT_TAKEN);
        assert!(has_images(&request) && !has_images(&without));
        assert!(Arc::ptr_eq(&request.messages[0], &without.messages[0]));
        assert_eq!(content(&without.messages[1].body), [text, Content::text(NOT_TAKEN)]);
    }
}
