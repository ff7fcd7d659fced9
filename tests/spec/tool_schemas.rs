//! The schemas of the coding tools by the rules of the four wire formats.

use std::path::Path;
use std::sync::Arc;

use loopwright::{ChatRequest, ToolList, ToolSpec};
use loopwright_providers::anthropic::Messages;
use loopwright_providers::gemini::GenerateContent;
use loopwright_providers::openai_chat::ChatCompletions;
use loopwright_providers::openai_responses::Responses;
use loopwright_providers::{Settings, WireFormat};
use loopwright_tools::{Workspace, coding_tools};
use serde_json::{Map, Value, json};

/// The tools, as a model is offered them.
fn specs() -> Vec<Arc<ToolSpec>> {
    let workspace = Workspace::open(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
    coding_tools(workspace).tools().map(|tool| tool.spec().clone()).collect()
}

/// The tools in the body of a request.
fn sent<F: WireFormat>(pointer: &str) -> Vec<Value> {
    let mut request = ChatRequest::default();
    request.tools = Arc::new(ToolList::new(specs()));
    let body: Value = serde_json::from_slice(&F::encode(&request, &Settings::new("m"))).unwrap();
    body.pointer(pointer).and_then(Value::as_array).unwrap_or_else(|| panic!("{body}")).clone()
}

/// An object with these arguments and no others. Gives what is known of each, and which are required.
fn object(schema: &Value) -> (&Map<String, Value>, Vec<&str>) {
    assert_eq!((&schema["type"], &schema["additionalProperties"]), (&json!("object"), &json!(false)), "{schema}");
    let known = ["type", "properties", "required", "additionalProperties"];
    assert!(schema.as_object().unwrap().keys().all(|word| known.contains(&word.as_str())), "{schema}");
    let required = schema["required"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    (schema["properties"].as_object().unwrap(), required)
}

/// The name, by the strictest of the four: a letter or `_` first, at most 64 characters.
fn name(name: &Value) {
    let name = name.as_str().unwrap();
    let first = name.chars().next().unwrap();
    assert!(first.is_ascii_alphabetic() || first == '_', "{name}");
    assert!(name.len() <= 64 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'), "{name}");
}

/// OpenAI: what may be left out may also be null. Its strict mode is not asked for, which wants each in `required`.
fn openai(schema: &Value) {
    let (properties, required) = object(schema);
    assert!(required.iter().all(|name| properties.contains_key(*name)), "{schema}");
    for (name, property) in properties {
        let nullable = property["type"].as_array().is_some_and(|types| types.contains(&json!("null")));
        assert!(required.contains(&name.as_str()) || nullable, "`{name}` is neither required nor nullable: {schema}");
    }
    plain(properties);
}

/// Of an argument only its type and what it is for: no format takes less, Anthropic and Gemini not much more.
fn plain(properties: &Map<String, Value>) {
    assert!(!properties.is_empty());
    for (name, property) in properties {
        let words: Vec<&String> = property.as_object().unwrap().keys().collect();
        assert_eq!(words, ["description", "type"], "{name}: {property}");
        let types = match &property["type"] {
            Value::Array(types) => types.clone(),
            one => vec![one.clone()],
        };
        let known = ["string", "integer", "number", "boolean", "null"];
        assert!(types.iter().all(|one| known.contains(&one.as_str().unwrap())), "{name}: {property}");
        assert!(types.iter().filter(|one| **one != "null").count() == 1, "one type besides null: {property}");
        assert!(property["description"].as_str().unwrap().len() > 10, "{name}: {property}");
    }
}

#[test]
fn openai_chat_completions_takes_them() {
    let tools = sent::<ChatCompletions>("/tools");
    assert_eq!(tools.len(), specs().len());
    for tool in &tools {
        name(&tool["function"]["name"]);
        openai(&tool["function"]["parameters"]);
        assert!(tool["function"]["description"].as_str().unwrap().len() <= 1_024, "{tool}");
    }
}

#[test]
fn openai_responses_takes_them() {
    for tool in &sent::<Responses>("/tools") {
        name(&tool["name"]);
        openai(&tool["parameters"]);
    }
}

#[test]
fn anthropic_messages_takes_them_strictly() {
    for tool in &sent::<Messages>("/tools") {
        name(&tool["name"]);
        plain(object(&tool["input_schema"]).0);
    }
}

#[test]
fn gemini_takes_them_strictly() {
    for tool in &sent::<GenerateContent>("/tools/0/functionDeclarations") {
        name(&tool["name"]);
        plain(object(&tool["parametersJsonSchema"]).0);
    }
}

/// A model may give null for what it would leave out: the schema and the tool take both.
#[test]
fn null_is_as_good_as_leaving_an_argument_out() {
    let toolbox = coding_tools(Workspace::open(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for tool in toolbox.tools().filter(|tool| tool.spec().effect == loopwright::Effect::ReadOnly) {
        let (properties, required) = object(&tool.spec().schema);
        let value = |name: &str| if name == "pattern" { json!("loopwright") } else { json!("Cargo.toml") };
        let given: Map<String, Value> = required.iter().map(|name| (name.to_string(), value(name))).collect();
        let mut all = given.clone();
        all.extend(properties.keys().filter(|name| !given.contains_key(*name)).map(|name| (name.clone(), Value::Null)));
        let call =
            |arguments| runtime.block_on(tool.call(&Value::Object(arguments), loopwright::ToolContext::detached()));
        assert_eq!(call(all), call(given), "{}", tool.spec().name);
    }
}
