//! [`Seen`]: the parts of a value that the keywords `unevaluated…` leave alone.

use std::collections::HashSet;

/// The parts of an array or object to which a subschema applied: what the keywords `unevaluated…`
/// leave alone.
#[derive(Default)]
pub(super) struct Seen<'v> {
    pub(super) all: bool,
    pub(super) properties: HashSet<&'v str>,
    pub(super) first_items: usize,
    pub(super) items: HashSet<usize>,
}

impl<'v> Seen<'v> {
    /// Adds what another one has seen. Returns the steps that this took.
    pub(super) fn merge(&mut self, mut other: Seen<'v>) -> usize {
        self.all |= other.all;
        self.first_items = self.first_items.max(other.first_items);
        if self.properties.len() < other.properties.len() {
            std::mem::swap(&mut self.properties, &mut other.properties);
        }
        if self.items.len() < other.items.len() {
            std::mem::swap(&mut self.items, &mut other.items);
        }
        let bytes: usize = other.properties.iter().map(|name| name.len()).sum();
        let steps = 2 * (other.properties.len() + other.items.len()) + bytes / 64;
        self.properties.extend(other.properties);
        self.items.extend(other.items);
        steps
    }
}
