//! What every decoder tells of a reply: blocks with numbers, and one end.

use std::collections::VecDeque;

use loopwright_core::message::{StopReason, Usage};
use loopwright_core::model::{BlockKind, ModelError, ModelEvent};

/// What has been told of a reply so far.
#[derive(Debug, Default)]
pub(crate) struct EventWriter {
    /// How many blocks have begun.
    pub(crate) blocks: u32,
    /// The last event is out: `Done` or `Error`.
    pub(crate) ended: bool,
    /// The open block of text or thinking, in formats that do not say where one begins.
    prose: Option<(u32, BlockKind)>,
}

impl EventWriter {
    /// A block begins; gives its number.
    pub(crate) fn start(&mut self, kind: BlockKind, out: &mut VecDeque<ModelEvent>) -> u32 {
        let block = self.blocks;
        self.blocks += 1;
        out.push_back(ModelEvent::BlockStart { block, kind });
        block
    }

    /// The open block of text or thinking, if it is of this kind.
    pub(crate) fn prose(&self, kind: &BlockKind) -> Option<u32> {
        self.prose.as_ref().filter(|(_, open)| open == kind).map(|(block, _)| *block)
    }

    /// A block of text or thinking begins. The one before it has been [taken](EventWriter::take_prose).
    pub(crate) fn start_prose(&mut self, kind: BlockKind, out: &mut VecDeque<ModelEvent>) -> u32 {
        let block = self.start(kind.clone(), out);
        self.prose = Some((block, kind));
        block
    }

    /// The open block of text or thinking, which ends.
    pub(crate) fn take_prose(&mut self) -> Option<(u32, BlockKind)> {
        self.prose.take()
    }

    /// The reply is complete.
    pub(crate) fn done(&mut self, stop: StopReason, usage: Usage, out: &mut VecDeque<ModelEvent>) {
        self.end(ModelEvent::Done { stop, usage }, out);
    }

    /// The reply failed.
    pub(crate) fn fail(&mut self, error: ModelError, out: &mut VecDeque<ModelEvent>) {
        self.end(ModelEvent::Error(error), out);
    }

    /// Only the first end counts.
    fn end(&mut self, last: ModelEvent, out: &mut VecDeque<ModelEvent>) {
        if !self.ended {
            self.ended = true;
            out.push_back(last);
        }
    }
}
