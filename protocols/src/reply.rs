//! [`ReplyFold`]: the parts of the streaming reply, which start and end one after the other.

use loopwright_core::message::{AssistantMessage, ContentPart, MessageId};
use loopwright_core::model::Update;

/// The streaming reply of the model.
#[derive(Default)]
pub(crate) struct ReplyFold {
    message: MessageId,
    /// The number of withdrawn attempts at the reply.
    withdrawn: u32,
    has_deltas: bool,
    has_text: bool,
    open: Option<(PartKind, u32)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PartKind {
    Text,
    Reasoning,
}

/// A change of a part, with the number of the part in its reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fragment {
    Start(PartKind, u32),
    Delta(PartKind, u32, String),
    End(PartKind, u32),
    /// A withdrawal of all parts so far. The flag is true if they had text.
    Withdrawn(bool),
}

impl ReplyFold {
    /// Returns the id of the reply, and the number of its withdrawn attempts.
    pub(crate) fn id(&self) -> (MessageId, u32) {
        (self.message, self.withdrawn)
    }

    /// Applies a change of a reply. Calls have no fragments, because they have no id yet.
    pub(crate) fn update(&mut self, message: MessageId, update: &Update) -> Vec<Fragment> {
        let mut fragments = self.turn_to(message);
        match update {
            Update::Text { block, delta } => {
                self.delta(PartKind::Text, *block, delta, &mut fragments);
            }
            Update::Thinking { block, delta } => {
                self.delta(PartKind::Reasoning, *block, delta, &mut fragments);
            }
            Update::Withdrawn => {
                fragments.extend(self.end());
                fragments.push(Fragment::Withdrawn(self.has_text));
                let withdrawn = self.withdrawn + 1;
                *self = ReplyFold { message, withdrawn, ..ReplyFold::default() };
            }
            _ => {}
        }
        fragments
    }

    /// Applies the whole reply. Returns the fragments that were not streamed, and its end.
    pub(crate) fn whole(&mut self, message: MessageId, reply: &AssistantMessage) -> Vec<Fragment> {
        let mut fragments = self.turn_to(message);
        if !self.has_deltas {
            for (block, part) in (0..).zip(&reply.parts) {
                match part {
                    ContentPart::Text { text, .. } => {
                        self.delta(PartKind::Text, block, text, &mut fragments);
                    }
                    ContentPart::Thinking { text, .. } => {
                        self.delta(PartKind::Reasoning, block, text, &mut fragments);
                    }
                    _ => {}
                }
            }
        }
        fragments.extend(self.end());
        fragments
    }

    /// Ends the open part.
    pub(crate) fn end(&mut self) -> Option<Fragment> {
        self.open.take().map(|(kind, block)| Fragment::End(kind, block))
    }

    fn turn_to(&mut self, message: MessageId) -> Vec<Fragment> {
        if self.message == message {
            return Vec::new();
        }
        let end = self.end();
        *self = ReplyFold { message, ..ReplyFold::default() };
        end.into_iter().collect()
    }

    fn delta(&mut self, kind: PartKind, block: u32, delta: &str, fragments: &mut Vec<Fragment>) {
        if delta.is_empty() {
            return;
        }
        if self.open != Some((kind, block)) {
            fragments.extend(self.end());
            self.open = Some((kind, block));
            fragments.push(Fragment::Start(kind, block));
        }
        self.has_deltas = true;
        self.has_text |= kind == PartKind::Text;
        fragments.push(Fragment::Delta(kind, block, delta.to_owned()));
    }
}
