//! Branches and references at the root of a schema.

use super::*;

fn object(name: &str, schema: Value) -> Value {
    json!({"type": "object", "properties": {name: schema}, "required": [name]})
}

/// Returns the parameters without their description.
fn bare(schema: &Value) -> Value {
    let mut parameters = parameters(schema);
    parameters.as_object_mut().unwrap().remove("description");
    parameters
}

#[test]
fn an_object_with_properties_is_left_alone() {
    let whole = json!({"type": "object", "properties": {"a": {"anyOf": [{}, {"$ref": "#"}]}},
        "if": {"required": ["a"]}, "then": {"required": ["b"]}});
    assert_eq!(parameters(&whole), whole);
    let none = json!({"type": "object", "properties": {}});
    for schema in
        [json!({"type": "object"}), json!(true), json!({"anyOf": null}), json!({"properties": []})]
    {
        assert_eq!(parameters(&schema), none, "{schema}");
    }
}

#[test]
fn what_is_required_is_a_property() {
    let schema = json!({"properties": {"a": true}, "required": ["a", "b"]});
    assert_eq!(
        parameters(&schema),
        json!({"type": "object", "properties": {"a": true, "b": {}}, "required": ["a", "b"]})
    );
    let none = json!({"required": ["b"]});
    assert_eq!(parameters(&none)["properties"], json!({"b": {}}));
}

/// C449: Branches at the root become properties, and only what all of them require is required.
#[test]
fn branches_at_the_root_are_joined() {
    let (text, number) = (json!({"type": "string"}), json!({"type": "number"}));
    let either = json!({"type": "object", "required": ["to"], "properties": {"to": text},
        "anyOf": [object("content", text.clone()), object("url", text.clone())]});
    assert_eq!(
        bare(&either),
        json!({"type": "object", "required": ["to"],
            "properties": {"to": text, "content": text, "url": text}})
    );
    let told = parameters(&either)["description"].to_string();
    assert!(told.contains("must also fit") && told.contains("url"), "{told}");

    let kinds = json!({"oneOf": [
        {"type": "object", "required": ["kind", "n"],
            "properties": {"kind": {"const": "count"}, "n": number}},
        {"type": "object", "required": ["kind"], "properties": {"kind": {"const": "all"}}},
        {"type": "object", "required": ["kind"], "properties": {"kind": {"const": "none"}}},
        {"type": "null"},
    ]});
    assert_eq!(
        bare(&kinds),
        json!({"type": "object", "required": ["kind"], "properties": {"n": number,
            "kind": {"anyOf": [{"const": "count"}, {"const": "all"}, {"const": "none"}]}}})
    );
}

#[test]
fn of_long_branches_what_they_require_is_told() {
    let branch = |name| object(name, json!({"description": "x".repeat(2_000)}));
    let told = parameters(&json!({"anyOf": [branch("a"), branch("b")]}));
    let told = told["description"].as_str().unwrap();
    assert!(told.ends_with(r#"{"anyOf":[{"required":["a"]},{"required":["b"]}]}"#), "{told}");
}

#[test]
fn what_all_parts_say_counts() {
    let text = json!({"type": "string"});
    let all = json!({"allOf": [object("a", text.clone()), {"$ref": "#/$defs/B"}],
        "$defs": {"B": object("b", text.clone())}, "additionalProperties": false});
    assert_eq!(
        parameters(&all),
        json!({"type": "object", "required": ["a", "b"], "properties": {"a": text, "b": text},
            "$defs": {"B": object("b", text.clone())}, "additionalProperties": false})
    );
    let both = json!({"properties": {"a": {"minLength": 1}}, "allOf": [object("a", text)]});
    let joined = json!({"allOf": [{"minLength": 1}, {"type": "string"}]});
    assert_eq!(parameters(&both)["properties"]["a"], joined);
}

#[test]
fn a_reference_at_the_root_is_followed() {
    let mut target = object("a", json!({"$ref": "#/$defs/B"}));
    target["description"] = "What it is.".into();
    target["patternProperties"] = json!({"^x-": {}});
    target["additionalProperties"] = false.into();
    let schema = json!({"$ref": "#/$defs/A%3CB%3E",
        "$defs": {"A<B>": target, "B": {"type": "string"}}});
    let mut wanted = target;
    wanted["$defs"] = schema["$defs"].clone();
    assert_eq!(parameters(&schema), wanted);
}

#[test]
fn what_is_required_has_a_property() {
    let schema = json!({"anyOf": [{"required": ["a", "b"]}, {"required": ["a"]}]});
    let wanted = json!({"type": "object", "required": ["a"], "properties": {"a": {}}});
    assert_eq!(bare(&schema), wanted);
}

#[test]
fn a_hostile_schema_is_read_only_so_far() {
    let next = |at: usize| json!({"$ref": format!("#/$defs/{}", at + 1)});
    let defs: Map<String, Value> = (0..1_000)
        .map(|at| (at.to_string(), json!({"anyOf": [next(at), next(at), {"$ref": "#"}]})))
        .collect();
    let schema = json!({"anyOf": [{"$ref": "#/$defs/0"}, {"$ref": "#"}], "$defs": defs});
    assert_eq!(bare(&schema)["properties"], json!({}));
    let itself = json!({"type": "object", "properties": {}, "required": []});
    assert_eq!(bare(&json!({"$ref": "#"})), itself);

    let long = object("p", json!({"description": "x".repeat(60_000)}));
    let parts: Vec<Value> = (0..100)
        .map(|at| json!({"allOf": [{"$ref": "#/$defs/A"}, object("p", json!({"minLength": at}))]}))
        .collect();
    let schema = json!({"anyOf": parts, "$defs": {"A": long}});
    assert!(parameters(&schema).to_string().len() < 1_000_000);
}
