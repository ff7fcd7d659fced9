//! Coercion and validation of a model's JSON, with errors that let the model correct it.
//!
//! With the feature `schema`, values are validated against the JSON Schema. Without it, the schema
//! only guides the coercion, and the tool's own types check the arguments of a call:
//! [`Tool::check_arguments`](crate::Tool::check_arguments).

#[cfg(test)]
#[cfg(feature = "schema")]
mod bounds_tests;
#[cfg(feature = "schema")]
mod compile;
#[cfg(feature = "schema")]
mod course;
#[cfg(feature = "schema")]
mod equal;
#[cfg(feature = "schema")]
mod format;
#[cfg(feature = "schema")]
mod keywords;
#[cfg(feature = "schema")]
mod number;
#[cfg(feature = "schema")]
mod pattern;
#[cfg(feature = "schema")]
mod program;
#[cfg(feature = "schema")]
mod report;
#[cfg(feature = "schema")]
mod resources;
#[cfg(feature = "schema")]
mod run;
#[cfg(feature = "schema")]
mod seen;
#[cfg(feature = "schema")]
mod stack;
#[cfg(test)]
#[cfg(feature = "schema")]
mod suite_tests;
#[cfg(feature = "schema")]
mod uri;
#[cfg(feature = "schema")]
mod validator;
#[cfg(feature = "schema")]
mod values;

use serde_json::{Map, Value};

use crate::excerpt;
use crate::json::check_size;
use crate::tool::coerce::coerce;
#[cfg(feature = "schema")]
use validator::Validator;

/// Maximum length of the invalid JSON that an error quotes, in characters.
const MAX_RAW_CHARS: usize = 2_000;

/// A compiled schema. It is Draft 2020-12 unless its `$schema` names another; nothing is fetched.
pub(crate) struct Schema {
    schema: Value,
    #[cfg(feature = "schema")]
    validator: Validator,
}

impl Schema {
    /// Compiles a schema. The error names the mistake or the exceeded limit.
    pub(crate) fn compile(schema: &Value) -> Result<Self, String> {
        Ok(Schema {
            // First, because cloning a schema that is nested too deep could overflow the stack.
            #[cfg(feature = "schema")]
            validator: Validator::compile(schema)?,
            schema: schema.clone(),
        })
    }

    /// Returns whether the validator was compiled from this schema.
    pub(crate) fn is_of(&self, schema: &Value) -> bool {
        self.schema == *schema
    }

    /// Compiles the schema of a typed output. Fails without the feature `schema`, which checks it.
    pub(crate) fn compile_output(schema: &Value) -> Result<Self, String> {
        if cfg!(feature = "schema") {
            Self::compile(schema)
        } else {
            Err("typed output needs the feature `schema` of loopwright-core".into())
        }
    }

    /// Reads the arguments of a call, coerced and validated. The error tells the model what to
    /// correct.
    pub(crate) fn read_arguments(&self, raw: &str) -> Result<Value, String> {
        let raw = raw.trim();
        check_size(raw).map_err(|much| {
            format!("The arguments are too large: {much}. Make the call in smaller parts.")
        })?;
        let mut value: Value = if raw.is_empty() {
            Value::Object(Map::new()) // several providers send nothing for a call without arguments
        } else {
            serde_json::from_str(raw).map_err(|e| {
                let raw = excerpt::chars(raw, MAX_RAW_CHARS);
                format!("The arguments are not valid JSON ({e}); they were:\n{raw}")
            })?
        };
        self.check(&mut value)?;
        Ok(value)
    }

    /// Reads an answer that must fit the schema. The error tells the model what to correct.
    pub(crate) fn read_answer(&self, raw: &str) -> Result<Value, String> {
        check_size(raw).map_err(|much| format!("The answer is too large: {much}."))?;
        let mut value: Value = serde_json::from_str(raw)
            .map_err(|e| format!("The answer is not valid JSON ({e})."))?;
        self.check_answer(&mut value)?;
        Ok(value)
    }

    /// Checks an answer as [`Schema::check`] checks arguments.
    pub(crate) fn check_answer(&self, value: &mut Value) -> Result<(), String> {
        let of_answer = |why: String| match why.strip_prefix("The arguments do") {
            Some(rest) => format!("The answer does{rest}"),
            None => why.replacen("The arguments", "The answer", 1),
        };
        self.check(value).map_err(of_answer)
    }

    /// Coerces `value` in place and validates it. The error lists each path and what was received.
    pub(crate) fn check(&self, value: &mut Value) -> Result<(), String> {
        coerce(&self.schema, value);
        #[cfg(feature = "schema")]
        self.validator.validate(value)?;
        Ok(())
    }
}

#[cfg(test)]
#[cfg(feature = "schema")]
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
            "a": {"type": "array", "items": {"type": "integer"}}, "o": {"type": "object"},
            "s": {"type": "string"}}),
            &[],
        );
        let raw = concat!(
            r#"{"n": "4", "x": "1.5", "b": "true", "#,
            r#""a": "[\"1\", 2]", "o": "{\"k\": 1}", "s": "4"}"#
        );
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
            json!({"a": {"type": "string"}, "b": {"type": ["string", "null"]},
                "c": {"type": "string"}}),
            &["c"],
        );
        assert_eq!(
            read(schema.clone(), r#"{"a": null, "b": null, "c": "x"}"#).unwrap(),
            json!({"b": null, "c": "x"})
        );
        assert!(read(schema, r#"{"c": null}"#).unwrap_err().contains("/c"));
    }

    /// Schemas of servers and remote agents may be hostile.
    #[test]
    fn a_schema_that_refers_to_itself_many_times_ends() {
        let itself = json!([{ "$ref": "#" }, { "$ref": "#" }]);
        for keyword in ["allOf", "anyOf", "oneOf"] {
            let _ = read(json!({ keyword: itself }), "{\"a\": [{}]}");
        }
        let deep = (0..40).fold(json!({}), |value, _| json!({ "a": value })).to_string();
        let properties = json!({ "a": { "anyOf": itself } });
        let _ = read(json!({ "anyOf": itself, "properties": properties }), &deep);
    }

    /// Strict function calls give `null` for everything optional, at any depth.
    #[test]
    fn null_is_absent_at_any_depth() {
        let schema = json!({"type": "object", "additionalProperties": false, "required": ["list"],
            "$defs": {"P": {"type": "object", "additionalProperties": false, "properties": {
                "n": {"type": "integer"}, "kept": {"type": ["integer", "null"]},
                "kind": {"type": "string", "enum": ["a", "b"]}, "more": {"$ref": "#/$defs/Q"},
            }}, "Q": {"type": "object", "properties": {"s": {"type": "string"}},
                "additionalProperties": false}},
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
        let schema = json!({
            "$defs": {"P": {"type": "object", "properties": {"n": {"type": "integer"}}}},
            "type": "object", "properties": {
                "p": {"$ref": "#/$defs/P"},
                "q": {"anyOf": [{"$ref": "#/$defs/P"}, {"type": "null"}]}}});
        let read = read(schema, r#"{"p": "{\"n\": \"1\"}", "q": {"n": "2"}}"#).unwrap();
        assert_eq!(read, json!({"p": {"n": 1}, "q": {"n": 2}}));
    }

    /// C448: A value that seems to be meant for one branch gets the errors of this branch.
    #[test]
    fn a_value_is_compared_with_the_branch_that_it_is_meant_for() {
        let shape = |kind: &str, size: &str| {
            json!({ "type": "object", "required": ["kind", size],
                "properties": { "kind": { "const": kind }, size: { "type": "number" } } })
        };
        let branches =
            json!([shape("circle", "radius"), shape("square", "side"), { "type": "null" }]);
        for keyword in ["anyOf", "oneOf"] {
            let schema = object(json!({ "shape": { keyword: branches } }), &[]);
            let error = |raw| read(schema.clone(), raw).unwrap_err();
            let of_circle = error(r#"{"shape": {"kind": "circle", "radius": "big"}}"#);
            let line = "\n- /shape/radius: \"big\" is not of type \"number\"";
            assert!(of_circle.ends_with(line), "{of_circle}");
            let of_square = error(r#"{"shape": {"kind": "square"}}"#);
            let line = "\n- /shape/side: is required, but missing";
            assert!(of_square.ends_with(line), "{of_square}");
            let of_none = error(r#"{"shape": {"kind": "cube", "edge": 1}}"#);
            assert_eq!(of_none.lines().count(), 2, "{of_none}");
        }
    }

    /// C430: Arguments and answers that are too large to be parsed at once are refused.
    #[test]
    fn what_is_too_large_is_not_parsed() {
        let schema = Schema::compile(&json!({})).unwrap();
        let list = |count: usize| format!("[{}0]", "0,".repeat(count));
        assert!(schema.read_arguments(&list(90_000)).is_ok());
        let error = schema.read_arguments(&list(100_000)).unwrap_err();
        assert!(error.contains("more than 100000 values"), "{error}");
        assert!(schema.read_answer(&list(90_000)).is_ok());
        assert!(schema.read_answer(&list(100_000)).unwrap_err().contains("too large"));
        assert!(schema.read_arguments(&format!("\"{}\"", "x".repeat(5 << 20))).is_err());
    }

    #[test]
    fn malformed_json_is_shown_and_not_guessed_at() {
        let error = read(object(json!({}), &[]), r#"{"a": 1"#).unwrap_err();
        assert!(error.contains(r#"{"a": 1"#) && error.contains("not valid JSON"), "{error}");
        assert_eq!(read(object(json!({}), &[]), " ").unwrap(), json!({}));
        assert!(read(object(json!({}), &[]), "[1]").is_err());
    }
}
