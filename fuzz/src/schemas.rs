//! Foreign JSON Schemas with values for them. Compiling and validating must take bounded time and
//! stack.

use std::sync::Arc;
use std::thread;

use loopwright_core::model::ChatRequest;
use loopwright_core::tool::{AskUser, Question, ToolList, ToolSpec};
use loopwright_core::{Tool, ToolContext, ToolError};
use loopwright_providers::openai_chat::ChatCompletions;
use loopwright_providers::{Settings, WireFormat as _};
use serde_json::{Map, Value, json};

use crate::worker::on_worker;

/// The stack size of a tokio thread.
const STACK_BYTES: usize = 2 << 20;
/// The maximum number of parts of a generated schema.
const MAX_PARTS: usize = 20_000;

/// Compiles a schema made from these bytes and validates a value. Panics, or ends the process, if
/// that is not bounded.
pub fn check_schemas(bytes: &[u8]) {
    let mut maker = Maker { bytes, at: 0, parts: 0 };
    let schema = maker.root();
    let value = maker.value(0);
    check_schema(schema, value);
}

/// Compiles this text as a schema. Panics, or ends the process, if that is not bounded.
pub(crate) fn check_schema_text(text: &str) {
    let Ok(schema) = serde_json::from_str::<Value>(text) else { return };
    check_schema(schema.clone(), schema);
}

fn check_schema(schema: Value, value: Value) {
    let checking = thread::Builder::new().stack_size(STACK_BYTES).spawn(move || {
        let question = on_worker("a schema that it compiles", || question(&schema));
        let Some(question) = question else { return };
        let checked = on_worker("a value that it validates", || question.check(value));
        if let Ok(valid) = checked {
            let again = on_worker("a valid value", || question.check(valid.clone()));
            assert_eq!(again.ok(), Some(valid), "a valid value was converted");
        }
        on_worker("parameters that it encodes", || check_parameters(&schema));
    });
    checking.expect("a thread").join().expect("no panic");
}

/// Panics if servers would refuse a tool with this schema.
fn check_parameters(schema: &Value) {
    let mut request = ChatRequest::default();
    request.tools =
        Arc::new(ToolList::new(vec![Arc::new(ToolSpec::with_schema("a", "", schema.clone()))]));
    let body = ChatCompletions::encode(&request, &Settings::new("a"));
    let body: Value = serde_json::from_slice(&body).expect("JSON");
    let parameters = &body["tools"][0]["function"]["parameters"];
    assert!(parameters["type"] == "object" && parameters["properties"].is_object());
    for word in ["$ref", "allOf", "anyOf", "enum", "not", "oneOf"] {
        assert!(parameters.get(word).is_none(), "{word} at the root");
    }
}

/// Returns the question that a model asks with this schema.
fn question(schema: &Value) -> Option<Question> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let arguments = json!({ "question": "?", "schema": schema });
    match runtime.block_on(AskUser::new().call(&arguments, ToolContext::detached())) {
        Err(ToolError::Suspend(request)) => serde_json::from_value(request.data).ok(),
        _ => None,
    }
}

/// A generator of schemas and values from bytes. It moves values, which `json!` would copy on each
/// level.
struct Maker<'b> {
    bytes: &'b [u8],
    at: usize,
    parts: usize,
}

impl Maker<'_> {
    fn byte(&mut self) -> u8 {
        let byte = self.bytes.get(self.at).copied().unwrap_or_default();
        self.at += 1;
        byte
    }

    fn root(&mut self) -> Value {
        let count = match self.byte() {
            many @ 250.. => 1 << (many - 243),
            some => usize::from(some % 8),
        };
        let mut definitions = Map::new();
        let from = self.at;
        for at in 0..count {
            if count > 8 {
                self.at = from; // a long chain of equal definitions
            }
            let definition = self.schema(0, at + 1, count);
            definitions.insert(format!("d{at}"), definition);
        }
        let mut root = self.schema(0, 0, count);
        if let Value::Object(root) = &mut root {
            if self.byte() % 8 == 0 {
                let draft = "http://json-schema.org/draft-07/schema#";
                root.insert("$schema".into(), draft.into());
            }
            root.insert("$defs".into(), definitions.into());
        }
        root
    }

    /// Returns a schema. `next` is the next definition of `count`.
    fn schema(&mut self, depth: usize, next: usize, count: usize) -> Value {
        self.parts += 1;
        let mut rules = Map::new();
        let keywords = if depth > 60 || self.parts > MAX_PARTS { 0 } else { self.byte() % 4 };
        for _ in 0..keywords {
            let keyword = usize::from(self.byte());
            let one = |maker: &mut Self| maker.schema(depth + 1, next, count);
            let (keyword, value) = match keyword % 24 {
                0 => ("not", one(self)),
                1 => ("allOf", Value::from(vec![one(self), one(self)])),
                2 => ("anyOf", Value::from(vec![one(self), one(self)])),
                3 => ("oneOf", Value::from(vec![one(self), one(self)])),
                4 => ("if", one(self)),
                5 => ("properties", Value::from_iter([("a", one(self)), ("b", one(self))])),
                6 => ("additionalProperties", one(self)),
                7 => ("patternProperties", Value::from_iter([(pattern(self.byte()), one(self))])),
                8 => ("items", one(self)),
                9 => ("prefixItems", Value::from(vec![one(self), one(self)])),
                10 => ("contains", one(self)),
                11 => ("unevaluatedProperties", one(self)),
                12 => ("unevaluatedItems", one(self)),
                13 => ("dependentSchemas", Value::from_iter([("a", one(self))])),
                14 => ("propertyNames", one(self)),
                15 => ("pattern", pattern(self.byte()).into()),
                16 => (
                    "type",
                    ["object", "array", "string", "integer", "boolean"]
                        [usize::from(self.byte() % 5)]
                    .into(),
                ),
                17 => ("uniqueItems", true.into()),
                18 => ("enum", Value::from(vec![self.value(3), self.value(3)])),
                19 => ("format", ["regex", "uri", "email"][usize::from(self.byte() % 3)].into()),
                20 => ("$ref", "#".into()),
                21 => ("$ref", format!("#/$defs/d{next}").into()),
                22 => ("$dynamicRef", "#a".into()),
                _ => ("$dynamicAnchor", "a".into()),
            };
            rules.insert(keyword.into(), value);
        }
        if self.byte() % 4 == 0 && count > 0 {
            let target = if self.byte() % 2 == 0 { next } else { usize::from(self.byte()) % count };
            rules.insert("$ref".into(), format!("#/$defs/d{}", target.min(count - 1)).into());
        }
        match self.byte() {
            0 => false.into(),
            _ => rules.into(),
        }
    }

    fn value(&mut self, depth: usize) -> Value {
        self.parts += 1;
        if depth > 120 || self.parts > MAX_PARTS {
            return Value::Null;
        }
        match self.byte() % 10 {
            8 => json!(f64::from(self.byte())),
            9 => ["1", "true", "[1]", "{\"a\":\"1\"}"][usize::from(self.byte() % 4)].into(),
            0..=2 => Value::from_iter([("a", self.value(depth + 1))]),
            3 => Value::from_iter([("a", self.value(depth + 1)), ("b", self.value(depth + 1))]),
            4 => Value::from(vec![self.value(depth + 1), self.value(depth + 1)]),
            5 => Value::from(vec![self.value(depth + 1); 1 << (self.byte() % 10)]),
            6 => ["a", "b!", "é", "x@y.z"][usize::from(self.byte() % 4)]
                .repeat(1 << (self.byte() % 16))
                .into(),
            _ => self.byte().into(),
        }
    }
}

fn pattern(byte: u8) -> String {
    let patterns = [
        "^a",
        "(a+)+$",
        "^(?=(a+)+$)b",
        r"(\w{60}){3}",
        r"^(?!a)\w{140}$",
        r"\p{L}{200}",
        "((a{9}){9}){9}",
        r"(a)\1*",
    ];
    let at = usize::from(byte);
    format!("{}{}", patterns[at % patterns.len()], "a?".repeat(at / 64))
}
