//! Schemas of tools and answers that other authors have written, for all models.

use std::sync::Arc;

use loopwright_core::model::OutputSchema;
use loopwright_core::tool::{ToolList, ToolSpec};
use serde_json::{Value, json};

use super::models::{body, models};
use crate::kit::request;

/// Schemas for which a server refuses every request, unless they are written in another way.
fn odd() -> Vec<Value> {
    let (text, one) = (json!({ "type": "string" }), json!({ "type": "object", "required": ["a"] }));
    let a = json!({ "type": "object", "properties": { "a": text }, "required": ["a"] });
    let b = json!({ "type": "object", "properties": { "b": text }, "required": ["b"] });
    vec![
        json!({ "type": "object", "anyOf": [a, b] }),
        json!({ "oneOf": [a, b, { "type": "null" }] }),
        json!({ "allOf": [a, { "$ref": "#/$defs/B" }], "$defs": { "B": b } }),
        json!({ "$ref": "#/$defs/A", "$defs": { "A": a } }),
        json!({ "$ref": "#/definitions/A%3CB%3E", "definitions": { "A<B>": a } }),
        json!({ "type": "object", "properties": {}, "not": one, "enum": [{}, { "b": "" }] }),
        json!({ "type": "object", "properties": [], "required": null }),
        json!({ "type": "object", "properties": { "a": { "enum": null } }, "anyOf": null }),
        json!({ "$schema": "http://json-schema.org/draft-04/schema#", "type": "object",
            "properties": {
                "n": { "type": "integer", "minimum": 0, "exclusiveMinimum": true },
                "pair": { "type": "array", "items": [text, text], "additionalItems": false },
            } }),
        json!({}),
    ]
}

/// C449: A tool with branches at the root of its schema is offered as an object.
#[test]
fn tools_of_other_authors_are_offered_to_every_model() {
    for model in models() {
        for schema in odd() {
            let mut asking = request("Hi");
            let tool = ToolSpec::with_schema("f", "Does f.", schema);
            asking.tools = Arc::new(ToolList::new(vec![Arc::new(tool)]));
            body(&asking, model);
        }
    }
}

/// C450: An answer that is not an object is requested in one.
#[test]
fn answers_that_are_no_objects_are_asked_of_every_model() {
    let more = [
        json!({ "type": "array", "items": { "type": "string" } }),
        json!({ "type": ["string", "null"] }),
        json!({ "enum": ["a", "b"] }),
        json!(true),
    ];
    for model in models() {
        for schema in odd().into_iter().chain(more.clone()) {
            let mut asking = request("Hi");
            asking.output = Some(Arc::new(OutputSchema::new("Out", schema)));
            body(&asking, model);
        }
    }
}
