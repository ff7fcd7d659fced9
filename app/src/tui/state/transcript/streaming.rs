//! [`Streaming`]: the blocks of the reply that is being streamed.

use loopwright_core::message::MessageId;
use loopwright_core::model::Update;

use crate::tui::state::entries::Entries;
use crate::tui::state::entry::{Entry, Kind, ReplyText, Thought, ToolEntry};

/// The reply being streamed, if any.
#[derive(Debug, Default)]
pub(super) struct Streaming(Option<Reply>);

#[derive(Debug)]
struct Reply {
    message: MessageId,
    /// The index of its first block; its other blocks and notices follow.
    start: usize,
    /// The index of each block, by its number in the message.
    blocks: Vec<(u32, usize)>,
}

impl Streaming {
    /// Returns the message being streamed.
    pub(super) fn message(&self) -> Option<MessageId> {
        self.0.as_ref().map(|reply| reply.message)
    }

    /// Applies an update to the block that it belongs to.
    pub(super) fn update(
        &mut self,
        entries: &mut Entries,
        message: MessageId,
        update: &Update,
        time: u64,
    ) {
        match update {
            Update::Text { block, delta } => {
                let new = || Kind::Text(ReplyText::Streaming(String::new()));
                self.change(entries, message, *block, new, |kind| {
                    if let Kind::Text(ReplyText::Streaming(text)) = kind {
                        text.push_str(delta);
                    }
                });
            }
            Update::Thinking { block, delta } => {
                let text = || ReplyText::Streaming(String::new());
                let new = || Kind::Thinking(Thought { text: text(), time: Some((time, time)) });
                self.change(entries, message, *block, new, |kind| {
                    let Kind::Thinking(thought) = kind else {
                        return;
                    };
                    if let Thought { text: ReplyText::Streaming(text), time: Some((_, last)) } =
                        thought
                    {
                        text.push_str(delta);
                        *last = time;
                    }
                });
            }
            Update::ToolCallStart { block, name } => {
                let new = || Kind::Tool(Box::new(ToolEntry::new(name.clone())));
                self.change(entries, message, *block, new, |_| {});
            }
            Update::ToolCall { block, delta } => {
                let new = || Kind::Tool(Box::new(ToolEntry::new("".into())));
                self.change(entries, message, *block, new, |kind| {
                    if let Kind::Tool(tool) = kind {
                        tool.raw.push_str(delta);
                    }
                });
            }
            _ => {}
        }
    }

    /// Changes a block, creating it if it does not exist.
    fn change(
        &mut self,
        entries: &mut Entries,
        message: MessageId,
        block: u32,
        new: impl FnOnce() -> Kind,
        change: impl FnOnce(&mut Kind),
    ) {
        if self.message() != Some(message) {
            self.0 = Some(Reply { message, start: entries.len(), blocks: Vec::new() });
        }
        let blocks = self.0.iter().flat_map(|reply| &reply.blocks);
        let known = blocks.rev().find(|(number, _)| *number == block);
        let at = match known {
            Some((_, at)) => *at,
            None => {
                let at = entries.len();
                entries.push(Some(message), new());
                if let Some(reply) = &mut self.0 {
                    reply.blocks.push((block, at));
                }
                at
            }
        };
        if let Some(entry) = entries.get_mut(at) {
            change(&mut entry.kind);
            entry.changed();
        }
    }

    /// Removes the blocks of a message if it is being streamed. Returns them, and the blocks that
    /// came after them.
    pub(super) fn take(
        &mut self,
        entries: &mut Entries,
        message: MessageId,
    ) -> (Vec<Entry>, Vec<Entry>) {
        match self.0.take() {
            Some(reply) if reply.message == message && reply.start <= entries.len() => {
                let tail = entries.split_off(reply.start);
                tail.into_iter().partition(|entry| entry.from == Some(message))
            }
            other => {
                self.0 = other;
                Default::default()
            }
        }
    }
}
