//! JSON Schemas in the forms in which others take them: the parameters of a tool, and the schema of
//! an answer. Values are checked against the schemas as they were given.

mod normalize;
mod parameters;

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};

pub use normalize::normalize;
pub use parameters::parameters;

/// Keywords at the root of a schema for which OpenAI or Anthropic refuse a request.
const NOT_AT_ROOT: &[&str] = &["$ref", "allOf", "anyOf", "const", "enum", "not", "oneOf"];

/// Returns whether the root of a schema is one of an object, without branches and references, as
/// all servers take it.
pub fn is_object(schema: &Value) -> bool {
    schema["type"] == "object" && schema.as_object().is_some_and(|root| !has_branches(root))
}

fn has_branches(root: &Map<String, Value>) -> bool {
    NOT_AT_ROOT.iter().any(|word| root.contains_key(*word))
}

/// Returns the schema of an object whose only property has this schema. Definitions stay at the
/// root, and references lead to where their targets are then.
///
/// ```
/// use loopwright_core::json_schema::in_property;
/// use serde_json::json;
///
/// let list = json!({ "type": "array", "items": { "$ref": "#/$defs/A" }, "$defs": { "A": {} } });
/// let object = in_property(list, "list");
/// assert_eq!(object["properties"]["list"]["items"], json!({ "$ref": "#/$defs/A" }));
/// assert_eq!(object["$defs"], json!({ "A": {} }));
/// ```
pub fn in_property(schema: Value, name: &str) -> Value {
    let mut schema = schema;
    let mut root = Map::new();
    let pointer = format!("#/properties/{}", name.replace('~', "~0").replace('/', "~1"));
    for_each_subschema(&mut schema, |fields| {
        if let Some(Value::String(reference)) = fields.get_mut("$ref")
            && let Some(within) = reference.strip_prefix('#')
            && (within.is_empty() || within.starts_with('/'))
            && !within.starts_with("/$defs/")
            && !within.starts_with("/definitions/")
        {
            *reference = format!("{pointer}{within}");
        }
    });
    if let Some(fields) = schema.as_object_mut() {
        root.extend(["$defs", "definitions"].into_iter().filter_map(|it| fields.remove_entry(it)));
        for word in ["$schema", "$id", "id"] {
            fields.remove(word); // references would be relative to it
        }
    }
    root.insert("type".into(), "object".into());
    root.insert("properties".into(), json!({ (name): schema }));
    root.insert("required".into(), json!([name]));
    root.insert("additionalProperties".into(), false.into());
    Value::Object(root)
}

/// Calls `change` with a schema and each schema in it, outer ones first.
fn for_each_subschema(schema: &mut Value, mut change: impl FnMut(&mut Map<String, Value>)) {
    let mut open = vec![schema];
    while let Some(schema) = open.pop() {
        let Some(fields) = schema.as_object_mut() else { continue };
        change(fields);
        for (word, value) in fields {
            match (word.as_str(), value) {
                (
                    "$defs" | "definitions" | "dependencies" | "dependentSchemas"
                    | "patternProperties" | "properties",
                    Value::Object(schemas),
                ) => open.extend(schemas.values_mut()),
                ("allOf" | "anyOf" | "items" | "oneOf" | "prefixItems", Value::Array(schemas)) => {
                    open.extend(schemas);
                }
                (
                    "additionalItems"
                    | "additionalProperties"
                    | "contains"
                    | "else"
                    | "if"
                    | "items"
                    | "not"
                    | "propertyNames"
                    | "then"
                    | "unevaluatedItems"
                    | "unevaluatedProperties",
                    schema,
                ) => open.push(schema),
                _ => {}
            }
        }
    }
}

/// Returns the target of a reference, if it is a JSON pointer into the same document.
pub(crate) fn target<'s>(root: &'s Value, reference: &Value) -> Option<&'s Value> {
    let pointer = reference.as_str()?.strip_prefix('#')?;
    root.pointer(&percent_decode_str(pointer).decode_utf8_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_lead_into_the_property() {
        let schema = json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "x",
            "type": "array", "items": {"anyOf": [{"$ref": "#"}, {"$ref": "#/$defs/A"}]},
            "default": {"$ref": "#"}, "$defs": {"A": {"items": {"$ref": "#/items"}}}});
        let wanted = json!({"type": "object", "required": ["a/b"], "additionalProperties": false,
            "properties": {"a/b": {"type": "array", "default": {"$ref": "#"}, "items": {"anyOf": [
                {"$ref": "#/properties/a~1b"}, {"$ref": "#/$defs/A"}]}}},
            "$defs": {"A": {"items": {"$ref": "#/properties/a~1b/items"}}}});
        assert_eq!(in_property(schema, "a/b"), wanted);
        assert_eq!(in_property(json!(true), "a")["properties"], json!({"a": true}));
    }

    #[test]
    fn pointers_are_decoded() {
        let root = json!({"$defs": {"a b%zz%": 1, "é/": 2}});
        for (reference, wanted) in [
            ("#/$defs/a%20b%zz%", Some(1)),
            ("#/$defs/%C3%A9~1", Some(2)),
            ("#/$defs/%FF", None),
            ("/$defs/a%20b%zz%", None),
        ] {
            assert_eq!(target(&root, &json!(reference)), wanted.map(Value::from).as_ref());
        }
        assert_eq!(target(&root, &json!("#")), Some(&root));
    }
}
