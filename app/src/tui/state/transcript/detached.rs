//! Detached replies in the transcript: each is a name and the text below it. Several can stream.

use std::sync::Arc;

use loopwright_core::Message;
use loopwright_core::message::{ContentPart, DetachedMessage, MessageId};
use loopwright_core::model::Update;

use super::Transcript;
use crate::tui::state::entry::{Kind, ReplyText};

impl Transcript {
    /// Adds a part of a detached reply. Only text is shown.
    pub(super) fn detached(&mut self, id: MessageId, speaker: &Arc<str>, update: &Update) {
        match update {
            _ if self.seen.contains(&id) => {}
            Update::Withdrawn => {
                if let Some(at) = self.speaking.iter().position(|(other, _)| *other == id) {
                    let (_, block) = self.speaking.remove(at);
                    self.remove_detached(block);
                }
            }
            Update::Text { delta, .. } => {
                let block = match self.speaking.iter().find(|(other, _)| *other == id) {
                    Some((_, block)) => *block,
                    None => self.start_detached(id, speaker),
                };
                if let Some(entry) = self.entry_mut(block) {
                    if let Kind::Text(ReplyText::Streaming(text)) = &mut entry.kind {
                        text.push_str(delta);
                    }
                    entry.changed();
                }
            }
            _ => {}
        }
    }

    /// Removes all detached replies that stream.
    pub(super) fn withdraw_detached(&mut self) {
        for (_, block) in std::mem::take(&mut self.speaking) {
            self.remove_detached(block);
        }
    }

    /// Adds a complete detached reply, in place of its text so far.
    pub(super) fn whole_detached(&mut self, message: &Arc<Message>, shown: &DetachedMessage) {
        let is_text = |part: &ContentPart| matches!(part, ContentPart::Text { .. });
        let texts: Vec<usize> =
            (0..shown.reply.parts.len()).filter(|at| is_text(&shown.reply.parts[*at])).collect();
        let complete = |part: usize| Kind::Text(ReplyText::Complete(message.clone(), part));
        let at = self.speaking.iter().position(|(id, _)| *id == message.id);
        let streamed = at.map(|at| self.speaking.remove(at).1);
        match (streamed, &texts[..]) {
            (Some(block), [part]) => {
                if let Some(entry) = self.entry_mut(block) {
                    entry.kind = complete(*part);
                    entry.changed();
                }
            }
            (streamed, texts) => {
                streamed.into_iter().for_each(|block| self.remove_detached(block));
                if !texts.is_empty() {
                    self.entries.push(Some(message.id), Kind::Speaker(shown.speaker.clone()));
                }
                for part in texts {
                    self.entries.push(Some(message.id), complete(*part));
                }
            }
        }
    }

    /// Adds the name and an empty text. Returns the block of the text.
    fn start_detached(&mut self, id: MessageId, speaker: &Arc<str>) -> u64 {
        self.entries.push(Some(id), Kind::Speaker(speaker.clone()));
        self.entries.push(Some(id), Kind::Text(ReplyText::Streaming(String::new())));
        let block = self.entries().last().map(|entry| entry.id).unwrap_or_default();
        self.speaking.push((id, block));
        block
    }

    /// Removes a text and the name above it.
    fn remove_detached(&mut self, block: u64) {
        let Some(at) = self.position(block) else { return };
        let mut tail = self.entries.split_off(at.saturating_sub(1));
        let rest = tail.split_off(2.min(tail.len()));
        self.reinsert(rest);
    }
}
