//! Notes for the model after replies that were cut off. The model then sees what the user saw.

use std::sync::Arc;

use crate::message::{Content, History, Message, MessageId, MessageKind, StopReason, UserMessage};

/// The note after a reply that a steer cut off.
const INTERRUPTED: &str = "[The user interrupted the reply above; it is incomplete.]";
/// The note after a reply that an abort, or the end of a part's time, cut off.
const STOPPED: &str = "[The reply above was stopped; it is incomplete.]";

/// Returns the messages of a request with a note after each reply that was interrupted or aborted.
///
/// The note begins the user's next message. If no user message follows directly, the note is one,
/// so roles still alternate. The log has no notes.
pub(crate) fn with_notes(messages: History) -> History {
    if !messages.iter().any(|message| note_after(message).is_some()) {
        return messages;
    }
    let mut noted = Vec::with_capacity(messages.len() + 1);
    let mut owed = None;
    for message in messages.iter() {
        if let Some(note) = std::mem::replace(&mut owed, note_after(message)) {
            if let MessageKind::User(user) = &message.body {
                noted.push(Arc::new(Message::new(message.id, with_note(note, user))));
                continue;
            }
            noted.push(alone(note));
        }
        noted.push(message.clone());
    }
    noted.extend(owed.map(alone));
    Arc::new(noted)
}

/// Returns the note that must follow a message.
fn note_after(message: &Message) -> Option<&'static str> {
    match message.as_assistant()?.stop {
        StopReason::Interrupted => Some(INTERRUPTED),
        StopReason::Aborted => Some(STOPPED),
        _ => None,
    }
}

fn alone(note: &str) -> Arc<Message> {
    Arc::new(Message::new(MessageId::default(), UserMessage::from(note)))
}

/// Returns the message with the note before its text.
fn with_note(note: &str, user: &UserMessage) -> UserMessage {
    let mut content = user.content.clone();
    match content.first_mut() {
        Some(Content::Text { text }) => *text = format!("{note}\n\n{text}"),
        _ => content.insert(0, Content::text(note)),
    }
    UserMessage::new(content)
}
