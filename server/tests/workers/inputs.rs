//! Inputs that are small to send and expensive to handle.

use serde_json::{Map, Value, json};

/// Returns a schema whose validation takes twice as long for each level of a value.
pub(crate) fn doubling_schema() -> Value {
    let next = json!({ "properties": { "a": { "$ref": "#/$defs/n" } } });
    json!({
        "type": "object",
        "$defs": { "n": { "allOf": [next, next] } },
        "properties": { "a": { "$ref": "#/$defs/n" } },
    })
}

/// Returns a value with this many levels.
pub(crate) fn deep_value(levels: usize) -> String {
    "{\"a\":".repeat(levels) + "1" + &"}".repeat(levels)
}

/// Returns a schema with this many definitions, each of which refers to the next one.
pub(crate) fn chain_of_references(length: usize) -> Value {
    chain(length, |next| next)
}

/// Returns a schema with this many definitions, each of which is nested.
pub(crate) fn chain_of_nots(length: usize) -> Value {
    chain(length, |next| (0..100).fold(next, |schema, _| json!({ "not": schema })))
}

fn chain(length: usize, wrap: impl Fn(Value) -> Value) -> Value {
    let mut definitions = Map::new();
    for at in 0..length {
        let next = json!({ "$ref": format!("#/$defs/{}", at + 1) });
        definitions.insert(at.to_string(), wrap(next));
    }
    definitions.insert(length.to_string(), json!({}));
    json!({
        "type": "object",
        "$defs": definitions,
        "properties": { "a": { "$ref": "#/$defs/0" } },
    })
}

/// Returns a schema with this many patterns that are slow to compile.
pub(crate) fn many_patterns(count: usize) -> Value {
    let patterns: Vec<Value> =
        (0..count).map(|at| json!({ "pattern": format!(r"(\w{{60}}){{3}}{at}") })).collect();
    json!({ "type": "object", "properties": { "a": { "anyOf": patterns } } })
}

/// Returns a glob with this many nested braces.
pub(crate) fn braces(levels: usize) -> String {
    "{".repeat(levels) + "a" + &"}".repeat(levels)
}

/// Returns the lines of a file. Files with different seeds have the same lines in another order.
pub(crate) fn lines(count: usize, seed: usize) -> String {
    (0..count).map(|at| format!("{}\n", at * (seed * 7_919) % 5_003)).collect()
}

/// Returns tools of an MCP server, each with a description and a schema of about `bytes` bytes
/// together.
pub(crate) fn many_tools(count: usize, bytes: usize) -> Vec<Value> {
    let properties: Map<String, Value> = (0..bytes / 120)
        .map(|at| (format!("p{at}"), json!({ "type": "string", "description": "x".repeat(60) })))
        .collect();
    let schema = json!({ "type": "object", "properties": properties });
    let tool = |at: usize| json!({ "name": format!("tool_{at}"), "inputSchema": schema });
    (0..count).map(tool).collect()
}
