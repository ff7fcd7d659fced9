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
use crate::json;
use crate::tool::coerce::coerce;
#[cfg(feature = "schema")]
use validator::Validator;

/// Maximum length of the invalid JSON that an error quotes, in characters.
const MAX_RAW_CHARS: usize = 2_000;
/// Maximum number of steps of validation to choose among the branches of a schema.
#[cfg(feature = "schema")]
const MAX_BRANCH_STEPS: usize = 300_000;

/// A compiled schema. It is Draft 2020-12 unless its `$schema` names another; nothing is fetched.
pub(crate) struct Schema {
    /// In a box, because the validator knows its parts by their addresses.
    schema: Box<Value>,
    #[cfg(feature = "schema")]
    validator: Validator,
}

impl Schema {
    /// Compiles a schema. The error names the mistake or the exceeded limit.
    pub(crate) fn compile(schema: &Value) -> Result<Self, String> {
        // First, because cloning a schema that is nested too deep could overflow the stack.
        #[cfg(feature = "schema")]
        compile::nesting(schema)?;
        let schema = Box::new(schema.clone());
        Ok(Schema {
            #[cfg(feature = "schema")]
            validator: Validator::compile(&schema)?,
            schema,
        })
    }

    /// Returns whether the validator was compiled from this schema.
    pub(crate) fn is_of(&self, schema: &Value) -> bool {
        *self.schema == *schema
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
        // Several providers send nothing for a call without arguments.
        let mut value = match raw {
            "" => Value::Object(Map::new()),
            _ => json::read(raw).map_err(|why| {
                let raw = excerpt::chars(raw, MAX_RAW_CHARS);
                format!("The text of the arguments {why}. It was:\n{raw}")
            })?,
        };
        self.check(&mut value)?;
        Ok(value)
    }

    /// Reads an answer that must fit the schema. The error tells the model what to correct.
    pub(crate) fn read_answer(&self, raw: &str) -> Result<Value, String> {
        let mut value = json::read(raw).map_err(|why| format!("The answer {why}."))?;
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
        #[cfg(feature = "schema")]
        {
            let mut steps = MAX_BRANCH_STEPS;
            coerce(&self.schema, value, &mut |part, value| {
                self.validator.fits(part, value, &mut steps)
            });
            self.validator.validate(value)
        }
        #[cfg(not(feature = "schema"))]
        {
            coerce(&self.schema, value, &mut |_, _| None);
            Ok(())
        }
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

    #[test]
    fn a_long_value_is_not_converted_for_many_branches() {
        let text = "x".repeat(1_000_000);
        let list = format!("[{}0]", "0,".repeat(90_000));
        for value in [json!(text), json!(list)] {
            for branch in [json!({"const": "a"}), json!({"type": "array", "maxItems": 0})] {
                let schema = json!({"anyOf": vec![branch; 2_000]});
                let mut converted = value.clone();
                assert!(Schema::compile(&schema).unwrap().check(&mut converted).is_err());
                assert_eq!(converted, value);
            }
        }
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

    /// C451: A valid value is not converted. Of several branches, the one that accepts it counts.
    #[test]
    fn a_value_is_converted_only_for_a_branch_that_then_accepts_it() {
        let of = |kind: &str, value: &str| {
            json!({"type": "object", "required": ["kind"],
                "properties": {"kind": {"const": kind}, "value": {"type": value}}})
        };
        let id = |kind: &str| json!({"type": "object", "properties": {"id": {"type": kind}}});
        let list = |kind: &str| json!({"type": "array", "items": {"type": kind}});
        let (nothing, text) = (json!({"type": "null"}), json!({"type": "string"}));
        let set = |value: &Value| object(json!({"set": value}), &["set"]);
        for (branches, value, wanted) in [
            (
                json!([of("count", "integer"), of("zip", "string")]),
                json!({"kind": "zip", "value": "10115"}),
                json!({"kind": "zip", "value": "10115"}),
            ),
            (
                json!([of("zip", "string"), of("count", "integer")]),
                json!({"kind": "count", "value": "7"}),
                json!({"kind": "count", "value": 7}),
            ),
            (json!([id("integer"), id("string")]), json!({"id": "1"}), json!({"id": "1"})),
            (json!([id("integer"), id("boolean")]), json!({"id": "true"}), json!({"id": true})),
            (json!([list("integer"), list("string")]), json!(["1", "2"]), json!(["1", "2"])),
            (json!([list("integer"), list("boolean")]), json!(["1", 2]), json!([1, 2])),
            (json!([id("string"), set(&nothing)]), json!({"set": null}), json!({"set": null})),
            (json!([{"type": "integer"}, {"pattern": "^1"}]), json!("12"), json!("12")),
            (json!([{"type": "integer"}, {"pattern": "^1"}]), json!("2"), json!(2)),
            (json!([{"type": "integer", "minimum": 5}, nothing]), json!("4"), json!(4)),
            (json!([{"type": "integer"}, text.clone()]), json!("4"), json!("4")),
            (json!([{"type": "integer"}, list("integer")]), json!("[\"4\"]"), json!([4])),
            (
                json!([{"prefixItems": [text], "items": {"type": "integer"}}]),
                json!(["1", "2"]),
                json!(["1", 2]),
            ),
            (
                json!([{"patternProperties": {"^s": text},
                    "additionalProperties": {"type": "integer"}}]),
                json!({"s": "5"}),
                json!({"s": "5"}),
            ),
        ] {
            for keyword in ["anyOf", "oneOf"] {
                let schema = Schema::compile(&json!({ keyword: branches })).unwrap();
                let mut converted = value.clone();
                let _ = schema.check(&mut converted);
                assert_eq!(converted, wanted, "{keyword} {branches} {value}");
            }
        }
    }

    #[test]
    fn a_whole_number_that_does_not_fit_is_not_rounded() {
        let digits = "12345678901234567890123";
        let schema = object(json!({"n": {"type": ["integer", "array"]}}), &[]);
        for (raw, what) in [
            (format!(r#"{{"n": {digits}}}"#), "not all digits"),
            (format!(r#"{{"n": "{digits}"}}"#), "/n"),
            (format!(r#"{{"n": "[{digits}]"}}"#), "/n"),
        ] {
            let error = read(schema.clone(), &raw).unwrap_err();
            assert!(error.contains(digits) && error.contains(what), "{error}");
        }
        let exact = read(schema, r#"{"n": "100000000000000000000"}"#).unwrap();
        assert_eq!(exact, json!({"n": 1e20}));
    }

    #[test]
    fn a_text_with_too_many_values_is_not_converted() {
        let schema = Schema::compile(&object(json!({"list": {"type": "array"}}), &[])).unwrap();
        for (values, converts) in [(90_000, true), (110_000, false)] {
            let mut value = json!({"list": format!("[{}0]", "0,".repeat(values))});
            assert_eq!(schema.check(&mut value).is_ok(), converts);
            assert_eq!(value["list"].is_array(), converts);
        }
    }

    #[test]
    fn empty_values_of_another_type_are_no_keywords() {
        let nothing = json!({"type": "object", "properties": [], "required": null, "anyOf": null,
            "$ref": null});
        assert_eq!(read(nothing, r#"{"a": 1}"#).unwrap(), json!({"a": 1}));
        let draft_7 = "http://json-schema.org/draft-07/schema#";
        let schema = json!({"$schema": draft_7, "$ref": null, "required": ["a"]});
        assert!(read(schema, "{}").is_err());
        assert!(Schema::compile(&json!({"properties": [1]})).is_err());
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
