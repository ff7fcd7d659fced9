//! [`Assembler`], the only code that assembles model events into an assistant message.

use std::sync::Arc;

use crate::error::{ModelError, ModelErrorKind};
use crate::message::{AssistantMessage, ContentPart, StopReason, ToolCall, Usage};
use crate::model::Update;
use crate::model::{BlockKind, ModelEvent};

/// A reply under assembly from the events of its stream.
#[derive(Default)]
pub(crate) struct Assembler {
    blocks: Vec<Block>,
}

struct Block {
    number: u32,
    part: ContentPart,
    /// The joined deltas of a call, since the strings of a `ToolCall` are shared and cannot grow.
    arguments: String,
}

impl Assembler {
    /// Applies an event to the reply and returns the update to emit. The caller handles the
    /// answering model and the end of the reply.
    pub(crate) fn take(&mut self, event: ModelEvent) -> Result<Option<Update>, ModelError> {
        Ok(match event {
            ModelEvent::BlockStart { block, kind } => self.start(block, kind),
            ModelEvent::Delta { block, delta } => Some(self.delta(block, delta)?),
            ModelEvent::BlockEnd { block, signature } => {
                self.end(block, signature)?;
                None
            }
            ModelEvent::Withdrawn => {
                *self = Assembler::default();
                Some(Update::Withdrawn)
            }
            ModelEvent::AnsweredBy(_)
            | ModelEvent::Usage(_)
            | ModelEvent::Retry(_)
            | ModelEvent::Done { .. }
            | ModelEvent::Error(_) => None,
        })
    }

    /// Starts a block and returns the update to emit.
    fn start(&mut self, number: u32, kind: BlockKind) -> Option<Update> {
        let (part, update) = match kind {
            BlockKind::Text => (ContentPart::Text { text: String::new(), signature: None }, None),
            BlockKind::Thinking => {
                (ContentPart::Thinking { text: String::new(), signature: None }, None)
            }
            BlockKind::ToolCall { id, name } => {
                let name: Arc<str> = name.into();
                let call = ToolCall {
                    id: id.into(),
                    name: name.clone(),
                    arguments: "".into(),
                    signature: None,
                };
                (ContentPart::ToolCall(call), Some(Update::ToolCallStart { block: number, name }))
            }
        };
        self.blocks.push(Block { number, part, arguments: String::new() });
        update
    }

    /// Appends to a block and returns the update to emit.
    pub(crate) fn delta(&mut self, number: u32, delta: String) -> Result<Update, ModelError> {
        let block = self.block(number)?;
        Ok(match &mut block.part {
            ContentPart::Text { text, .. } => {
                text.push_str(&delta);
                Update::Text { block: number, delta }
            }
            ContentPart::Thinking { text, .. } => {
                text.push_str(&delta);
                Update::Thinking { block: number, delta }
            }
            ContentPart::ToolCall(_) => {
                block.arguments.push_str(&delta);
                Update::ToolCall { block: number, delta }
            }
        })
    }

    /// Completes a block.
    fn end(&mut self, number: u32, signature: Option<Arc<str>>) -> Result<(), ModelError> {
        match &mut self.block(number)?.part {
            ContentPart::Text { signature: s, .. } | ContentPart::Thinking { signature: s, .. } => {
                *s = signature
            }
            ContentPart::ToolCall(call) => call.signature = signature,
        }
        Ok(())
    }

    /// Returns whether the block is text.
    pub(crate) fn is_text(&mut self, number: u32) -> bool {
        self.block(number).is_ok_and(|block| matches!(block.part, ContentPart::Text { .. }))
    }

    /// Adds a call that a hook found in text.
    pub(crate) fn add_call(&mut self, name: Arc<str>, arguments: String) -> (u32, Option<Update>) {
        let number =
            self.blocks.iter().map(|b| b.number).max().map_or(0, |n| n + 1).max(FIRST_HOOK_BLOCK);
        let update =
            self.start(number, BlockKind::ToolCall { id: String::new(), name: name.to_string() });
        if let Some(block) = self.blocks.last_mut() {
            block.arguments = arguments;
        }
        (number, update)
    }

    /// Returns the updates so far for late subscribers, with the deltas of each block joined.
    pub(crate) fn updates_so_far(&self) -> Vec<Update> {
        let mut updates = Vec::new();
        for Block { number, part, arguments } in &self.blocks {
            let block = *number;
            match part {
                ContentPart::Text { text, .. } if text.is_empty() => {}
                ContentPart::Thinking { text, .. } if text.is_empty() => {}
                ContentPart::Text { text, .. } => {
                    updates.push(Update::Text { block, delta: text.clone() })
                }
                ContentPart::Thinking { text, .. } => {
                    updates.push(Update::Thinking { block, delta: text.clone() })
                }
                ContentPart::ToolCall(call) => {
                    updates.push(Update::ToolCallStart { block, name: call.name.clone() });
                    if !arguments.is_empty() {
                        updates.push(Update::ToolCall { block, delta: arguments.clone() });
                    }
                }
            }
        }
        updates
    }

    /// Returns the message so far, for a snapshot.
    pub(crate) fn message_so_far(&self, model: Arc<str>) -> AssistantMessage {
        let parts = self.blocks.iter().map(|b| b.part.clone()).collect();
        AssistantMessage { parts, stop: StopReason::Stop, model, usage: Usage::default() }
    }

    /// Returns the whole message, or `None` if a steer, an abort or an error cut off the reply
    /// before it had content.
    ///
    /// A reply that was cut off in this way keeps its text and signed thinking, but no calls, since
    /// none has started. The calls that are present decide whether the model wants tools, not the
    /// provider's stop reason.
    pub(crate) fn finish(
        self,
        stop: StopReason,
        model: Arc<str>,
        usage: Usage,
    ) -> Option<AssistantMessage> {
        let cut = matches!(stop, StopReason::Interrupted | StopReason::Aborted | StopReason::Error);
        let parts: Vec<ContentPart> =
            self.blocks.into_iter().filter_map(|block| block.finish(cut)).collect();
        let calls = parts.iter().any(|p| matches!(p, ContentPart::ToolCall(_)));
        let stop = match (stop, calls) {
            (StopReason::Stop, true) => StopReason::ToolCalls,
            (StopReason::ToolCalls, false) => StopReason::Stop,
            (stop, _) => stop,
        };
        // A complete reply without content is still a reply.
        (!parts.is_empty() || !cut).then_some(AssistantMessage { parts, stop, model, usage })
    }

    fn block(&mut self, number: u32) -> Result<&mut Block, ModelError> {
        let block = self.blocks.iter_mut().rev().find(|block| block.number == number);
        block.ok_or_else(|| {
            let why = format!(
                "the model adapter sent a delta of block {number}, which it had not started"
            );
            ModelError::new(ModelErrorKind::Protocol, why)
        })
    }
}

/// First number of the blocks that hooks add, out of the adapters' range.
const FIRST_HOOK_BLOCK: u32 = 1 << 16;

impl Block {
    fn finish(self, cut: bool) -> Option<ContentPart> {
        match self.part {
            ContentPart::Text { text, signature } if text.is_empty() && signature.is_none() => None,
            ContentPart::Thinking { signature: None, .. } if cut => None,
            ContentPart::Thinking { text, signature: None } if text.is_empty() => None,
            ContentPart::ToolCall(_) if cut => None,
            ContentPart::ToolCall(call) => {
                Some(ContentPart::ToolCall(ToolCall { arguments: self.arguments.into(), ..call }))
            }
            part => Some(part),
        }
    }
}
