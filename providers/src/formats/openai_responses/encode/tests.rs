//! Tests of the encoder.

use std::sync::Arc;

use loopwright_core::message::{MessageId, ResultStatus, StopReason, UserMessage};
use loopwright_core::model::{OutputSchema, ThinkingLevel};
use loopwright_core::tool::ToolSpec;

use super::*;
use crate::formats::openai_responses::Profile;

const SEALED: &str =
    r#"{"id":"rs_1",  "type":"reasoning","summary":[],"encrypted_content":"e\u0041"}"#;

fn call(id: &str, arguments: &str) -> ContentPart {
    ContentPart::ToolCall(ToolCall::new(id, "f", arguments))
}

fn thought(signature: &str) -> ContentPart {
    ContentPart::Thinking {
        text: "hm".into(),
        signature: Some(signature.into()).filter(|_| !signature.is_empty()),
    }
}

fn text(text: &str, signature: Option<&str>) -> ContentPart {
    ContentPart::Text { text: text.into(), signature: signature.map(Into::into) }
}

fn assistant(model: &str, parts: Vec<ContentPart>) -> MessageKind {
    AssistantMessage::new(parts).model(model).into()
}

fn result(id: &str, content: Vec<Content>) -> MessageKind {
    MessageKind::ToolResult(ToolResult::new(id, "f", ResultStatus::Ok, content))
}

fn request(bodies: Vec<MessageKind>) -> ChatRequest {
    let mut request = ChatRequest::default();
    let messages = (1..).zip(bodies).map(|(id, body)| Arc::new(Message::new(MessageId(id), body)));
    request.messages = Arc::new(messages.collect());
    request
}

fn encoded_with(request: &ChatRequest, settings: &Settings) -> Value {
    let bytes = encode(request, settings);
    serde_json::from_slice(&bytes)
        .unwrap_or_else(|why| panic!("{why}: {}", String::from_utf8_lossy(&bytes)))
}

fn encoded(request: &ChatRequest) -> Value {
    encoded_with(request, &Settings::new("m"))
}

/// Returns the kinds of the items that encode a message of this model.
fn kinds(parts: Vec<ContentPart>) -> Vec<String> {
    let body = encoded(&request(vec![assistant("m", parts)]));
    let items = body["input"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|item| item["type"] != "function_call_output");
    items.map(|item| item["type"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_conversation_is_a_list_of_items() {
    let image = Content::image("image/png", "AAAA");
    let request = request(vec![
        UserMessage::new(vec![Content::text(""), Content::text("look"), image.clone()]).into(),
        assistant(
            "m",
            vec![text("ok", None), call("c|1", "{\"a\":1}"), call("c2", "{\"a\":"), call("c3", "")],
        ),
        result("c|1", vec![Content::text("see"), image]),
        result("c2", vec![]),
        result("c3", vec![Content::text("a"), Content::text("b")]),
        AssistantMessage::new(vec![text("no", None)]).stop(StopReason::Error).into(),
        assistant("m", vec![text(" ", None)]),
    ]);
    let url = json!({"type": "input_image", "image_url": "data:image/png;base64,AAAA",
        "detail": "auto"});
    let id = CallIds::UpTo64.fit("c|1");
    let call = |id: &str, arguments| {
        json!({"type": "function_call", "call_id": id, "name": "f",
        "arguments": arguments})
    };
    let output = |id: &str, output: Value| {
        json!({"type": "function_call_output", "call_id": id,
        "output": output})
    };
    let expected = json!([
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "look"},
        url]},
        {"type": "message", "role": "assistant", "content": "ok"},
        call(&id, "{\"a\":1}"),
        call("c2", "{}"),
        call("c3", "{}"),
        output(&id, json!([{"type": "input_text", "text": "see"}, url])),
        output("c2", json!("(no output)")),
        output("c3", json!("ab")),
    ]);
    assert_eq!(encoded(&request)["input"], expected);
}

#[test]
fn quirk_33_a_thought_goes_back_with_what_followed_it_or_not_at_all() {
    assert_eq!(
        kinds(vec![thought(""), thought(SEALED), call("c", "{}")]),
        ["reasoning", "function_call"]
    );
    assert_eq!(kinds(vec![thought(SEALED), text("a", None)]), ["reasoning", "message"]);
    assert_eq!(kinds(vec![call("c", "{}"), thought(SEALED)]), ["function_call"]);
    assert_eq!(kinds(vec![thought(SEALED), text("\n", None), call("c", "{}")]), ["function_call"]);
    for foreign in ["", "EqoBCkYIBxgC", "{\"type\":\"message\"}", "{\"type\":\"reasoning\""] {
        assert_eq!(kinds(vec![thought(foreign), call("c", "{}")]), ["function_call"], "{foreign}");
    }
}

#[test]
fn what_was_signed_goes_back_byte_for_byte_to_the_model_that_signed_it() {
    let parts = || vec![thought(SEALED), text("a", Some("phase:commentary")), call("c", "{}")];
    let request = request(vec![
        assistant("m", parts()),
        result("c", vec![]),
        assistant("other", parts()),
        result("c", vec![]),
    ]);
    let body = encode(&request, &Settings::new("m"));
    let body = String::from_utf8(body).unwrap();
    assert_eq!(body.matches(SEALED).count(), 1, "{body}");
    let input = &encoded(&request)["input"];
    assert_eq!((&input[1]["phase"], &input[4]["phase"]), (&json!("commentary"), &Value::Null));
    assert_eq!(input.as_array().unwrap().len(), 7);
    assert_eq!(encoded_with(&request, &Settings::new("n"))["input"].as_array().unwrap().len(), 6);
}

#[test]
fn what_is_asked_for_is_in_the_body() {
    let mut request = request(vec![UserMessage::from("hi").into()]);
    let tool = ToolSpec::with_schema("f", "Does f.", json!({"type": "object", "properties": {}}));
    request.tools = Arc::new(ToolList::new(vec![Arc::new(tool)]));
    request.tool_choice = ToolChoice::Tool("f".into());
    request.output = Some(Arc::new(OutputSchema::new("Out", json!({"type": "object"}))));
    request.max_tokens = Some(99);
    request.thinking = ThinkingLevel::XHigh;
    request.session = "s1".into();
    request.system = "Be brief.".into();
    let mut body =
        encoded_with(&request, &Settings { profile: Profile::of("", "o3"), ..Settings::new("o3") });
    body["input"].take();
    let expected = json!({
        "model": "o3",
        "instructions": "Be brief.",
        "input": null,
        "tools": [
            {
                "type": "function", "name": "f", "description": "Does f.", "strict": true,
                "parameters": {"type": "object", "properties": {}, "required": [],
                "additionalProperties": false},
            },
        ],
        "tool_choice": {"type": "function", "name": "f"},
        "reasoning": {"effort": "high", "summary": "auto"},
        "include": ["reasoning.encrypted_content"],
        "text": {"format": {"type": "json_schema", "name": "Out", "strict": false,
            "schema": {"type": "object"}}},
        "max_output_tokens": 99,
        "prompt_cache_key": "s1",
        "store": false,
        "stream": true,
    });
    assert_eq!(body, expected);
}

#[test]
fn a_tool_is_strict_where_it_can_be() {
    let mut request = request(vec![UserMessage::from("hi").into()]);
    let closed = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let open =
        json!({"type": "object", "properties": {}, "additionalProperties": {"type": "string"}});
    let tool = |name, schema: &Value| Arc::new(ToolSpec::with_schema(name, "", schema.clone()));
    request.tools = Arc::new(ToolList::new(vec![tool("closed", &closed), tool("open", &open)]));
    let tools = &encoded(&request)["tools"];
    assert_eq!([&tools[0]["strict"], &tools[1]["strict"]], [true, false]);
    assert_eq!(
        (&tools[0]["parameters"]["required"], &tools[1]["parameters"]),
        (&json!(["a"]), &open)
    );
}

#[test]
fn a_model_is_not_asked_what_it_refuses() {
    let mut request = request(vec![UserMessage::from("hi").into()]);
    request.temperature = Some(0.7);
    let asked = |request: &ChatRequest, model: &str| {
        let body = encoded_with(
            request,
            &Settings { profile: Profile::of("", model), ..Settings::new(model) },
        );
        ["temperature", "reasoning", "include"].map(|name| body.get(name).is_some())
    };
    assert_eq!(asked(&request, "gpt-4o"), [true, false, false]);
    assert_eq!(asked(&request, "o3"), [false, false, true]);
    assert_eq!(asked(&request, "gpt-5.4"), [true, false, true]);
    assert_eq!(asked(&request, "gpt-5.6"), [true, true, true], "the effort disables it");
    assert_eq!(asked(&request, "gpt-6-astra"), [false, false, true]);
    request.thinking = ThinkingLevel::Low;
    assert_eq!(asked(&request, "gpt-4o"), [true, false, false]);
    assert_eq!(asked(&request, "o3"), [false, true, true]);
    assert_eq!(asked(&request, "gpt-5.6"), [false, true, true]);
}

#[test]
fn the_users_own_options_go_before_ours() {
    let mut request = request(vec![UserMessage::from("hi").into()]);
    request.max_tokens = Some(9);
    let mut settings = Settings::new("m");
    for (name, value) in
        [("store", json!(true)), ("max_output_tokens", json!(7)), ("tools", json!([{"type": "s"}]))]
    {
        settings.options.insert(name.into(), value);
    }
    let raw = String::from_utf8(encode(&request, &settings)).unwrap();
    assert!(raw.contains("\"store\":true") && !raw.contains("\"store\":false"), "{raw}");
    assert!(
        raw.contains("\"max_output_tokens\":7") && !raw.contains("\"max_output_tokens\":9"),
        "{raw}"
    );
    assert!(raw.contains("\"tools\":[{\"type\":\"s\"}]"), "{raw}");
    let tool = ToolSpec::with_schema("f", "Does f.", json!({"type": "object"}));
    request.tools = Arc::new(ToolList::new(vec![Arc::new(tool)]));
    let body = encoded_with(&request, &settings);
    assert_eq!(
        (&body["tools"][0]["name"], &body["tools"][1]),
        (&json!("f"), &json!({"type": "s"}))
    );
}

#[test]
fn a_message_is_encoded_once() {
    let request = request(vec![
        UserMessage::from("hi").into(),
        assistant("m", vec![thought(SEALED), call("c", "{}")]),
    ]);
    let first = encode(&request, &Settings::new("m"));
    for (message, codec) in request.messages.iter().zip([CODEC, OWN]) {
        let cached = message.encode_once(codec, || unreachable!());
        assert!(first.windows(cached.len()).any(|part| part == &*cached));
    }
}
