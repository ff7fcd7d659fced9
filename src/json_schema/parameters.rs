//! [`parameters`]: a tool's schema as all servers take it.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{NOT_AT_ROOT, has_branches, normalize, target};
use crate::json::weight;

/// The maximum depth of branches in branches, and of references to references.
const MAX_DEPTH: usize = 16;
/// The maximum number of values, also in copies, that are read of branches and references.
const MAX_VALUES: usize = 10_000;
/// The maximum length of branches that are quoted to the model, in bytes.
const MAX_QUOTED_BYTES: usize = 2_000;

/// Returns a tool's schema as the parameters of a function: an object with `properties`, which
/// include all that it requires, and without branches and references at its root. OpenAI, Anthropic
/// or Gemini would refuse the request otherwise.
///
/// The properties of all branches are properties, those that every branch requires are required,
/// and the description quotes the branches. So parameters tell a model what to send, but may accept
/// more than the schema does, or less. Each call is checked against the schema itself.
///
/// ```
/// use loopwright_core::json_schema::parameters;
/// use serde_json::json;
///
/// let schema = json!({ "anyOf": [
///     { "properties": { "url": {} }, "required": ["url"] },
///     { "properties": { "text": {} }, "required": ["text"] },
/// ] });
/// assert_eq!(parameters(&schema)["properties"], json!({ "url": {}, "text": {} }));
/// ```
pub fn parameters(schema: &Value) -> Value {
    let mut root = schema.as_object().cloned().unwrap_or_default();
    root.retain(|word, value| !value.is_null() || !NOT_AT_ROOT.contains(&word.as_str()));
    if has_branches(&root) {
        root = flat(schema, root);
    }
    root.insert("type".into(), "object".into());
    let properties = root.entry("properties").or_insert_with(|| json!({}));
    if let Some(properties) = properties.as_object_mut() {
        let required = schema["required"].as_array().into_iter().flatten();
        for name in required.filter_map(Value::as_str) {
            properties.entry(name).or_insert_with(|| json!({}));
        }
    }
    normalize(Value::Object(root))
}

/// Returns the root with what its branches and references say about properties, in their place.
fn flat(schema: &Value, mut root: Map<String, Value>) -> Map<String, Value> {
    let mut reader = Reader { root: schema, left: MAX_VALUES };
    let Shape { mut properties, required } = reader.shape(schema, 0);
    for _ in 0..MAX_DEPTH {
        let Some(target) = root.remove("$ref").and_then(|reference| target(schema, &reference))
        else {
            break;
        };
        for (word, value) in target.as_object().into_iter().flatten() {
            root.entry(word).or_insert_with(|| value.clone());
        }
    }
    let mut branches = Map::new();
    for word in NOT_AT_ROOT {
        branches.extend(root.remove_entry(*word));
    }
    root.remove("unevaluatedProperties");
    for name in &required {
        properties.entry(name.clone()).or_insert_with(|| json!({}));
    }
    root.insert("properties".into(), properties.into());
    root.insert("required".into(), required.into_iter().collect());
    branches.remove("$ref");
    branches.remove("allOf"); // the properties say what it says
    if let Some(quoted) = quoted(branches) {
        let own = root.get("description").and_then(Value::as_str).unwrap_or_default();
        let space = if own.is_empty() { "" } else { "\n\n" };
        let also = format!("{own}{space}The arguments must also fit this JSON Schema: {quoted}");
        root.insert("description".into(), also.into());
    }
    root
}

/// Returns branches as text. Of long ones, only the names that they require.
fn quoted(mut branches: Map<String, Value>) -> Option<String> {
    if branches.is_empty() {
        return None;
    }
    let whole = Value::Object(branches.clone()).to_string();
    if whole.len() <= MAX_QUOTED_BYTES {
        return Some(whole);
    }
    branches.retain(|word, _| matches!(word.as_str(), "anyOf" | "oneOf"));
    for branch in branches.values_mut().filter_map(Value::as_array_mut).flatten() {
        *branch = json!({ "required": branch["required"].take() });
    }
    let short = Value::Object(branches).to_string();
    (short.len() <= MAX_QUOTED_BYTES).then_some(short)
}

/// The properties of an object, according to a schema.
#[derive(Default)]
struct Shape {
    properties: Map<String, Value>,
    required: BTreeSet<String>,
}

impl Shape {
    /// Returns the shape of objects that fit both.
    fn and(mut self, other: Shape) -> Shape {
        merge(&mut self.properties, other.properties, "allOf");
        self.required.extend(other.required);
        self
    }

    /// Returns a shape of objects that fit one of the two.
    fn or(mut self, other: Shape) -> Shape {
        merge(&mut self.properties, other.properties, "anyOf");
        self.required.retain(|name| other.required.contains(name));
        self
    }
}

/// Adds properties. Those that are there with another schema get both, joined by `word`.
fn merge(into: &mut Map<String, Value>, from: Map<String, Value>, word: &str) {
    for (name, schema) in from {
        let Some(old) = into.get_mut(&name) else {
            into.insert(name, schema);
            continue;
        };
        if *old == schema {
            continue;
        }
        let is_joined = old.as_object().is_some_and(|old| old.len() == 1);
        match old.get_mut(word).and_then(Value::as_array_mut).filter(|_| is_joined) {
            Some(joined) if joined.contains(&schema) => {}
            Some(joined) => joined.push(schema),
            None => *old = json!({ (word): [old.take(), schema] }),
        }
    }
}

struct Reader<'a> {
    root: &'a Value,
    /// The number of values that may still be read.
    left: usize,
}

impl<'a> Reader<'a> {
    /// Returns what a schema says about properties, and nothing about what is too much to read.
    fn shape(&mut self, schema: &'a Value, depth: usize) -> Shape {
        let mut shape = Shape::default();
        if depth > MAX_DEPTH || !self.spend(1) {
            return shape;
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let is_small = self.spend(weight(property));
            let property = if is_small { property.clone() } else { json!({}) };
            shape.properties.insert(name.clone(), property);
        }
        let names = schema["required"].as_array().into_iter().flatten();
        shape.required = names.filter_map(Value::as_str).map(String::from).collect();
        if let Some(target) = schema.get("$ref").and_then(|reference| target(self.root, reference))
        {
            shape = shape.and(self.shape(target, depth + 1));
        }
        for part in schema["allOf"].as_array().into_iter().flatten() {
            shape = shape.and(self.shape(part, depth + 1));
        }
        for word in ["anyOf", "oneOf"] {
            let mut either: Option<Shape> = None;
            for branch in schema[word].as_array().into_iter().flatten() {
                let target = branch.get("$ref").and_then(|reference| target(self.root, reference));
                if !may_be_object(target.unwrap_or(branch)) {
                    continue;
                }
                let branch = self.shape(branch, depth + 1);
                either = Some(match either {
                    Some(before) => before.or(branch),
                    None => branch,
                });
            }
            shape = shape.and(either.unwrap_or_default());
        }
        shape
    }

    fn spend(&mut self, values: usize) -> bool {
        let is_enough = values <= self.left;
        self.left = self.left.saturating_sub(values);
        is_enough
    }
}

fn may_be_object(schema: &Value) -> bool {
    match &schema["type"] {
        Value::Null => schema != &Value::Bool(false),
        Value::Array(kinds) => kinds.iter().any(|kind| kind == "object"),
        kind => kind == "object",
    }
}

#[cfg(test)]
mod tests;
