//! An upper bound on the steps and the recursion depth of validating a value.
//!
//! The walk follows the validator: it applies each subschema to each value that it can apply to,
//! regardless of the value's content. The validator remembers the results of recursive subschemas
//! for arrays and objects, and no others.

use std::collections::HashSet;

use serde_json::Value;

use super::shape::{Id, Node, Shape};
use super::stack::{USUAL_LEVELS, on_stack};

/// Maximum number of steps. A step takes about 20 to 50 ns.
const MAX_STEPS: usize = 1_000_000;
/// Maximum number of steps to find the errors. These steps allocate.
const MAX_ERROR_STEPS: usize = 100_000;
/// Assumed number of validations of a value with a match that can backtrack too often.
const RETRIES: usize = 64;
/// Maximum levels of recursion.
const MAX_DEPTH: usize = 4_000;
/// Steps of a metaschema for each value in a schema.
const METASCHEMA_STEPS: usize = 500;

/// Returns the levels of recursion to decide whether a value is valid, or `None` if that takes too
/// many steps.
pub(super) fn verdict(shape: &Shape, value: &Value) -> Option<usize> {
    depth(shape, value, Mode::Verdict, MAX_STEPS)
}

/// Returns the levels of recursion to find all errors, or `None` if that takes too many steps.
pub(super) fn errors(shape: &Shape, value: &Value) -> Option<usize> {
    depth(shape, value, Mode::Errors, MAX_ERROR_STEPS)
}

fn depth(shape: &Shape, value: &Value, mode: Mode, max_steps: usize) -> Option<usize> {
    let walk = |max_depth| Walk::new(shape, max_steps, max_depth).run(value, mode);
    match walk(USUAL_LEVELS) {
        Err(Exceeded::Depth) => on_stack(MAX_DEPTH, || walk(MAX_DEPTH)).ok()?.ok(),
        depth => depth.ok(),
    }
}

/// The limit that a walk exceeds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Exceeded {
    Steps,
    Depth,
}

/// The purpose of visiting a subschema.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// The verdict: valid or not.
    Verdict,
    /// The errors. Branches are tried first.
    Errors,
    /// The evaluated properties or items. Branches are tried first.
    Evaluated,
}

struct Walk<'s> {
    shape: &'s Shape,
    left: usize,
    max_steps: usize,
    max_depth: usize,
    backtracks: bool,
    depth: usize,
    max_level: usize,
    /// Recursive subschemas, with the arrays and objects whose result is known.
    known: HashSet<(Id, *const Value)>,
    /// Subschemas that are being visited, where the validator ends cycles.
    open: HashSet<(Id, *const Value, bool)>,
}

/// Stand-in for the name of a property, as a value.
const NAME: &Value = &Value::String(String::new());

impl<'s> Walk<'s> {
    fn new(shape: &'s Shape, max_steps: usize, max_depth: usize) -> Self {
        Walk {
            shape,
            left: max_steps,
            max_steps,
            max_depth,
            backtracks: false,
            depth: 0,
            max_level: 0,
            known: HashSet::new(),
            open: HashSet::new(),
        }
    }

    fn run(mut self, value: &Value, mode: Mode) -> Result<usize, Exceeded> {
        self.visit(0, value, mode)?;
        Ok(self.max_level)
    }

    fn spend(&mut self, steps: usize) -> Result<(), Exceeded> {
        self.left = self.left.checked_sub(steps).ok_or(Exceeded::Steps)?;
        match self.backtracks && self.max_steps - self.left > self.max_steps / RETRIES {
            true => Err(Exceeded::Steps),
            false => Ok(()),
        }
    }

    fn visit(&mut self, id: Id, value: &Value, mode: Mode) -> Result<(), Exceeded> {
        let node = &self.shape.nodes[id];
        if node.is_recursive {
            if mode == Mode::Verdict && (value.is_array() || value.is_object()) {
                if !self.known.insert((id, value)) {
                    return self.spend(1);
                }
            } else {
                let key = (id, std::ptr::from_ref(value), mode == Mode::Evaluated);
                if !self.open.insert(key) {
                    return self.spend(1);
                }
                let visited = self.visit_parts(node, value, mode);
                self.open.remove(&key);
                return visited;
            }
        }
        self.visit_parts(node, value, mode)
    }

    fn visit_parts(&mut self, node: &Node, value: &Value, mode: Mode) -> Result<(), Exceeded> {
        self.depth += 1;
        self.max_level = self.max_level.max(self.depth);
        if self.depth > self.max_depth {
            return Err(Exceeded::Depth);
        }
        self.parts(node, value, mode)?;
        self.depth -= 1;
        Ok(())
    }

    fn parts(&mut self, node: &Node, value: &Value, mode: Mode) -> Result<(), Exceeded> {
        self.backtracks |= node.backtracks;
        self.spend(node.own + text_steps(node, value))?;
        if node.compares_items || node.is_metaschema {
            let values = self.size(value)?;
            self.spend(if node.is_metaschema { METASCHEMA_STEPS } else { 1 } * values)?;
        }
        for &part in &node.tried {
            if mode != Mode::Verdict {
                self.visit(part, value, Mode::Verdict)?;
            }
            self.visit(part, value, mode)?;
        }
        for &part in node.all.iter().chain(&node.references) {
            self.visit(part, value, mode)?;
        }
        if node.looks_through && mode != Mode::Evaluated {
            for part in node.for_same_value() {
                self.visit(part, value, Mode::Verdict)?;
                self.visit(part, value, Mode::Evaluated)?;
            }
        }
        match value {
            // Only the evaluation on this level matters, not inside the children.
            _ if mode == Mode::Evaluated => {}
            Value::Object(fields) => {
                for (name, value) in fields {
                    let named = node.properties.get(name);
                    for &part in named.into_iter().chain(&node.any_property) {
                        self.visit(part, value, mode)?;
                    }
                    self.spend(1 + node.per_name * (1 + name.len() / 64))?;
                    if let Some(part) = node.names {
                        self.spend(name.len() / 64)?;
                        self.visit(part, NAME, mode)?;
                    }
                }
            }
            Value::Array(items) => {
                for (at, value) in items.iter().enumerate() {
                    for &part in node.prefix.get(at).into_iter().chain(&node.any_item) {
                        self.visit(part, value, mode)?;
                    }
                }
                self.spend(items.len())?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the number of values in a value, itself included.
    fn size(&mut self, value: &Value) -> Result<usize, Exceeded> {
        let (mut open, mut values) = (vec![value], 0);
        while let Some(value) = open.pop() {
            self.spend(1)?;
            match value {
                Value::Array(items) => open.extend(items),
                Value::Object(fields) => open.extend(fields.values()),
                _ => {}
            }
            values += 1;
        }
        Ok(values)
    }
}

/// Returns the steps for the text of a value.
fn text_steps(node: &Node, value: &Value) -> usize {
    value.as_str().map_or(0, |text| node.per_text * (text.len() / 64))
}
