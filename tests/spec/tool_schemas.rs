//! The schemas of the coding tools, checked against the rules of the four wire formats.

use std::path::Path;
use std::sync::Arc;

use loopwright_core::model::ChatRequest;
use loopwright_core::tool::{ToolList, ToolSpec};
use loopwright_providers::anthropic::Messages;
use loopwright_providers::gemini::GenerateContent;
use loopwright_providers::openai_chat::{ChatCompletions, Profile};
use loopwright_providers::openai_responses::Responses;
use loopwright_providers::{Settings, WireFormat};
use loopwright_tools::{Workspace, coding_tools};
use serde_json::{Map, Value, json};

/// Returns the tools as they are offered to a model.
fn specs() -> Vec<Arc<ToolSpec>> {
    let workspace = Workspace::open(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
    coding_tools(workspace).tools().map(|tool| tool.spec().clone()).collect()
}

/// Returns the tools in the body of a request.
fn sent<F: WireFormat>(pointer: &str) -> Vec<Value> {
    sent_by::<F>(pointer, &Settings::new("m"))
}

fn sent_by<F: WireFormat>(pointer: &str, settings: &Settings<F::Profile>) -> Vec<Value> {
    let mut request = ChatRequest::default();
    request.tools = Arc::new(ToolList::new(specs()));
    let body: Value = serde_json::from_slice(&F::encode(&request, settings)).unwrap();
    body.pointer(pointer).and_then(Value::as_array).unwrap_or_else(|| panic!("{body}")).clone()
}

/// Checks that the schema is a closed object. Returns its properties and the required ones.
fn object(schema: &Value) -> (&Map<String, Value>, Vec<&str>) {
    assert_eq!(
        (&schema["type"], &schema["additionalProperties"]),
        (&json!("object"), &json!(false)),
        "{schema}"
    );
    let known = ["type", "properties", "required", "additionalProperties"];
    assert!(
        schema.as_object().unwrap().keys().all(|word| known.contains(&word.as_str())),
        "{schema}"
    );
    let required =
        schema["required"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    (schema["properties"].as_object().unwrap(), required)
}

/// Checks a name by the strictest of the four rules: a letter or `_` first, at most 64 characters.
fn name(name: &Value) {
    let name = name.as_str().unwrap();
    let first = name.chars().next().unwrap();
    assert!(first.is_ascii_alphabetic() || first == '_', "{name}");
    assert!(
        name.len() <= 64 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'),
        "{name}"
    );
}

/// Checks OpenAI's strict mode: each argument is required, and arguments that the tool's own schema
/// does not require are nullable.
fn openai(tool: &Value) {
    assert_eq!(tool["strict"], true, "{tool}");
    let (properties, required) = object(&tool["parameters"]);
    assert_eq!(properties.keys().collect::<Vec<_>>(), required, "not each once: {tool}");
    let specs = specs();
    let spec = specs.iter().find(|spec| tool["name"] == *spec.name).unwrap();
    let (own, must) = object(&spec.schema);
    assert!(properties.keys().eq(own.keys()), "{tool}");
    for (name, property) in properties {
        let nullable =
            property["type"].as_array().is_some_and(|types| types.contains(&json!("null")));
        assert_eq!(
            nullable,
            !must.contains(&name.as_str()),
            "`{name}` is either required or nullable: {tool}"
        );
    }
    plain(properties);
}

/// Checks that an argument has only a type and a description. Every format accepts these, and
/// Anthropic and Gemini accept little more.
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
        assert!(
            types.iter().all(|one| known.contains(&one.as_str().unwrap())),
            "{name}: {property}"
        );
        assert!(
            types.iter().filter(|one| **one != "null").count() == 1,
            "one type besides null: {property}"
        );
        assert!(property["description"].as_str().unwrap().len() > 10, "{name}: {property}");
    }
}

#[test]
fn openai_chat_completions_takes_them_strictly() {
    let mut settings = Settings::new("m");
    settings.profile = Profile::of_host("api.openai.com");
    let tools = sent_by::<ChatCompletions>("/tools", &settings);
    assert_eq!(tools.len(), specs().len());
    for tool in &tools {
        name(&tool["function"]["name"]);
        openai(&tool["function"]);
        assert!(tool["function"]["description"].as_str().unwrap().len() <= 1_024, "{tool}");
    }
}

/// Servers without a known strict mode get each schema unchanged.
#[test]
fn compatible_servers_take_them() {
    for (tool, spec) in sent::<ChatCompletions>("/tools").iter().zip(specs()) {
        assert_eq!(tool["function"]["parameters"], spec.schema);
        assert_eq!(tool["function"].get("strict"), None, "{tool}");
    }
}

#[test]
fn openai_responses_takes_them_strictly() {
    let tools = sent::<Responses>("/tools");
    assert_eq!(tools.len(), specs().len());
    for tool in &tools {
        name(&tool["name"]);
        openai(tool);
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

/// A model may pass null for an argument that it may omit. Schema and tool accept both.
#[test]
fn null_is_equal_to_omitting_an_argument() {
    let toolbox = coding_tools(Workspace::open(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for tool in
        toolbox.tools().filter(|tool| tool.spec().effect == loopwright_core::tool::Effect::ReadOnly)
    {
        let (properties, required) = object(&tool.spec().schema);
        let value = |name: &str| {
            if name == "pattern" { json!("loopwright") } else { json!("Cargo.toml") }
        };
        let given: Map<String, Value> =
            required.iter().map(|name| (name.to_string(), value(name))).collect();
        let mut all = given.clone();
        all.extend(
            properties
                .keys()
                .filter(|name| !given.contains_key(*name))
                .map(|name| (name.clone(), Value::Null)),
        );
        let call = |arguments| {
            runtime.block_on(
                tool.call(&Value::Object(arguments), loopwright_core::ToolContext::detached()),
            )
        };
        assert_eq!(call(all), call(given), "{}", tool.spec().name);
    }
}
