//! Notes for the model after replies that the user cut off. The model then sees what the user saw.

use std::sync::Arc;

use crate::message::{Content, History, Message, MessageId, MessageKind, StopReason, UserMessage};

/// The note after a reply that the user cut off.
const NOTE: &str = "[The user interrupted the reply above; it is incomplete.]";

/// Returns the messages of a request with a note after each reply that was interrupted or aborted.
///
/// The note begins the user's next message. If no user message follows directly, the note is one,
/// so roles still alternate. The log has no notes.
pub(crate) fn with_notes(messages: History) -> History {
    if !messages.iter().any(|message| is_cut_off(message)) {
        return messages;
    }
    let mut noted = Vec::with_capacity(messages.len() + 1);
    let mut owes_note = false;
    for message in messages.iter() {
        if std::mem::replace(&mut owes_note, is_cut_off(message)) {
            if let MessageKind::User(user) = &message.body {
                noted.push(Arc::new(Message::new(message.id, after_note(user))));
                continue;
            }
            noted.push(note());
        }
        noted.push(message.clone());
    }
    if owes_note {
        noted.push(note());
    }
    Arc::new(noted)
}

fn is_cut_off(message: &Message) -> bool {
    let reply = message.as_assistant();
    reply.is_some_and(|m| matches!(m.stop, StopReason::Interrupted | StopReason::Aborted))
}

fn note() -> Arc<Message> {
    Arc::new(Message::new(MessageId::default(), UserMessage::from(NOTE)))
}

/// Returns the message with the note before its text.
fn after_note(user: &UserMessage) -> UserMessage {
    let mut content = user.content.clone();
    match content.first_mut() {
        Some(Content::Text { text }) => *text = format!("{NOTE}\n\n{text}"),
        _ => content.insert(0, Content::text(NOTE)),
    }
    UserMessage::new(content)
}
