//! Output schemas in the forms that servers accept: for a grammar, and as text.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Returns the instruction for an answer that matches `schema`, for models without a schema field.
pub(crate) fn in_words(schema: &Value) -> String {
    format!(
        "Give your final answer as one JSON value that fits this JSON Schema, with nothing \
         before or after it:\n{schema}"
    )
}

/// Constraints that a grammar cannot express. The engine checks them.
pub(crate) const UNCHECKED: &[&str] = &[
    "$schema",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "pattern",
    "uniqueItems",
];
/// Keywords that make a schema unsuitable for a grammar.
const UNSUPPORTED: &[&str] = &[
    "$dynamicRef",
    "contains",
    "dependentSchemas",
    "else",
    "if",
    "not",
    "patternProperties",
    "prefixItems",
    "then",
];

/// Returns the schema in a form that a grammar can express: objects have only the listed
/// properties, and constraints are removed. Returns `None` if that would change its meaning, as for
/// maps and recursive types.
pub(crate) fn closed(schema: &Value) -> Option<Value> {
    let schema = close(schema)?;
    (!contains_itself(&schema)).then_some(schema)
}

fn close(schema: &Value) -> Option<Value> {
    let fields = schema.as_object()?;
    if fields.keys().any(|key| UNSUPPORTED.contains(&key.as_str())) {
        return None;
    }
    let mut closed = Map::new();
    for (key, value) in fields.iter().filter(|(key, _)| !UNCHECKED.contains(&key.as_str())) {
        let (key, value) = match (key.as_str(), value) {
            ("properties" | "$defs" | "definitions", Value::Object(map)) => {
                let inner = map.iter().map(|(name, schema)| Some((name.clone(), close(schema)?)));
                (key.as_str(), Value::Object(inner.collect::<Option<_>>()?))
            }
            ("oneOf" | "anyOf", Value::Array(list)) => {
                ("anyOf", list.iter().map(close).collect::<Option<_>>()?)
            }
            ("allOf", Value::Array(list)) => {
                ("allOf", list.iter().map(close).collect::<Option<_>>()?)
            }
            ("items", item) => ("items", close(item)?),
            ("additionalProperties", Value::Bool(false)) => continue,
            ("additionalProperties", _) => return None,
            (key, value) => (key, value.clone()),
        };
        closed.insert(key.to_owned(), value);
    }
    let kind = &fields.get("type").cloned().unwrap_or_default();
    let is_object =
        kind == "object" || kind.as_array().is_some_and(|kinds| kinds.contains(&"object".into()));
    if is_object && !closed.contains_key("properties") {
        return None; // accepts any object
    }
    if closed.contains_key("properties") {
        closed.insert("additionalProperties".into(), false.into());
    }
    Some(Value::Object(closed))
}

/// Returns whether a reference leads back to a schema on its own path, or nowhere. Each reference
/// is followed once, without recursion, because chains can be long.
fn contains_itself(root: &Value) -> bool {
    // The references that were entered; `true` once they have been left.
    let mut left: BTreeMap<&str, bool> = BTreeMap::new();
    let mut path = vec![("", references(root))];
    while let Some((name, inner)) = path.last_mut() {
        let Some(reference) = inner.pop() else {
            left.insert(name, true);
            path.pop();
            continue;
        };
        match left.get(reference) {
            Some(true) => {}
            Some(false) => return true,
            None => {
                let pointer = reference.strip_prefix('#');
                let Some(target) = pointer.and_then(|pointer| root.pointer(pointer)) else {
                    return true;
                };
                left.insert(reference, false);
                path.push((reference, references(target)));
            }
        }
    }
    false
}

/// Returns the references in a schema, except in its definitions.
fn references(schema: &Value) -> Vec<&str> {
    let (mut open, mut found) = (vec![schema], Vec::new());
    while let Some(value) = open.pop() {
        match value {
            Value::Array(items) => open.extend(items),
            Value::Object(fields) => {
                found.extend(fields.get("$ref").and_then(Value::as_str));
                let is_schema = |key: &str| !matches!(key, "$defs" | "definitions");
                open.extend(
                    fields.iter().filter(|(key, _)| is_schema(key)).map(|(_, value)| value),
                );
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_closed_schema_lists_all_there_is() {
        let schema = json!({"$schema": "x", "type": "object", "required": ["a"], "properties": {
            "a": {"type": "integer", "minimum": 3},
            "format": {"oneOf": [{"const": 1}, {"$ref": "#/$defs/B"}]},
        }, "$defs": {"B": {"type": "object", "properties": {"c": {"type": "array",
            "items": {"type": "string"}}}}}});
        let inner = json!({"type": "object", "additionalProperties": false,
            "properties": {"c": {"type": "array", "items": {"type": "string"}}}});
        let expected = json!({"type": "object", "required": ["a"],
            "additionalProperties": false, "properties": {
            "a": {"type": "integer"},
            "format": {"anyOf": [{"const": 1}, {"$ref": "#/$defs/B"}]},
        }, "$defs": {"B": inner}});
        assert_eq!(closed(&schema), Some(expected));
    }

    #[test]
    fn a_reference_that_is_there_often_is_followed_once() {
        let next = |at: usize| json!({"$ref": format!("#/$defs/D{}", at + 1)});
        let twice = |at| json!({"type": "object", "properties": {"a": next(at), "b": next(at)}});
        let mut defs: Map<String, Value> =
            (0..100).map(|at| (format!("D{at}"), twice(at))).collect();
        defs.insert("D100".into(), json!({"type": "string"}));
        let mut schema = json!({"$ref": "#/$defs/D0", "$defs": defs});
        assert!(closed(&schema).is_some());
        schema["$defs"]["D100"] = twice(49);
        assert_eq!(closed(&schema), None);
    }

    #[test]
    fn a_long_chain_of_references_is_followed() {
        let next = |at: usize| json!({"$ref": format!("#/$defs/D{}", at + 1)});
        let mut defs: Map<String, Value> =
            (0..50_000).map(|at| (format!("D{at}"), next(at))).collect();
        defs.insert("D50000".into(), json!({"type": "string"}));
        let mut schema = json!({"$ref": "#/$defs/D0"});
        schema["$defs"] = Value::Object(defs);
        assert!(closed(&schema).is_some());
        schema["$defs"]["D50000"] = next(7);
        assert_eq!(closed(&schema), None);
    }

    #[test]
    fn a_schema_that_no_grammar_expresses_is_not_closed() {
        for schema in [
            json!({"type": "object"}),
            json!({"type": "object", "properties": {}, "additionalProperties": {"type": "string"}}),
            json!({"type": "object", "properties": {"a": {"not": {}}}}),
            json!({"type": "object", "properties": {"a": {"$ref": "#"}}}),
            json!({"$ref": "#/$defs/A", "$defs": {"A": {"type": "object",
                "properties": {"a": {"$ref": "#/$defs/A"}}}}}),
            json!({"$ref": "https://elsewhere"}),
            json!(true),
        ] {
            assert_eq!(closed(&schema), None, "{schema}");
        }
    }
}
