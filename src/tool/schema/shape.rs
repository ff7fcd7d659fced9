//! [`Shape`]: the parts of a JSON Schema that determine the cost of compiling and validating.
//!
//! The validator recurses, compiles some parts repeatedly, and validates some repeatedly, without
//! any limit. So hostile schemas are refused before it sees them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Map, Value};

use super::pattern;

/// Maximum nesting of a schema as JSON, the same as in `serde_json`.
const MAX_NESTING: usize = 128;
/// Maximum number of subschemas. `unevaluatedProperties` and `unevaluatedItems` compile the
/// subschemas that they look through again, so each of these keywords counts them once more.
const MAX_SUBSCHEMAS: usize = 5_000;
/// Maximum number of values in a schema, as JSON.
const MAX_VALUES: usize = 100_000;
/// Maximum size of all compiled patterns, as of [`pattern::size`].
const MAX_PATTERN_SIZE: usize = 75_000;
/// Steps of a match that can backtrack, up to the validator's limit.
const BACKTRACKING_STEPS: usize = 500;
/// Prefixes of the URIs of metaschemas, which the validator contains.
const METASCHEMAS: [&str; 2] = ["http://json-schema.org/", "https://json-schema.org/"];

/// The position of a subschema in a [`Shape`].
pub(super) type Id = usize;

/// The subschemas of a schema and their references to each other. The root is first.
pub(super) struct Shape {
    pub(super) nodes: Vec<Node>,
    /// Levels of recursion that compiling the schema can take.
    pub(super) depth: usize,
}

/// A subschema, with the cost of applying it.
#[derive(Default)]
pub(super) struct Node {
    /// Steps of its own keywords for each value.
    pub(super) own: usize,
    /// Steps for each byte of a string, times 64.
    pub(super) per_text: usize,
    /// Steps of patterns for each property name.
    pub(super) per_name: usize,
    /// `true` if a pattern can backtrack.
    pub(super) backtracks: bool,
    /// `true` if items are compared with each other.
    pub(super) compares_items: bool,
    /// Subschemas for the same value, all of which must hold.
    pub(super) all: Vec<Id>,
    /// Subschemas for the same value that are tried first, such as the branches of `anyOf`.
    pub(super) tried: Vec<Id>,
    /// Targets of its references.
    pub(super) references: Vec<Id>,
    /// `true` if a reference leads to a metaschema.
    pub(super) is_metaschema: bool,
    /// `true` if references lead back to this subschema.
    pub(super) is_recursive: bool,
    /// Subschemas for properties, by name.
    pub(super) properties: BTreeMap<String, Id>,
    /// Subschemas for any property.
    pub(super) any_property: Vec<Id>,
    /// Subschema for the names of properties.
    pub(super) names: Option<Id>,
    /// Subschemas for the first items.
    pub(super) prefix: Vec<Id>,
    /// Subschemas for any item.
    pub(super) any_item: Vec<Id>,
    /// `true` if it has `unevaluatedProperties` or `unevaluatedItems`.
    pub(super) looks_through: bool,
}

impl Node {
    /// Returns the subschemas for the same value.
    pub(super) fn for_same_value(&self) -> impl Iterator<Item = Id> {
        self.all.iter().chain(&self.tried).chain(&self.references).copied()
    }

    fn children(&self) -> impl Iterator<Item = Id> {
        let of_properties = self.properties.values().chain(&self.any_property).chain(&self.names);
        let of_items = self.prefix.iter().chain(&self.any_item);
        self.for_same_value().chain(of_properties.chain(of_items).copied())
    }
}

impl Shape {
    /// Reads a schema. The error names the exceeded limit or the dangling reference.
    pub(super) fn of(schema: &Value) -> Result<Self, String> {
        let mut reader = Reader::default();
        reader.check_size(schema)?;
        reader.node(schema, Scope { root: schema, resource: schema })?;
        reader.resolve(schema)?;
        let Reader { mut nodes, has_references, nesting, .. } = reader;
        mark_recursive(&mut nodes);
        check_copies(&nodes)?;
        // Compilation visits each subschema at most once along a path of references.
        let depth = if has_references { nodes.len() } else { nesting };
        Ok(Shape { nodes, depth })
    }
}

/// The whole schema, and the part that references without a base are relative to.
#[derive(Clone, Copy)]
struct Scope<'s> {
    root: &'s Value,
    resource: &'s Value,
}

/// A reference, and the subschema that contains it.
struct Reference<'s> {
    from: Id,
    text: &'s str,
    scope: Scope<'s>,
}

#[derive(Default)]
struct Reader<'s> {
    nodes: Vec<Node>,
    /// The subschemas read so far, by address.
    read: HashMap<*const Value, Id>,
    /// Subschemas by anchor, and by the last segment of their ids.
    anchors: BTreeMap<&'s str, Vec<&'s Value>>,
    resources: BTreeMap<&'s str, Vec<Scope<'s>>>,
    pending: Vec<Reference<'s>>,
    has_references: bool,
    patterns: usize,
    nesting: usize,
}

impl<'s> Reader<'s> {
    fn check_size(&mut self, schema: &Value) -> Result<(), String> {
        let (mut open, mut values) = (vec![(schema, 1)], 0);
        while let Some((value, level)) = open.pop() {
            values += 1;
            self.nesting = self.nesting.max(level);
            if level > MAX_NESTING {
                return Err(format!("it is nested more than {MAX_NESTING} levels deep"));
            }
            if values > MAX_VALUES {
                return Err(format!("it has more than {MAX_VALUES} values"));
            }
            match value {
                Value::Array(items) => open.extend(items.iter().map(|item| (item, level + 1))),
                Value::Object(fields) => {
                    open.extend(fields.values().map(|value| (value, level + 1)));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn node(&mut self, schema: &'s Value, scope: Scope<'s>) -> Result<Id, String> {
        if let Some(id) = self.read.get(&std::ptr::from_ref(schema)) {
            return Ok(*id);
        }
        let id = self.nodes.len();
        if id >= MAX_SUBSCHEMAS {
            return Err(format!("it has more than {MAX_SUBSCHEMAS} subschemas"));
        }
        self.nodes.push(Node { own: 1, ..Node::default() });
        self.read.insert(schema, id);
        if let Value::Object(rules) = schema {
            let scope = self.register(schema, rules, scope);
            for (keyword, value) in rules {
                self.keyword(id, keyword, value, scope)?;
            }
        }
        Ok(id)
    }

    /// Records the names under which references find a subschema. Returns the scope of its parts.
    fn register(
        &mut self,
        schema: &'s Value,
        rules: &'s Map<String, Value>,
        scope: Scope<'s>,
    ) -> Scope<'s> {
        let text = |key: &str| rules.get(key).and_then(Value::as_str);
        for anchor in [text("$anchor"), text("$dynamicAnchor")].into_iter().flatten() {
            self.anchors.entry(anchor).or_default().push(schema);
        }
        let mut scope = scope;
        for id in [text("$id"), text("id")].into_iter().flatten() {
            match id.strip_prefix('#') {
                Some(anchor) => self.anchors.entry(anchor).or_default().push(schema),
                None => {
                    scope.resource = schema;
                    let name = last_segment(id.trim_end_matches('#'));
                    self.resources.entry(name).or_default().push(scope);
                }
            }
        }
        scope
    }

    fn keyword(
        &mut self,
        id: Id,
        keyword: &'s str,
        value: &'s Value,
        scope: Scope<'s>,
    ) -> Result<(), String> {
        match keyword {
            "$ref" | "$dynamicRef" | "$recursiveRef" => {
                self.has_references = true;
                let text = value.as_str().unwrap_or_default();
                self.pending.push(Reference { from: id, text, scope });
            }
            "$defs" | "definitions" => {
                self.map(value, scope)?;
            }
            "allOf" => self.nodes[id].all = self.list(value, scope)?,
            "anyOf" | "oneOf" => {
                let branches = self.list(value, scope)?;
                self.nodes[id].tried.extend(branches);
            }
            "not" | "if" | "then" | "else" => {
                let part = self.node(value, scope)?;
                self.nodes[id].tried.push(part);
            }
            "dependentSchemas" | "dependencies" => {
                let parts = self.map(value, scope)?;
                self.nodes[id].tried.extend(parts.into_values());
            }
            "properties" => {
                let parts = self.map(value, scope)?;
                self.nodes[id].own += parts.len();
                self.nodes[id].properties = parts;
            }
            "patternProperties" => {
                for name in value.as_object().into_iter().flat_map(Map::keys) {
                    self.nodes[id].per_name += self.pattern(id, name)?;
                }
                let parts = self.map(value, scope)?;
                self.nodes[id].any_property.extend(parts.into_values());
            }
            "additionalProperties" | "unevaluatedProperties" => {
                let part = self.node(value, scope)?;
                self.nodes[id].any_property.push(part);
                self.nodes[id].looks_through |= keyword == "unevaluatedProperties";
            }
            "propertyNames" => self.nodes[id].names = Some(self.node(value, scope)?),
            "items" | "prefixItems" if value.is_array() => {
                let parts = self.list(value, scope)?;
                self.nodes[id].prefix.extend(parts);
            }
            "items" | "additionalItems" | "unevaluatedItems" | "contains" => {
                let part = self.node(value, scope)?;
                // The errors of `contains` try each item twice.
                let times = if keyword == "contains" { 2 } else { 1 };
                self.nodes[id].any_item.extend(std::iter::repeat_n(part, times));
                self.nodes[id].looks_through |= keyword == "unevaluatedItems";
            }
            "pattern" => {
                self.nodes[id].per_text += 1;
                self.nodes[id].own += self.pattern(id, value.as_str().unwrap_or_default())?;
            }
            "format" | "contentEncoding" | "contentMediaType" | "minLength" | "maxLength" => {
                self.nodes[id].own += 1;
                self.nodes[id].per_text += 1;
            }
            "uniqueItems" => self.nodes[id].compares_items = true,
            _ => self.nodes[id].own += 1 + count(value),
        }
        Ok(())
    }

    /// Counts a pattern against the limit. Returns the steps of a match.
    fn pattern(&mut self, id: Id, text: &str) -> Result<usize, String> {
        self.patterns = self.patterns.saturating_add(pattern::size(text));
        if self.patterns > MAX_PATTERN_SIZE {
            return Err("its patterns are too large: use fewer repetitions".into());
        }
        let backtracks = pattern::backtracks(text);
        self.nodes[id].backtracks |= backtracks;
        Ok(if backtracks { BACKTRACKING_STEPS } else { 1 })
    }

    fn list(&mut self, value: &'s Value, scope: Scope<'s>) -> Result<Vec<Id>, String> {
        value.as_array().into_iter().flatten().map(|part| self.node(part, scope)).collect()
    }

    fn map(&mut self, value: &'s Value, scope: Scope<'s>) -> Result<BTreeMap<String, Id>, String> {
        let parts = value.as_object().into_iter().flatten();
        parts.map(|(name, part)| Ok((name.clone(), self.node(part, scope)?))).collect()
    }

    /// Finds the targets of all references. Targets can contain further references.
    fn resolve(&mut self, root: &'s Value) -> Result<(), String> {
        loop {
            let pending = std::mem::take(&mut self.pending);
            let before = (pending.len(), self.nodes.len());
            for reference in pending {
                let targets = self.targets(&reference);
                if targets.is_empty() {
                    self.pending.push(reference);
                    continue;
                }
                for target in targets {
                    let scope = Scope { root, resource: reference.scope.resource };
                    let target = self.node(target, scope)?;
                    self.nodes[reference.from].references.push(target);
                }
            }
            if self.pending.is_empty() {
                return Ok(());
            }
            if (self.pending.len(), self.nodes.len()) == before {
                break;
            }
        }
        for Reference { from, text, .. } in std::mem::take(&mut self.pending) {
            if !METASCHEMAS.iter().any(|start| text.starts_with(start)) {
                return Err(format!("`$ref` leads nowhere: {text:.200}"));
            }
            self.nodes[from].is_metaschema = true;
        }
        Ok(())
    }

    /// Returns all subschemas that the validator might choose for a reference. The choice depends
    /// on the draft and, for dynamic references, on the path to the reference.
    fn targets(&self, reference: &Reference<'s>) -> Vec<&'s Value> {
        let Scope { root, resource } = reference.scope;
        let (base, fragment) = reference.text.split_once('#').unwrap_or((reference.text, ""));
        let mut bases = vec![root, resource];
        if !base.is_empty() {
            let named = self.resources.get(last_segment(base)).into_iter().flatten();
            bases = named.map(|scope| scope.resource).collect();
        }
        let mut found: Vec<&Value> = match fragment {
            "" => bases,
            pointer if pointer.starts_with('/') => {
                let pointer = percent_decoded(pointer);
                bases.into_iter().filter_map(|base| base.pointer(&pointer)).collect()
            }
            anchor => self.anchors.get(anchor).cloned().unwrap_or_default(),
        };
        let mut known = BTreeSet::new();
        found.retain(|value| known.insert(std::ptr::from_ref(*value)));
        found
    }
}

/// Returns the part of a URI after its last `/`, to compare relative and absolute URIs.
fn last_segment(uri: &str) -> &str {
    uri.rsplit('/').next().unwrap_or_default()
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let code = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match code.and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Counts the values in a keyword that is not a schema, such as `enum`.
fn count(value: &Value) -> usize {
    let (mut open, mut values) = (vec![value], 0);
    while let Some(value) = open.pop() {
        match value {
            Value::Array(items) => open.extend(items),
            Value::Object(fields) => open.extend(fields.values()),
            _ => {}
        }
        values += 1;
    }
    values
}

/// Marks the members of reference cycles, whose results the validator remembers. Uses Tarjan's
/// algorithm (*Depth-first search and linear graph algorithms*, 1972) without recursion.
fn mark_recursive(nodes: &mut [Node]) {
    let children: Vec<Vec<Id>> = nodes.iter().map(|node| node.children().collect()).collect();
    let mut order = vec![usize::MAX; nodes.len()];
    let mut lowest = vec![usize::MAX; nodes.len()];
    let (mut next, mut component, mut path) = (0, Vec::new(), Vec::new());
    for root in 0..nodes.len() {
        if order[root] == usize::MAX {
            path.push((root, 0));
        }
        while let Some((at, child)) = path.pop() {
            if child == 0 {
                (order[at], lowest[at]) = (next, next);
                next += 1;
                component.push(at);
            }
            if let Some(&to) = children[at].get(child) {
                path.push((at, child + 1));
                match order[to] {
                    usize::MAX => path.push((to, 0)),
                    // `lowest` is `usize::MAX` for members of finished components.
                    _ if lowest[to] != usize::MAX => lowest[at] = lowest[at].min(order[to]),
                    _ => {}
                }
                continue;
            }
            if lowest[at] == order[at] {
                let from = component.iter().rposition(|member| *member == at).unwrap_or_default();
                let members = component.split_off(from);
                let is_cycle = members.len() > 1 || children[at].contains(&at);
                for member in members {
                    nodes[member].is_recursive = is_cycle;
                    lowest[member] = usize::MAX;
                }
            } else if let Some((parent, _)) = path.last() {
                lowest[*parent] = lowest[*parent].min(lowest[at]);
            }
        }
    }
}

/// Checks how many subschemas are compiled again for keywords that look through others.
fn check_copies(nodes: &[Node]) -> Result<(), String> {
    let mut subschemas = nodes.len();
    for (from, _) in nodes.iter().enumerate().filter(|(_, node)| node.looks_through) {
        let mut open = vec![from];
        while let Some(at) = open.pop() {
            subschemas += 1;
            if subschemas > MAX_SUBSCHEMAS {
                return Err(format!(
                    "it has more than {MAX_SUBSCHEMAS} subschemas, counting those that \
                     `unevaluatedProperties` and `unevaluatedItems` look through each time"
                ));
            }
            open.extend(nodes[at].for_same_value()); // a cycle exceeds the maximum
        }
    }
    Ok(())
}
