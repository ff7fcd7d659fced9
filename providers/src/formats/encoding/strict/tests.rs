//! Tests of strict forms.

use super::*;

fn object(properties: Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required,
        "additionalProperties": false})
}

/// Returns the strict form of the schema of an optional property.
fn property(schema: Value) -> Option<Value> {
    strict_parameters(&object(json!({"p": schema}), &[]))
        .map(|mut strict| strict["properties"]["p"].take())
}

#[test]
fn what_was_optional_may_be_null() {
    let inner = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let either = |one: Value| json!({"anyOf": [one, {"type": "null"}]});
    let strict = object(json!({"n": {"type": ["integer", "null"]}}), &["n"]);
    for (optional, expected) in [
        (json!({"type": "string", "title": "P"}), json!({"type": ["string", "null"]})),
        (json!({"type": ["null", "number"]}), json!({"type": ["number", "null"]})),
        (json!({"type": "null"}), json!({"type": "null"})),
        (
            json!({"type": "string", "enum": ["a", "b"]}),
            either(json!({"type": "string", "enum": ["a", "b"]})),
        ),
        (
            json!({"type": "boolean", "const": true}),
            either(json!({"type": "boolean", "enum": [true]})),
        ),
        (
            json!({"type": ["integer", "null"], "enum": [1, null]}),
            either(json!({"type": "integer", "enum": [1]})),
        ),
        (inner.clone(), either(strict.clone())),
        (
            json!({"type": ["array", "null"], "items": inner}),
            either(json!({"type": "array", "items": strict})),
        ),
        (json!({"anyOf": [inner, {"type": "null"}]}), either(strict.clone())),
        (
            json!({"oneOf": [inner, {"type": "string"}]}),
            json!({"anyOf": [strict, {"type": "string"}, {"type": "null"}]}),
        ),
    ] {
        assert_eq!(property(optional.clone()), Some(expected), "{optional}");
    }
}

#[test]
fn what_was_required_stays_as_it_is() {
    let schema = json!({"$schema": "x", "type": "object", "required": ["a", "b"], "properties": {
        "a": {"type": "string", "description": "What."}, "b": {"type": ["string", "null"]},
        "c": {"type": "boolean"},
    }});
    let expected = json!({
        "a": {"type": "string", "description": "What."}, "b": {"type": ["string", "null"]},
        "c": {"type": ["boolean", "null"]},
    });
    let expected = object(expected, &["a", "b", "c"]);
    assert_eq!(strict_parameters(&schema), Some(expected.clone()));
    assert_eq!(strict_parameters(&expected), Some(expected), "it is its own strict form");
    assert_eq!(strict_parameters(&object(json!({}), &[])), Some(object(json!({}), &[])));
    assert_eq!(
        strict_parameters(&json!({"type": "object", "additionalProperties": false})),
        Some(object(json!({}), &[]))
    );
}

#[test]
fn a_reference_is_what_it_means() {
    let schema = json!({"$ref": "#/$defs/A", "$defs": {
        "A": {"type": "object", "required": ["b"], "properties": {
            "b": {"$ref": "#/$defs/B", "description": "Here."}, "c": {"$ref": "#/$defs/B"},
        }},
        "B": {"type": "object", "properties": {}, "description": "There."},
    }});
    let described = |mut schema: Value, text: &str| {
        schema["description"] = text.into();
        schema
    };
    let (b, none) = (object(json!({}), &[]), json!({"type": "null"}));
    let properties = json!({
        "b": described(b.clone(), "Here."), "c": described(json!({"anyOf": [b, none]}), "There."),
    });
    assert_eq!(strict_parameters(&schema), Some(object(properties, &["b", "c"])));
}

#[test]
fn constraints_are_described_in_words() {
    let schema =
        json!({"type": "integer", "minimum": 1, "format": "uint8", "description": "How many."});
    let description = "How many. (format: \"uint8\", minimum: 1)";
    assert_eq!(
        property(schema),
        Some(json!({"type": ["integer", "null"], "description": description}))
    );
    let description = "(maxItems: 3)";
    let list = json!({"type": "array", "items": {"type": "string"}});
    let expected = json!({"anyOf": [list, {"type": "null"}], "description": description});
    let schema = json!({"type": "array", "items": {"type": "string"}, "maxItems": 3});
    assert_eq!(property(schema), Some(expected));
}

#[test]
fn what_is_not_certain_has_no_strict_form() {
    let open = json!({"type": "object", "properties": {}});
    let of = |kind: &str, values: Value| json!({"type": kind, "enum": values});
    for schema in [
        json!({}),
        json!(true),
        json!({"description": "Anything."}),
        json!({"type": "object"}),
        json!({"type": "object", "additionalProperties": {"type": "string"}}),
        json!({"type": "object", "properties": {}, "additionalProperties": true}),
        json!({"type": "object", "properties": {}, "patternProperties": {}}),
        json!({"type": "object", "properties": {}, "required": ["a"]}),
        json!({"type": "object", "properties": {"$a": {"type": "string"}}}),
        json!({"type": "object", "properties": {"": {"type": "string"}}}),
        json!({"type": "object", "properties": []}),
        json!({"type": "string", "default": "a"}),
        json!({"type": "string", "nullable": true}),
        json!({"type": "string", "description": 1}),
        json!({"type": "string", "properties": {}}),
        json!({"type": "text"}),
        json!({"type": ["string", "integer"]}),
        json!({"type": ["null", "null"]}),
        json!({"type": []}),
        json!({"type": "array"}),
        json!({"type": "array", "items": true}),
        json!({"type": "array", "items": [{"type": "string"}]}),
        json!({"type": "array", "items": {"type": "string"}, "prefixItems": []}),
        json!({"enum": ["a"]}),
        of("string", json!([])),
        of("string", json!(["a", "a"])),
        of("string", json!(["a", 1])),
        of("string", json!(["a", null])),
        of("string", json!(["a\n"])),
        of("integer", json!([1.5])),
        json!({"type": ["string", "null"], "enum": ["a"]}),
        json!({"type": ["string", "null"], "enum": [null]}),
        json!({"type": ["string", "null"], "enum": ["a", null, null]}),
        json!({"type": "string", "enum": ["a"], "const": "a"}),
        json!({"anyOf": []}),
        json!({"anyOf": [open, open]}),
        json!({"anyOf": [{"type": "string"}], "type": "string"}),
        json!({"anyOf": [{"type": "string"}], "oneOf": [{"type": "string"}]}),
        json!({"allOf": [open]}),
        json!({"type": "string", "not": {"const": "a"}}),
        json!({"$ref": "#"}),
        json!({"$ref": "#/properties/p"}),
        json!({"$ref": "#/nowhere"}),
        json!({"$ref": "https://elsewhere"}),
        json!({"$ref": 1}),
    ] {
        assert_eq!(property(schema.clone()), None, "{schema}");
    }
    let nullable = json!({"type": ["object", "null"], "properties": {}});
    for root in [json!({}), json!({"type": "string"}), json!({"anyOf": [open]}), nullable] {
        assert_eq!(strict_parameters(&root), None, "{root}");
    }
}

#[test]
fn what_is_too_large_has_no_strict_form() {
    let deep = |levels: usize| {
        (1..levels).fold(json!({"type": "object", "properties": {}}), |inner, _| {
            object(json!({"p": inner}), &[])
        })
    };
    let wide = |many: usize| {
        let all: Map<String, Value> =
            (0..many).map(|at| (format!("p{at}"), json!({"type": "string"}))).collect();
        object(all.into(), &[])
    };
    let values = |many: usize| {
        let values: Vec<String> = (0..many).map(|at| format!("v{at}")).collect();
        object(json!({"p": {"type": "string", "enum": values}}), &[])
    };
    let long =
        |bytes: usize| object(json!({"p": {"type": "string", "enum": ["x".repeat(bytes)]}}), &[]);
    for (fits, too_large) in [
        (deep(MAX_DEPTH), deep(MAX_DEPTH + 1)),
        (wide(MAX_SCHEMAS - 1), wide(MAX_SCHEMAS)),
        (values(MAX_ENUM_VALUES), values(MAX_ENUM_VALUES + 1)),
        (long(MAX_NAME_BYTES - 1), long(MAX_NAME_BYTES)),
    ] {
        assert!(strict_parameters(&fits).is_some());
        assert_eq!(strict_parameters(&too_large), None);
    }
}

#[test]
fn a_schema_that_contains_itself_often_is_soon_given_up() {
    let reference = json!({"$ref": "#/$defs/A"});
    let branches = vec![reference.clone(); 100];
    let all: Map<String, Value> =
        (0..100).map(|at| (format!("p{at}"), reference.clone())).collect();
    for a in [
        json!({"anyOf": branches}),
        object(all.into(), &[]),
        json!({"type": "array", "items": reference}),
    ] {
        let schema = json!({"type": "object", "properties": {"p": reference}, "$defs": {"A": a}});
        assert_eq!(strict_parameters(&schema), None);
    }
}
