//! [`ReplyFold`]: the parts of the reply that streams, which start and end one after the other.

use loopwright_core::event::Update;
use loopwright_core::message::{AssistantMessage, ContentPart, MessageId};

/// The reply of the model that streams.
#[derive(Default)]
pub(crate) struct ReplyFold {
    message: MessageId,
    /// How many attempts at it were withdrawn.
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

/// A change of a part, which has a number in its reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    Start(PartKind, u32),
    Delta(PartKind, u32, String),
    End(PartKind, u32),
    /// All parts of the reply so far are void. The flag says whether there was text.
    Withdrawn(bool),
}

impl ReplyFold {
    /// Returns the reply, and how many attempts at it were withdrawn.
    pub(crate) fn id(&self) -> (MessageId, u32) {
        (self.message, self.withdrawn)
    }

    /// Takes a change of a reply. The fragments of calls are left out, as they have no id yet.
    pub(crate) fn update(&mut self, message: MessageId, update: &Update) -> Vec<Piece> {
        let mut pieces = self.turn_to(message);
        match update {
            Update::Text { block, delta } => {
                self.delta(PartKind::Text, *block, delta, &mut pieces);
            }
            Update::Thinking { block, delta } => {
                self.delta(PartKind::Reasoning, *block, delta, &mut pieces);
            }
            Update::Withdrawn => {
                pieces.extend(self.end());
                pieces.push(Piece::Withdrawn(self.has_text));
                let withdrawn = self.withdrawn + 1;
                *self = ReplyFold { message, withdrawn, ..ReplyFold::default() };
            }
            _ => {}
        }
        pieces
    }

    /// Takes the whole reply: what has not streamed of it, and its end.
    pub(crate) fn whole(&mut self, message: MessageId, reply: &AssistantMessage) -> Vec<Piece> {
        let mut pieces = self.turn_to(message);
        if !self.has_deltas {
            for (block, part) in (0..).zip(&reply.parts) {
                match part {
                    ContentPart::Text { text, .. } => {
                        self.delta(PartKind::Text, block, text, &mut pieces);
                    }
                    ContentPart::Thinking { text, .. } => {
                        self.delta(PartKind::Reasoning, block, text, &mut pieces);
                    }
                    _ => {}
                }
            }
        }
        pieces.extend(self.end());
        pieces
    }

    /// Ends the part that is open.
    pub(crate) fn end(&mut self) -> Option<Piece> {
        self.open.take().map(|(kind, block)| Piece::End(kind, block))
    }

    fn turn_to(&mut self, message: MessageId) -> Vec<Piece> {
        if self.message == message {
            return Vec::new();
        }
        let end = self.end();
        *self = ReplyFold { message, ..ReplyFold::default() };
        end.into_iter().collect()
    }

    fn delta(&mut self, kind: PartKind, block: u32, delta: &str, pieces: &mut Vec<Piece>) {
        if delta.is_empty() {
            return;
        }
        if self.open != Some((kind, block)) {
            pieces.extend(self.end());
            self.open = Some((kind, block));
            pieces.push(Piece::Start(kind, block));
        }
        self.has_deltas = true;
        self.has_text |= kind == PartKind::Text;
        pieces.push(Piece::Delta(kind, block, delta.to_owned()));
    }
}
