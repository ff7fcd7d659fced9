//! JSON Schema: safe coercion and validation of what a model wrote, with errors that let it mend
//! them.

use jsonschema::error::ValidationErrorKind;
use serde_json::{Map, Value};

/// Characters of a received value that an error shows.
const SHOWN: usize = 200;
/// Errors that one answer lists.
const LISTED: usize = 12;

/// A compiled schema. Draft 2020-12 unless its `$schema` says otherwise; nothing is fetched.
pub(crate) struct Schema {
    schema: Value,
    validator: jsonschema::Validator,
}

impl Schema {
    /// Compiles it; the error says what is wrong with it.
    pub(crate) fn compile(schema: &Value) -> Result<Self, String> {
        let validator = jsonschema::options().build(schema).map_err(|e| e.to_string())?;
        Ok(Schema { schema: schema.clone(), validator })
    }

    /// The arguments of a call, coerced and validated; or a text that tells the model what to mend.
    pub(crate) fn read_arguments(&self, raw: &str) -> Result<Value, String> {
        let raw = raw.trim();
        let mut value: Value = if raw.is_empty() {
            Value::Object(Map::new()) // several providers send nothing for a call without arguments
        } else {
            serde_json::from_str(raw).map_err(|e| {
                format!("The arguments are not valid JSON ({e}); they were:\n{}", shown(raw, 2000))
            })?
        };
        self.check(&mut value)?;
        Ok(value)
    }

    /// An answer that must fit the schema; or a text that tells the model what to mend.
    pub(crate) fn read_answer(&self, raw: &str) -> Result<Value, String> {
        let mut value: Value = serde_json::from_str(raw)
            .map_err(|e| format!("The answer is not valid JSON ({e})."))?;
        self.check(&mut value)
            .map_err(|why| why.replacen("The arguments do", "The answer does", 1))?;
        Ok(value)
    }

    /// Coerces `value` in place and validates it; or a text that lists each path and what was
    /// received.
    pub(crate) fn check(&self, value: &mut Value) -> Result<(), String> {
        coerce(&self.schema, &self.schema, value, 0);
        let mut errors: Vec<String> =
            self.validator.iter_errors(value).take(LISTED).map(|e| describe(&e)).collect();
        if errors.is_empty() {
            return Ok(());
        }
        errors.dedup();
        Err(format!("The arguments do not fit the schema:\n{}", errors.join("\n")))
    }
}

fn describe(error: &jsonschema::ValidationError<'_>) -> String {
    let at = error.instance_path().to_string();
    let received = shown(&error.instance().to_string(), SHOWN);
    match error.kind() {
        ValidationErrorKind::Required { property } => {
            format!("- {at}/{}: is required, but missing", property.as_str().unwrap_or_default())
        }
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let names: Vec<String> = unexpected.iter().map(|name| format!("{at}/{name}")).collect();
            format!("- {}: not a property of this tool", names.join(", "))
        }
        _ => {
            let what = shown(&error.to_string(), SHOWN * 2);
            format!("- {}: {what} (received {received})", if at.is_empty() { "/" } else { &at })
        }
    }
}

fn shown(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Depth at which a schema that refers to itself is no longer followed.
const DEEPEST: usize = 64;

/// Changes what is certainly meant otherwise: a string where a number, boolean, array or object is
/// wanted and the string is one; `400.0` where an integer is wanted; `null` for an optional
/// property. A lone value is not wrapped into an array.
fn coerce(root: &Value, schema: &Value, value: &mut Value, depth: usize) {
    let Some(rules) = resolve(root, schema).as_object() else {
        return;
    };
    if depth > DEEPEST {
        return;
    }
    for part in list(rules, "allOf") {
        coerce(root, part, value, depth + 1);
    }
    let wanted = Types::of(root, rules, 0);
    if let Some(better) = convert(wanted, value) {
        *value = better;
    }
    match value {
        Value::Object(fields) => {
            for branch in list(rules, "anyOf")
                .chain(list(rules, "oneOf"))
                .filter(|b| Types::of_schema(root, b, 0).has(Types::OBJECT))
            {
                if let Some(rules) = resolve(root, branch).as_object() {
                    coerce_fields(root, rules, fields, depth);
                }
            }
            coerce_fields(root, rules, fields, depth);
        }
        Value::Array(items) => {
            let branches = list(rules, "anyOf")
                .chain(list(rules, "oneOf"))
                .filter_map(|b| resolve(root, b).get("items"));
            for schema in rules.get("items").into_iter().chain(branches) {
                items.iter_mut().for_each(|item| coerce(root, schema, item, depth + 1));
            }
        }
        _ => {}
    }
}

fn coerce_fields(
    root: &Value,
    rules: &Map<String, Value>,
    fields: &mut Map<String, Value>,
    depth: usize,
) {
    let properties = rules.get("properties").and_then(Value::as_object);
    let required = |name: &str| list(rules, "required").any(|r| r == name);
    fields.retain(|name, value| {
        let Some(schema) = properties.and_then(|p| p.get(name)) else {
            return true;
        };
        !(value.is_null() && !required(name) && !Types::of_schema(root, schema, 0).allows_null())
    });
    for (name, value) in fields.iter_mut() {
        let named = properties.and_then(|p| p.get(name));
        if let Some(schema) = named.or_else(|| rules.get("additionalProperties")) {
            coerce(root, schema, value, depth + 1);
        }
    }
}

fn convert(wanted: Types, value: &Value) -> Option<Value> {
    match value {
        Value::String(text) if !wanted.is_empty() && !wanted.has(Types::STRING) => {
            let read: Value = serde_json::from_str(text.trim()).ok()?;
            let fits = match &read {
                Value::Number(n) => {
                    wanted.has(Types::NUMBER) || wanted.has(Types::INTEGER) && is_integral(n)
                }
                Value::Bool(_) => wanted.has(Types::BOOLEAN),
                Value::Array(_) => wanted.has(Types::ARRAY),
                Value::Object(_) => wanted.has(Types::OBJECT),
                _ => false,
            };
            fits.then(|| convert(wanted, &read).unwrap_or(read))
        }
        Value::Number(n)
            if n.is_f64()
                && wanted.has(Types::INTEGER)
                && !wanted.has(Types::NUMBER)
                && is_integral(n) =>
        {
            let float = n.as_f64()?;
            // 2^53: beyond it a float does not say which integer is meant.
            (float.abs() <= 9_007_199_254_740_992.0).then(|| Value::from(float as i64))
        }
        _ => None,
    }
}

fn is_integral(n: &serde_json::Number) -> bool {
    !n.is_f64() || n.as_f64().is_some_and(|f| f.fract() == 0.0)
}

fn list<'a>(rules: &'a Map<String, Value>, key: &str) -> impl Iterator<Item = &'a Value> {
    rules.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// Follows a reference inside the schema.
fn resolve<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let mut schema = schema;
    for _ in 0..DEEPEST {
        let Some(to) = schema.get("$ref").and_then(Value::as_str) else {
            break;
        };
        let Some(found) = to.strip_prefix('#').and_then(|pointer| root.pointer(pointer)) else {
            break;
        };
        schema = found;
    }
    schema
}

/// The types that a schema allows, as bits; none if it does not say.
#[derive(Clone, Copy)]
struct Types(u8);

impl Types {
    const STRING: u8 = 1;
    const NUMBER: u8 = 2;
    const INTEGER: u8 = 4;
    const BOOLEAN: u8 = 8;
    const ARRAY: u8 = 16;
    const OBJECT: u8 = 32;
    const NULL: u8 = 64;

    fn has(self, kind: u8) -> bool {
        self.0 & kind != 0
    }

    fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn allows_null(self) -> bool {
        self.is_empty() || self.has(Self::NULL)
    }

    fn of_schema(root: &Value, schema: &Value, depth: usize) -> Types {
        resolve(root, schema).as_object().map_or(Types(0), |rules| Self::of(root, rules, depth))
    }

    fn of(root: &Value, rules: &Map<String, Value>, depth: usize) -> Types {
        let mut bits = match rules.get("type") {
            Some(Value::String(name)) => Self::bit(name),
            Some(Value::Array(names)) => {
                names.iter().filter_map(Value::as_str).map(Self::bit).fold(0, |a, b| a | b)
            }
            _ => 0,
        };
        let values = rules.get("const").into_iter().chain(list(rules, "enum"));
        if bits == 0 {
            bits = values.map(Self::of_value).fold(0, |a, b| a | b);
        }
        if bits == 0 && depth < 8 {
            let branches = list(rules, "anyOf").chain(list(rules, "oneOf"));
            bits = branches
                .map(|branch| Self::of_schema(root, branch, depth + 1).0)
                .fold(0, |a, b| a | b);
        }
        Types(bits)
    }

    fn bit(name: &str) -> u8 {
        match name {
            "string" => Self::STRING,
            "number" => Self::NUMBER,
            "integer" => Self::INTEGER,
            "boolean" => Self::BOOLEAN,
            "array" => Self::ARRAY,
            "object" => Self::OBJECT,
            "null" => Self::NULL,
            _ => 0,
        }
    }

    fn of_value(value: &Value) -> u8 {
        match value {
            Value::String(_) => Self::STRING,
            Value::Number(n) if n.is_f64() => Self::NUMBER,
            Value::Number(_) => Self::INTEGER,
            Value::Bool(_) => Self::BOOLEAN,
            Value::Array(_) => Self::ARRAY,
            Value::Object(_) => Self::OBJECT,
            Value::Null => Self::NULL,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(schema: Value, raw: &str) -> Result<Value, String> {
        Schema::compile(&schema).unwrap().read_arguments(raw)
    }

    fn object(properties: Value, required: &[&str]) -> Value {
        json!({"type": "object", "properties": properties, "required": required})
    }

    #[test]
    fn strings_become_what_is_wanted_when_they_are_that() {
        let schema = object(
            json!({"n": {"type": "integer"}, "x": {"type": "number"}, "b": {"type": "boolean"},
            "a": {"type": "array", "items": {"type": "integer"}}, "o": {"type": "object"}, "s": {"type": "string"}}),
            &[],
        );
        let raw = r#"{"n": "4", "x": "1.5", "b": "true", "a": "[\"1\", 2]", "o": "{\"k\": 1}", "s": "4"}"#;
        let wanted = json!({"n": 4, "x": 1.5, "b": true, "a": [1, 2], "o": {"k": 1}, "s": "4"});
        assert_eq!(read(schema, raw).unwrap(), wanted);
    }

    #[test]
    fn what_is_not_certain_is_refused_with_its_path() {
        let schema = object(json!({"n": {"type": "integer"}, "a": {"type": "array"}}), &["n"]);
        for (raw, path) in [
            (r#"{"n": "4x"}"#, "/n"),
            (r#"{"n": 4.5}"#, "/n"),
            (r#"{"n": 1, "a": 7}"#, "/a"),
            ("{}", "/n"),
        ] {
            let error = read(schema.clone(), raw).unwrap_err();
            assert!(error.contains(path), "{raw}: {error}");
        }
    }

    #[test]
    fn null_is_absent_where_it_is_optional_and_kept_where_it_is_a_value() {
        let schema = object(
            json!({"a": {"type": "string"}, "b": {"type": ["string", "null"]}, "c": {"type": "string"}}),
            &["c"],
        );
        assert_eq!(
            read(schema.clone(), r#"{"a": null, "b": null, "c": "x"}"#).unwrap(),
            json!({"b": null, "c": "x"})
        );
        assert!(read(schema, r#"{"c": null}"#).unwrap_err().contains("/c"));
    }

    /// Strict function calls give null for all that is optional, at any depth.
    #[test]
    fn null_is_absent_at_any_depth() {
        let schema = json!({"type": "object", "additionalProperties": false, "required": ["list"],
            "$defs": {"P": {"type": "object", "additionalProperties": false, "properties": {
                "n": {"type": "integer"}, "kept": {"type": ["integer", "null"]},
                "kind": {"type": "string", "enum": ["a", "b"]}, "more": {"$ref": "#/$defs/Q"},
            }}, "Q": {"type": "object", "properties": {"s": {"type": "string"}}, "additionalProperties": false}},
            "properties": {"list": {"type": "array", "items": {"$ref": "#/$defs/P"}},
                "one": {"anyOf": [{"$ref": "#/$defs/P"}, {"type": "null"}]},
                "either": {"oneOf": [{"type": "string"}, {"$ref": "#/$defs/Q"}]}},
        });
        let all = json!({"n": null, "kept": null, "kind": null, "more": {"s": null}});
        let raw =
            json!({"list": [all, {"more": null}], "one": all, "either": {"s": null}}).to_string();
        let all = json!({"kept": null, "more": {}});
        let wanted = json!({"list": [all, {}], "one": all, "either": {}});
        assert_eq!(read(schema.clone(), &raw).unwrap(), wanted);
        let wanted = json!({"list": [], "one": null});
        assert_eq!(read(schema, r#"{"list": [], "one": null, "either": null}"#).unwrap(), wanted);
    }

    #[test]
    fn references_and_branches_are_followed() {
        let schema = json!({"$defs": {"P": {"type": "object", "properties": {"n": {"type": "integer"}}}},
            "type": "object", "properties": {"p": {"$ref": "#/$defs/P"}, "q": {"anyOf": [{"$ref": "#/$defs/P"}, {"type": "null"}]}}});
        let read = read(schema, r#"{"p": "{\"n\": \"1\"}", "q": {"n": "2"}}"#).unwrap();
        assert_eq!(read, json!({"p": {"n": 1}, "q": {"n": 2}}));
    }

    #[test]
    fn malformed_json_is_shown_and_not_guessed_at() {
        let error = read(object(json!({}), &[]), r#"{"a": 1"#).unwrap_err();
        assert!(error.contains(r#"{"a": 1"#) && error.contains("not valid JSON"), "{error}");
        assert_eq!(read(object(json!({}), &[]), " ").unwrap(), json!({}));
        assert!(read(object(json!({}), &[]), "[1]").is_err());
    }
}
