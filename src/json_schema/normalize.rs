//! Schemas of older drafts, and of languages with one empty value for several types.

use serde_json::{Map, Value, json};

use super::for_each_subschema;

/// Keywords whose value may be null.
const VALUES: &[&str] = &["const", "default", "example"];

/// Returns a schema that means the same in Draft 2020-12, which Anthropic requires.
///
/// Tuples, `dependencies` and exclusive bounds of older drafts are written as in that one. Keywords
/// that are null are left out, and what must be a map and is an empty list is an empty map. The
/// depth and the size of the schema must be bounded.
pub fn normalize(mut schema: Value) -> Value {
    for_each_subschema(&mut schema, |fields| {
        fields.retain(|word, value| !value.is_null() || VALUES.contains(&word.as_str()));
        fields.remove("$schema");
        for word in ["$defs", "definitions", "dependencies", "patternProperties", "properties"] {
            if fields.get(word).and_then(Value::as_array).is_some_and(Vec::is_empty) {
                fields.insert(word.into(), json!({}));
            }
        }
        // In Draft 3, it is a flag of a property.
        if fields.get("required").is_some_and(Value::is_boolean) {
            fields.remove("required");
        }
        bound(fields, "exclusiveMinimum", "minimum");
        bound(fields, "exclusiveMaximum", "maximum");
        tuple(fields);
        dependencies(fields);
    });
    schema
}

/// Writes an exclusive bound that is a flag, as in Draft 4, as a number.
fn bound(fields: &mut Map<String, Value>, exclusive: &str, inclusive: &str) {
    let Some(is_exclusive) = fields.get(exclusive).and_then(Value::as_bool) else { return };
    fields.remove(exclusive);
    if is_exclusive && let Some(limit) = fields.remove(inclusive) {
        fields.insert(exclusive.into(), limit);
    }
}

/// Writes a list of schemas for items as `prefixItems`.
fn tuple(fields: &mut Map<String, Value>) {
    let rest = fields.remove("additionalItems");
    if !fields.get("items").is_some_and(Value::is_array) {
        return;
    }
    let first = fields.remove("items");
    for (word, value) in [("prefixItems", first), ("items", rest)] {
        fields.extend(value.map(|value| (word.to_owned(), value)));
    }
}

/// Writes `dependencies` as the two keywords that they were split into.
fn dependencies(fields: &mut Map<String, Value>) {
    let Some(Value::Object(all)) = fields.remove("dependencies") else { return };
    for (name, dependency) in all {
        let word = if dependency.is_array() { "dependentRequired" } else { "dependentSchemas" };
        if let Value::Object(split) = fields.entry(word).or_insert_with(|| json!({})) {
            split.insert(name, dependency);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_values_of_other_types_are_left_out() {
        let odd = json!({"type": "object", "required": null, "anyOf": null, "properties": {
            "a": {"type": "object", "properties": [], "required": false, "items": null},
            "required": {"type": "string", "default": null, "const": null},
            "properties": {"enum": [{"properties": [], "required": null}, null]},
        }});
        let corrected = json!({"type": "object", "properties": {
            "a": {"type": "object", "properties": {}},
            "required": {"type": "string", "default": null, "const": null},
            "properties": {"enum": [{"properties": [], "required": null}, null]},
        }});
        assert_eq!(normalize(odd), corrected);
    }

    #[test]
    fn older_drafts_are_written_as_the_last_one() {
        let old = json!({"$schema": "http://json-schema.org/draft-04/schema#", "items": [
            {"minimum": 1, "exclusiveMinimum": true, "maximum": 5, "exclusiveMaximum": false},
            {"exclusiveMinimum": true, "exclusiveMaximum": 3, "additionalItems": {}},
        ], "additionalItems": false,
            "dependencies": {"a": ["b"], "c": {"items": [true]}}});
        let new = json!({"prefixItems": [
            {"exclusiveMinimum": 1, "maximum": 5}, {"exclusiveMaximum": 3},
        ], "items": false, "dependentRequired": {"a": ["b"]},
            "dependentSchemas": {"c": {"prefixItems": [true]}}});
        assert_eq!(normalize(old), new);
        assert_eq!(normalize(new.clone()), new);
    }
}
