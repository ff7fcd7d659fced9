//! [`Entries`]: the blocks of the transcript in order, each with an id.

use loopwright_core::message::MessageId;

use super::entry::{Entry, Kind};

/// A list of blocks. Ids are not reused, so that cached layouts stay valid.
#[derive(Debug, Default)]
pub(super) struct Entries {
    list: Vec<Entry>,
    last_id: u64,
}

impl Entries {
    /// Creates an empty list that continues the ids of this list.
    pub(super) fn successor(&self) -> Entries {
        Entries { list: Vec::new(), last_id: self.last_id }
    }

    /// Returns the blocks, oldest first.
    pub(super) fn as_slice(&self) -> &[Entry] {
        &self.list
    }

    /// Returns the number of blocks.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns the index of a block.
    pub(super) fn position(&self, id: u64) -> Option<usize> {
        self.list.iter().rposition(|entry| entry.id == id)
    }

    /// Returns a block by its index.
    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut Entry> {
        self.list.get_mut(index)
    }

    /// Iterates over the blocks.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.list.iter_mut()
    }

    /// Appends a new block.
    pub(super) fn push(&mut self, from: Option<MessageId>, kind: Kind) {
        self.last_id += 1;
        self.list.push(Entry { id: self.last_id, revision: 0, from, open: None, kind });
    }

    /// Appends a block that was removed before.
    pub(super) fn restore(&mut self, entry: Entry) {
        self.list.push(entry);
    }

    /// Removes and returns the blocks from an index on.
    pub(super) fn split_off(&mut self, index: usize) -> Vec<Entry> {
        self.list.split_off(index.min(self.list.len()))
    }
}
