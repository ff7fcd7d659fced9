//! [`Speakers`]: the blocks of the detached replies that are being streamed.

use std::sync::Arc;

use loopwright_core::Message;
use loopwright_core::message::{ContentPart, DetachedMessage, MessageId};

use crate::tui::state::entries::Entries;
use crate::tui::state::entry::{Entry, Kind, ReplyText};

/// The detached replies being streamed, each with the id of the block of its text. The block above
/// it is the name of the speaker. Several can stream at once.
#[derive(Debug, Default)]
pub(super) struct Speakers(Vec<(MessageId, u64)>);

impl Speakers {
    /// Returns one of the messages being streamed.
    pub(super) fn message(&self) -> Option<MessageId> {
        self.0.first().map(|(message, _)| *message)
    }

    /// Adds text to a reply, and the name of the speaker before the first text.
    pub(super) fn say(
        &mut self,
        entries: &mut Entries,
        message: MessageId,
        speaker: &Arc<str>,
        delta: &str,
    ) {
        if self.0.iter().all(|(other, _)| *other != message) {
            entries.push(Some(message), Kind::Speaker(speaker.clone()));
            entries.push(Some(message), Kind::Text(ReplyText::Streaming(String::new())));
            let block = entries.as_slice().last().map(|entry| entry.id).unwrap_or_default();
            self.0.push((message, block));
        }
        if let Some(entry) = self.block(entries, message) {
            if let Kind::Text(ReplyText::Streaming(text)) = &mut entry.kind {
                text.push_str(delta);
            }
            entry.changed();
        }
    }

    /// Adds a complete reply in place of its text so far. Only texts are shown. Returns the blocks
    /// that came after removed ones.
    pub(super) fn end(
        &mut self,
        entries: &mut Entries,
        message: &Arc<Message>,
        shown: &DetachedMessage,
    ) -> Vec<Entry> {
        let parts = shown.reply.parts.iter().enumerate();
        let is_text = |part: &ContentPart| matches!(part, ContentPart::Text { .. });
        let texts: Vec<usize> = parts.filter(|(_, part)| is_text(part)).map(|(at, _)| at).collect();
        let complete = |part: usize| Kind::Text(ReplyText::Complete(message.clone(), part));
        if let [part] = texts[..]
            && let Some(entry) = self.block(entries, message.id)
        {
            entry.kind = complete(part);
            entry.changed();
            self.0.retain(|(other, _)| *other != message.id);
            return Vec::new();
        }
        let after = self.take(entries, message.id);
        if !texts.is_empty() {
            entries.push(Some(message.id), Kind::Speaker(shown.speaker.clone()));
        }
        texts.into_iter().for_each(|part| entries.push(Some(message.id), complete(part)));
        after
    }

    /// Removes the blocks of a message if it is being streamed. Returns the blocks that came after
    /// them.
    pub(super) fn take(&mut self, entries: &mut Entries, message: MessageId) -> Vec<Entry> {
        let streamed = self.0.extract_if(.., |(other, _)| *other == message).next();
        let Some(at) = streamed.and_then(|(_, block)| entries.position(block)) else {
            return Vec::new();
        };
        let mut tail = entries.split_off(at.saturating_sub(1));
        tail.split_off(2.min(tail.len()))
    }

    fn block<'a>(&self, entries: &'a mut Entries, message: MessageId) -> Option<&'a mut Entry> {
        let (_, block) = self.0.iter().find(|(other, _)| *other == message)?;
        let at = entries.position(*block)?;
        entries.get_mut(at)
    }
}
