//! Tests of the encoder.

use std::sync::Arc;

use loopwright_core::message::{ContentPart, MessageId, ResultStatus, StopReason, ToolCall};
use loopwright_core::model::OutputSchema;
use loopwright_core::tool::ToolSpec;

use super::*;

fn image() -> Content {
    Content::Image { media_type: "image/png".into(), data: "AAAA".into() }
}

fn call(id: &str, arguments: &str) -> ContentPart {
    ContentPart::ToolCall(ToolCall::new(id, "f", arguments))
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

fn encoded(request: &ChatRequest) -> Value {
    serde_json::from_slice(&encode(request, &Settings::new("m"))).unwrap()
}

#[test]
fn a_batch_keeps_its_results_together_and_its_images_follow() {
    let thinking = ContentPart::Thinking { text: "hm".into(), signature: None };
    let parts = vec![thinking, call("c1", "{\"a\":1}"), call("c2", "{\"a\":")];
    let request = request(vec![
        UserMessage::new(vec![Content::text(""), Content::text("look"), image()]).into(),
        AssistantMessage::new(parts).into(),
        result("c1", vec![image()]),
        result("c2", vec![]),
        AssistantMessage::default().stop(StopReason::Aborted).into(),
        UserMessage::from("go on").into(),
    ]);
    let url = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}});
    let function = |arguments| json!({"name": "f", "arguments": arguments});
    let expected = json!([
        {"role": "user", "content": [{"type": "text", "text": "look"}, url]},
        {"role": "assistant", "content": null, "tool_calls": [
            {"id": "c1", "type": "function", "function": function("{\"a\":1}")},
            {"id": "c2", "type": "function", "function": function("{}")},
        ]},
        {"role": "tool", "tool_call_id": "c1", "content": "(an image, see below)"},
        {"role": "tool", "tool_call_id": "c2", "content": "(no output)"},
        {"role": "user", "content": [{"type": "text", "text": "(images that the tools \
            returned)"}, url]},
        {"role": "user", "content": "go on"},
    ]);
    assert_eq!(encoded(&request)["messages"], expected);
}

#[test]
fn what_is_asked_for_is_in_the_body() {
    let mut request = request(vec![UserMessage::from("hi").into()]);
    let tool = ToolSpec::with_schema("f", "Does f.", json!({"type": "object", "properties": {}}));
    request.tools = Arc::new(ToolList::new(vec![Arc::new(tool)]));
    request.tool_choice = ToolChoice::Tool("f".into());
    request.output = Some(Arc::new(OutputSchema::new("Out", json!({"type": "object"}))));
    request.max_tokens = Some(9);
    request.temperature = Some(0.7);
    request.stop = vec!["END".into()];
    request.thinking = ThinkingLevel::XHigh;
    request.session = "s1".into();
    let body = encoded(&request);
    assert_eq!(
        body["tools"][0]["function"],
        json!({"name": "f", "description": "Does f.", "parameters": {"type": "object",
            "properties": {}}})
    );
    assert_eq!(body["tool_choice"]["function"]["name"], "f");
    assert_eq!(body["stop"], json!(["END"]));
    assert_eq!(body["response_format"]["json_schema"]["name"], "Out");
    assert_eq!((&body["max_tokens"], &body["reasoning_effort"]), (&json!(9), &json!("high")));
    let text = String::from_utf8(encode(&request, &Settings::new("m"))).unwrap();
    assert!(text.contains("\"temperature\":0.7,"), "{text}");
    assert_eq!(body["stream_options"]["include_usage"], true);
    assert!(body.get("prompt_cache_key").is_none());
    let settings = Settings { profile: Profile::of_host("api.openai.com"), ..Settings::new("m") };
    let body: Value = serde_json::from_slice(&encode(&request, &settings)).unwrap();
    assert_eq!(
        (&body["max_completion_tokens"], &body["prompt_cache_key"]),
        (&json!(9), &json!("s1"))
    );
}

#[test]
fn a_tool_is_strict_where_it_and_the_server_can_be() {
    let mut request = request(vec![UserMessage::from("hi").into()]);
    let closed = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let open =
        json!({"type": "object", "properties": {}, "additionalProperties": {"type": "string"}});
    let tool = |name, schema: &Value| Arc::new(ToolSpec::with_schema(name, "", schema.clone()));
    request.tools = Arc::new(ToolList::new(vec![tool("closed", &closed), tool("open", &open)]));
    let tools = |host| {
        // One codec does not use the cached bytes of another.
        let settings = Settings { profile: Profile::of_host(host), ..Settings::new("m") };
        let body: Value = serde_json::from_slice(&encode(&request, &settings)).unwrap();
        [0, 1].map(|at| body["tools"][at]["function"].clone())
    };
    for host in
        ["api.openai.com", "localhost", "mine.openai.azure.com", "api.groq.com", "openrouter.ai"]
    {
        let strict = host.contains("openai.");
        let [first, second] = tools(host);
        assert_eq!(first.get("strict"), strict.then_some(&json!(true)), "{host}");
        assert_eq!(first["parameters"].get("required"), strict.then_some(&json!(["a"])), "{host}");
        assert_eq!((second.get("strict"), &second["parameters"]), (None, &open), "{host}");
    }
}

#[test]
fn a_message_is_encoded_once() {
    let request = request(vec![UserMessage::from("hi").into()]);
    let first = encode(&request, &Settings::new("m"));
    let cached = request.messages[0].encode_once(CODEC, || unreachable!());
    assert!(first.windows(cached.len()).any(|part| part == &*cached));
}
#[test]
fn thinking_before_a_call_goes_back_to_the_model_that_thought_it() {
    let thinking = || ContentPart::Thinking { text: "hm".into(), signature: None };
    let assistant = |model: &str, parts| AssistantMessage::new(parts).model(model);
    let text = ContentPart::Text { text: "a".into(), signature: None };
    let request = request(vec![
        assistant("m", vec![thinking(), call("c", "{}")]).into(),
        assistant("other", vec![thinking(), call("c", "{}")]).into(),
        assistant("m", vec![thinking(), text]).into(),
    ]);
    let replayed = |host: &str, field: &str| {
        let settings = Settings { profile: Profile::of_host(host), ..Settings::new("m") };
        let body: Value = serde_json::from_slice(&encode(&request, &settings)).unwrap();
        [0, 1, 2].map(|at| body["messages"][at][field].as_str().map(str::to_owned))
    };
    assert_eq!(replayed("api.deepseek.com", "reasoning_content"), [Some("hm".into()), None, None]);
    assert_eq!(replayed("openrouter.ai", "reasoning"), [Some("hm".into()), None, None]);
    assert_eq!(replayed("localhost", "reasoning_content"), [None, None, None], "unknown origin");
}

#[test]
fn a_call_and_its_result_have_the_same_id_for_every_server() {
    let id = "call|".repeat(12);
    let assistant = AssistantMessage::new(vec![call(&id, "{}")]);
    let request = request(vec![assistant.into(), result(&id, vec![])]);
    for (host, max) in [("api.openai.com", 40), ("api.mistral.ai", 9), ("localhost", 60)] {
        let settings = Settings { profile: Profile::of_host(host), ..Settings::new("m") };
        let body: Value = serde_json::from_slice(&encode(&request, &settings)).unwrap();
        let sent = &body["messages"][0]["tool_calls"][0]["id"];
        assert_eq!(*sent, body["messages"][1]["tool_call_id"]);
        assert!(sent.as_str().unwrap().len() <= max, "{sent}");
    }
}
