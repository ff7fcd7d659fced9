//! Tests of the encoder.

use std::sync::Arc;

use loopwright_core::message::{MessageId, ResultStatus, UserMessage};
use loopwright_core::model::OutputSchema;
use loopwright_core::tool::ToolSpec;

use super::*;
use crate::formats::gemini::Profile;

fn call(id: &str, signature: &str) -> ContentPart {
    let signature = Some(signature.into()).filter(|_| !signature.is_empty());
    ContentPart::ToolCall(ToolCall::new(id, "f", "{\"a\":1}").signature(signature))
}

fn text(text: &str, signature: &str) -> ContentPart {
    ContentPart::Text {
        text: text.into(),
        signature: Some(signature.into()).filter(|_| !signature.is_empty()),
    }
}

fn assistant(model: &str, parts: Vec<ContentPart>) -> MessageKind {
    AssistantMessage::new(parts).model(model).into()
}

fn result(id: &str, status: ResultStatus, content: Vec<Content>) -> MessageKind {
    MessageKind::ToolResult(ToolResult::new(id, "f", status, content))
}

fn user(text: &str) -> MessageKind {
    UserMessage::from(text).into()
}

fn request(bodies: Vec<MessageKind>) -> ChatRequest {
    let mut request = ChatRequest::default();
    let messages = (1..).zip(bodies).map(|(id, body)| Arc::new(Message::new(MessageId(id), body)));
    request.messages = Arc::new(messages.collect());
    request
}

fn settings(model: &str) -> Settings {
    Settings { profile: Profile::of_model(model), ..Settings::new(model) }
}

fn encoded(request: &ChatRequest, model: &str) -> Value {
    let bytes = encode(request, &settings(model));
    serde_json::from_slice(&bytes)
        .unwrap_or_else(|why| panic!("{why}: {}", String::from_utf8_lossy(&bytes)))
}

/// Returns the signatures of the model's parts, in order.
fn signatures(request: &ChatRequest, model: &str) -> Vec<Value> {
    let body = encoded(request, model);
    let contents =
        body["contents"].as_array().unwrap().iter().filter(|content| content["role"] == "model");
    contents
        .flat_map(|content| content["parts"].as_array().unwrap())
        .map(|p| p["thoughtSignature"].clone())
        .collect()
}

const OLD: &str = "gemini-2.5-flash";
const NEW: &str = "gemini-3-pro-preview";

#[test]
fn roles_alternate_and_calls_go_back_with_the_ids_that_were_given() {
    let image = Content::image("image/png", "AAAA");
    let request = request(vec![
        assistant("other", vec![text("hello", "")]),
        user("a"),
        UserMessage::new(vec![Content::text(" "), image.clone()]).into(),
        assistant(OLD, vec![text("\n", ""), call("x1", ""), call("gemini-call-r-0", "")]),
        result("x1", ResultStatus::Ok, vec![Content::text("1")]),
        result("gemini-call-r-0", ResultStatus::Denied, vec![]),
        user("go on"),
        assistant(OLD, vec![]),
        user("well?"),
    ]);
    let picture = json!({"inlineData": {"mimeType": "image/png", "data": "AAAA"}});
    let expected = json!([
        {"role": "user", "parts": [{"text": "(the conversation goes on)"}]},
        {"role": "model", "parts": [{"text": "hello"}]},
        {"role": "user", "parts": [{"text": "a"}, picture]},
        {"role": "model", "parts": [
            {"functionCall": {"name": "f", "id": "x1", "args": {"a": 1}}},
            {"functionCall": {"name": "f", "args": {"a": 1}}},
        ]},
        {"role": "user", "parts": [
            {"functionResponse": {"name": "f", "id": "x1", "response": {"output": "1"}}},
            {"functionResponse": {"name": "f", "response": {"error": "(no output)"}}},
            {"text": "go on"},
            {"text": "well?"},
        ]},
    ]);
    assert_eq!(encoded(&request, OLD)["contents"], expected);
}

#[test]
fn signatures_go_back_byte_for_byte_and_to_their_own_model_only() {
    let thought = ContentPart::Thinking { text: "hm".into(), signature: Some("s0".into()) };
    let parts = vec![
        thought,
        text("a", "s\"1"),
        text("b", ""),
        text("", "s2"),
        call("x", "s3"),
        call("y", ""),
    ];
    let results = ["x", "y"].map(|id| result(id, ResultStatus::Ok, vec![]));
    let request = request([vec![user("q"), assistant(NEW, parts)], results.into()].concat());
    let all = json!(["s0", "s\"1", null, "s2", "s3", null]);
    assert_eq!(json!(signatures(&request, NEW)), all);
    assert_eq!(encoded(&request, NEW)["contents"][1]["parts"][0]["thought"], true);
    assert_eq!(json!(signatures(&request, OLD)), json!([null, null, null, null]));
    assert_eq!(
        json!(signatures(&request, NEW)),
        all,
        "what is kept for one model does not go to the other"
    );
}

/// Row 30 of the quirks, and line 37 of the behaviours.
#[test]
fn an_unsigned_call_gets_the_placeholder_with_gemini_3_and_with_no_other() {
    let by = |model: &str| {
        let results = ["x", "y"].map(|id| result(id, ResultStatus::Ok, vec![]));
        request(
            [vec![user("q"), assistant(model, vec![call("x", ""), call("y", "")])], results.into()]
                .concat(),
        )
    };
    for model in [NEW, "gpt-5"] {
        assert_eq!(json!(signatures(&by(model), NEW)), json!([PLACEHOLDER, null]));
        assert_eq!(json!(signatures(&by(model), OLD)), json!([null, null]));
        assert_eq!(json!(signatures(&by(model), "gemma-3-27b-it")), json!([null, null]));
    }
    let signed = request(vec![
        user("q"),
        assistant("gemini-3-flash", vec![call("x", "s")]),
        result("x", ResultStatus::Ok, vec![]),
        assistant(NEW, vec![text("a", "s1"), call("y", "")]),
        result("y", ResultStatus::Ok, vec![]),
    ]);
    assert_eq!(json!(signatures(&signed, NEW)), json!([PLACEHOLDER, "s1", PLACEHOLDER]));
}

#[test]
fn images_of_a_result_are_where_the_model_takes_them() {
    let content = vec![Content::text("seen"), Content::image("image/png", "AAAA")];
    let request = request(vec![
        user("q"),
        assistant(OLD, vec![call("x", "")]),
        result("x", ResultStatus::Ok, content),
    ]);
    let picture = json!({"inlineData": {"mimeType": "image/png", "data": "AAAA"}});
    let answer = |more: Value| {
        let mut answer = json!({"name": "f", "id": "x", "response": {"output": "seen"}});
        answer.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"functionResponse": answer})
    };
    let parts = |model| encoded(&request, model)["contents"][2]["parts"].clone();
    assert_eq!(parts(OLD), json!([answer(json!({})), picture]));
    assert_eq!(parts(NEW), json!([answer(json!({"parts": [picture]}))]));
}

#[test]
fn what_is_asked_for_is_in_the_body() {
    let mut request = request(vec![user("hi")]);
    let body = encoded(&request, NEW);
    assert_eq!(body, json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}));
    let schema = json!({"type": "object", "properties": {}, "additionalProperties": false});
    request.tools = Arc::new(ToolList::new(vec![Arc::new(ToolSpec::with_schema(
        "f",
        "Does f.",
        schema.clone(),
    ))]));
    request.tool_choice = ToolChoice::Tool("f".into());
    request.output = Some(Arc::new(OutputSchema::new("Out", schema.clone())));
    (request.max_tokens, request.temperature) = (Some(9), Some(0.7));
    request.stop = vec!["END".into()];
    request.system = "Be brief.".into();
    let body = encoded(&request, NEW);
    let tool = json!({"name": "f", "description": "Does f.", "parametersJsonSchema": schema});
    assert_eq!(body["tools"], json!([{"functionDeclarations": [tool]}]));
    let mode = json!({"mode": "ANY", "allowedFunctionNames": ["f"]});
    assert_eq!(body["toolConfig"]["functionCallingConfig"], mode);
    assert_eq!(body["systemInstruction"], json!({"parts": [{"text": "Be brief."}]}));
    let config = json!({"maxOutputTokens": 9, "temperature": 0.7, "stopSequences": ["END"],
        "responseMimeType": "application/json",
        "responseJsonSchema": schema});
    assert_eq!(body["generationConfig"], config);
    let body = encoded(&request, OLD);
    assert!(
        body["systemInstruction"]["parts"][1]["text"]
            .as_str()
            .unwrap()
            .contains("additionalProperties")
    );
    assert!(
        body["generationConfig"].get("responseJsonSchema").is_none(),
        "2.5 refuses it beside tools"
    );
    request.tools = Arc::default();
    assert_eq!(encoded(&request, OLD)["generationConfig"]["responseJsonSchema"], schema);
}

#[test]
fn a_level_of_thinking_is_a_budget_or_a_level() {
    let thinking = |model: &str, level: ThinkingLevel, max_tokens: Option<u32>| {
        let mut request = request(vec![user("hi")]);
        (request.thinking, request.max_tokens) = (level, max_tokens);
        let config = encoded(&request, model)["generationConfig"]["thinkingConfig"].clone();
        let budget = config.get("thinkingBudget").or(config.get("thinkingLevel"));
        budget.cloned().unwrap_or_default()
    };
    use ThinkingLevel::{High, Low, Medium, Minimal, Off, XHigh};
    let levels = |model: &str| {
        [Off, Minimal, Low, Medium, High, XHigh].map(|level| thinking(model, level, None))
    };
    assert_eq!(json!(levels("gemini-2.5-pro")), json!([null, 128, 4096, 8192, 16384, 32768]));
    assert_eq!(json!(levels("gemini-2.5-flash-lite")), json!([0, 512, 4096, 8192, 16384, 24576]));
    assert_eq!(
        json!(levels("gemini-3-flash-preview")),
        json!([null, "minimal", "low", "medium", "high", "high"])
    );
    assert_eq!(json!(levels(NEW)), json!([null, "low", "low", "high", "high", "high"]));
    assert_eq!(json!(levels("gemini-2.0-flash")), json!([null, null, null, null, null, null]));
    assert_eq!(thinking("gemini-2.5-pro", High, Some(1000)), 750, "a quarter is for the reply");
    assert_eq!(thinking("gemini-2.5-pro", High, Some(10)), 128);
    assert_eq!(thinking("gemini-2.5-flash", High, Some(10)), 0);
}

#[test]
fn options_go_before_what_the_request_says() {
    let mut request = request(vec![user("hi")]);
    (request.thinking, request.temperature) = (ThinkingLevel::High, Some(0.5));
    let mut settings = settings(OLD);
    let own = json!({"thinkingConfig": {"thinkingBudget": 7}, "topP": 0.9});
    settings.options.insert("generationConfig".into(), own);
    settings.options.insert("safetySettings".into(), json!([]));
    let body: Value = serde_json::from_slice(&encode(&request, &settings)).unwrap();
    let config = json!({"temperature": 0.5, "topP": 0.9,
        "thinkingConfig": {"thinkingBudget": 7, "includeThoughts": true}});
    assert_eq!((&body["generationConfig"], &body["safetySettings"]), (&config, &json!([])));
}

#[test]
fn a_message_is_encoded_once() {
    let request = request(vec![
        user("hi"),
        assistant(NEW, vec![call("x", "s")]),
        result("x", ResultStatus::Ok, vec![]),
    ]);
    let first = encode(&request, &settings(NEW));
    for (message, codec) in
        request.messages.iter().zip([CODEC, "gemini, signed", "gemini, images inside"])
    {
        let cached = message.encode_once(codec, || unreachable!());
        assert!(first.windows(cached.len()).any(|part| *part == *cached));
    }
}
