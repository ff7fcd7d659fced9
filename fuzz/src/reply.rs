//! A reply built from its events. It panics if they are out of order.

use loopwright_core::message::{StopReason, Usage};
use loopwright_core::model::{BlockKind, ModelError, ModelEvent};

/// A reply at its end.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Reply {
    blocks: Vec<Block>,
    end: Option<Result<(StopReason, Usage), ModelError>>,
    /// The usage so far, for replies whose end does not report it.
    used: Usage,
    /// The number of bytes of text, ids, names and signatures.
    pub(crate) bytes: usize,
}

#[derive(Debug, PartialEq)]
struct Block {
    kind: BlockKind,
    text: String,
    signature: Option<String>,
    open: bool,
}

impl Reply {
    pub(crate) fn is_done(&self) -> bool {
        matches!(self.end, Some(Ok(_)))
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    /// Applies the next event.
    pub(crate) fn add(&mut self, event: ModelEvent) {
        assert!(self.end.is_none(), "{event:?} after the end");
        match event {
            ModelEvent::BlockStart { block, kind } => {
                assert_eq!(block as usize, self.blocks.len(), "the number of a block");
                if let BlockKind::ToolCall { id, name } = &kind {
                    self.bytes += id.len() + name.len();
                }
                self.blocks.push(Block { kind, text: String::new(), signature: None, open: true });
            }
            ModelEvent::Delta { block, delta } => {
                assert!(!delta.is_empty(), "an empty delta");
                self.bytes += delta.len();
                self.open(block).text.push_str(&delta);
            }
            ModelEvent::BlockEnd { block, signature } => {
                self.bytes += signature.as_ref().map_or(0, |signature| signature.len());
                let block = self.open(block);
                (block.open, block.signature) =
                    (false, signature.map(|signature| signature.to_string()));
            }
            ModelEvent::Usage(usage) => self.used = usage,
            ModelEvent::Withdrawn => {
                self.blocks.clear();
                self.used = Usage::default();
            }
            ModelEvent::Done { stop, usage } => self.done(stop, usage),
            ModelEvent::Error(error) => {
                assert!(error.message.len() < 1 << 13, "{} bytes of an error", error.message.len());
                self.end = Some(Err(error));
            }
            other => panic!("{other:?} is new to this check"),
        }
    }

    fn open(&mut self, block: u32) -> &mut Block {
        let slot = self.blocks.get_mut(block as usize).filter(|block| block.open);
        slot.unwrap_or_else(|| panic!("block {block} is not open"))
    }

    fn done(&mut self, stop: StopReason, usage: Usage) {
        assert!(self.blocks.iter().all(|block| !block.open), "a block is open at the end");
        let mut calls =
            self.blocks.iter().filter(|block| matches!(block.kind, BlockKind::ToolCall { .. }));
        assert!(calls.clone().all(|call| !call.text.is_empty()), "a call without arguments");
        match stop {
            StopReason::ToolCalls => assert!(calls.next().is_some(), "no call to run"),
            StopReason::Stop => assert!(calls.next().is_none(), "a call that nobody runs"),
            _ => {}
        }
        self.used = Usage::default();
        self.end = Some(Ok((stop, usage)));
    }
}
