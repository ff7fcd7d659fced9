//! [`Course`]: the limits of a validation, and what is known in it.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::program::{Id, Program};
use super::values::Exceeded;

/// Steps of looking up what is known about a subschema that references lead to.
const SHARED_STEPS: usize = 3;

/// The course of a validation. It counts steps and levels, and remembers the verdicts of subschemas
/// that references lead to.
pub(super) struct Course {
    pub(super) left: usize,
    depth: usize,
    max_depth: usize,
    /// Verdicts for arrays and objects.
    known: HashMap<(Id, *const Value), bool>,
    /// Visits in progress, and whether for the evaluated parts: a reference that leads to itself
    /// asks for nothing.
    open: HashSet<(Id, *const Value, bool)>,
    /// The schema resources on the path of references, the outermost first.
    pub(super) scope: Vec<usize>,
}

/// The begin of a visit.
pub(super) enum Entry {
    /// The verdict is known.
    Known(bool),
    New(Visit),
}

/// A visit in progress.
pub(super) struct Visit {
    /// The entry of a shared subschema among the visits in progress.
    open: Option<(Id, *const Value, bool)>,
    /// `true` if the verdict is remembered.
    is_remembered: bool,
    enters_resource: bool,
}

impl Course {
    pub(super) fn new(max_steps: usize, max_depth: usize) -> Self {
        Course {
            left: max_steps,
            depth: 0,
            max_depth,
            known: HashMap::new(),
            open: HashSet::new(),
            scope: Vec::new(),
        }
    }

    pub(super) fn spend(&mut self, steps: usize) -> Result<(), Exceeded> {
        self.left = self.left.checked_sub(steps).ok_or(Exceeded::Steps)?;
        Ok(())
    }

    /// Begins a visit, unless its verdict is known. Only verdicts that were asked for without
    /// evaluated parts and without a report are remembered.
    pub(super) fn enter(
        &mut self,
        program: &Program,
        id: Id,
        value: &Value,
        wants_evaluated: bool,
        is_verdict: bool,
    ) -> Result<Entry, Exceeded> {
        let node = &program.nodes[id];
        self.spend(1 + node.cost + if node.is_shared { SHARED_STEPS } else { 0 })?;
        let value_at = std::ptr::from_ref(value);
        let is_container = value.is_array() || value.is_object();
        let is_remembered = node.is_shared && is_container && !program.is_dynamic && is_verdict;
        if is_remembered && let Some(verdict) = self.known.get(&(id, value_at)) {
            return Ok(Entry::Known(*verdict));
        }
        let open = node.is_shared.then_some((id, value_at, wants_evaluated));
        if open.is_some_and(|open| !self.open.insert(open)) {
            return Ok(Entry::Known(true));
        }
        if self.depth == self.max_depth {
            return Err(Exceeded::Depth);
        }
        self.depth += 1;
        let enters_resource = program.is_dynamic && self.scope.last() != Some(&node.resource);
        if enters_resource {
            self.scope.push(node.resource);
        }
        Ok(Entry::New(Visit { open, is_remembered, enters_resource }))
    }

    /// Ends a visit.
    pub(super) fn leave(&mut self, visit: Visit, verdict: bool) {
        self.depth -= 1;
        if visit.enters_resource {
            self.scope.pop();
        }
        if let Some(open) = visit.open {
            self.open.remove(&open);
            if visit.is_remembered {
                self.known.insert((open.0, open.1), verdict);
            }
        }
    }
}
