//! Encoding: a request, made the body of a Chat Completions request.
//!
//! Each message's bytes are made once and then copied; a long conversation costs a copy, not an
//! encoding.

use loopwright::{
    AssistantMessage, Body, ChatRequest, Content, Message, OutputSchema, Part, ThinkingLevel, ToolChoice, ToolList,
    ToolResult, UserMessage,
};
use serde_json::{Value, json};

use super::Settings;
use super::profile::{Profile, Replay};
use crate::call_id::CallIds;
use crate::json::{bytes, field, is_object, put};

/// Names the bytes that are kept with tools, and with messages in which nothing depends on a setting.
const CODEC: &str = "openai-chat";

/// The body of `request`: JSON.
pub fn encode(request: &ChatRequest, settings: &Settings) -> Vec<u8> {
    // Most messages are smaller; where they are not, the body grows by doubling.
    let mut body = Vec::with_capacity(4096 + 256 * request.messages.len());
    body.extend_from_slice(b"{\"model\":");
    put(&mut body, &settings.model);
    body.extend_from_slice(b",\"messages\":[");
    messages(&mut body, request, settings);
    body.push(b']');
    if !request.tools.is_empty() {
        body.extend_from_slice(b",\"tools\":");
        body.extend_from_slice(&request.tools.encode_once(CODEC, || tools(&request.tools)));
        match &request.tool_choice {
            ToolChoice::None => field(&mut body, "tool_choice", "none"),
            ToolChoice::Required => field(&mut body, "tool_choice", "required"),
            ToolChoice::Tool(name) => {
                field(&mut body, "tool_choice", &json!({"type": "function", "function": {"name": name}}))
            }
            _ => {}
        }
    }
    if let Some(output) = &request.output {
        field(&mut body, "response_format", &response_format(output));
    }
    if let Some(max) = request.max_tokens {
        field(&mut body, settings.profile.max_tokens, &max);
    }
    if let Some(temperature) = request.temperature {
        field(&mut body, "temperature", &temperature);
    }
    if request.thinking != ThinkingLevel::Off {
        field(&mut body, "reasoning_effort", &request.thinking);
    }
    if let Some(name) = settings.profile.cache_key.filter(|_| (1..=64).contains(&request.session.len())) {
        field(&mut body, name, &request.session);
    }
    for (name, value) in &settings.options {
        field(&mut body, name, value);
    }
    if settings.profile.ask_usage {
        body.extend_from_slice(b",\"stream_options\":{\"include_usage\":true}");
    }
    body.extend_from_slice(b",\"stream\":true}");
    body
}

fn messages(body: &mut Vec<u8>, request: &ChatRequest, settings: &Settings) {
    let begin = body.len();
    let mut add = |message: &[u8]| {
        if message.is_empty() {
            return;
        }
        if body.len() > begin {
            body.push(b',');
        }
        body.extend_from_slice(message);
    };
    if !request.system.is_empty() {
        let mut system = b"{\"role\":\"system\",\"content\":".to_vec();
        put(&mut system, &request.system);
        system.push(b'}');
        add(&system);
    }
    // The protocol has no images in tool results, and nothing may stand between the results of a
    // batch: their images follow them, as a message of the user.
    let mut images: Vec<Value> = Vec::new();
    for message in request.messages.iter().filter(|message| message.is_for_model()) {
        let result = message.as_tool_result();
        if result.is_none() && !images.is_empty() {
            add(&images_message(&mut images));
        }
        let way = Way::of(message, settings);
        add(&message.encode_once(way.codec(), || encode_message(message, way)));
        images.extend(result.into_iter().flat_map(result_images));
    }
    add(&images_message(&mut images));
}

/// What a message's bytes depend on besides the message.
#[derive(Clone, Copy)]
struct Way {
    call_ids: CallIds,
    replay: Replay,
}

impl Way {
    /// The settings, as far as they make a difference to `message`.
    fn of(message: &Message, settings: &Settings) -> Way {
        let Profile { call_ids, replay, .. } = settings.profile;
        if let (CallIds::Any, Replay::Never) = (call_ids, replay) {
            return Way { call_ids, replay }; // most servers: no message need be looked into
        }
        match &message.body {
            Body::Assistant(assistant) if assistant.calls().next().is_some() => {
                let own = assistant.model == settings.id;
                Way { call_ids, replay: if own { replay } else { Replay::Never } }
            }
            Body::ToolResult(_) => Way { call_ids, replay: Replay::Never },
            _ => Way { call_ids: CallIds::Any, replay: Replay::Never },
        }
    }

    /// A name of its own for each way.
    fn codec(self) -> &'static str {
        use {CallIds::*, Replay::*};
        match (self.call_ids, self.replay) {
            (Any, Never) => CODEC,
            (Any, ReasoningContent) => "openai-chat reasoning_content",
            (Any, Reasoning) => "openai-chat reasoning",
            (UpTo40, Never) => "openai-chat 40",
            (UpTo40, ReasoningContent) => "openai-chat 40 reasoning_content",
            (UpTo40, Reasoning) => "openai-chat 40 reasoning",
            (UpTo64, Never) => "openai-chat 64",
            (UpTo64, ReasoningContent) => "openai-chat 64 reasoning_content",
            (UpTo64, Reasoning) => "openai-chat 64 reasoning",
            (Nine, Never) => "openai-chat 9",
            (Nine, ReasoningContent) => "openai-chat 9 reasoning_content",
            (Nine, Reasoning) => "openai-chat 9 reasoning",
        }
    }
}

/// One message. Empty for one that says nothing.
fn encode_message(message: &Message, way: Way) -> Vec<u8> {
    match &message.body {
        Body::User(user) => user_message(user),
        Body::Assistant(assistant) => assistant_message(assistant, way),
        Body::ToolResult(result) => tool_message(result, way.call_ids),
        _ => Vec::new(),
    }
}

fn user_message(user: &UserMessage) -> Vec<u8> {
    let parts: Vec<&Content> =
        user.content.iter().filter(|c| !matches!(c, Content::Text { text } if text.is_empty())).collect();
    let mut message = b"{\"role\":\"user\",\"content\":".to_vec();
    match parts.as_slice() {
        [] => return Vec::new(),
        [Content::Text { text }] => put(&mut message, text),
        parts => put(&mut message, &parts.iter().filter_map(|part| content_part(part)).collect::<Value>()),
    }
    message.push(b'}');
    message
}

fn content_part(part: &Content) -> Option<Value> {
    match part {
        Content::Text { text } => Some(json!({"type": "text", "text": text})),
        Content::Image { media_type, data } => {
            Some(json!({"type": "image_url", "image_url": {"url": format!("data:{media_type};base64,{data}")}}))
        }
        _ => None,
    }
}

fn assistant_message(assistant: &AssistantMessage, way: Way) -> Vec<u8> {
    let text = assistant.text();
    let mut message = b"{\"role\":\"assistant\",\"content\":".to_vec();
    put(&mut message, &Some(&text).filter(|text| !text.is_empty()));
    let mut calls = 0;
    for call in assistant.calls() {
        message.extend_from_slice(if calls == 0 { b",\"tool_calls\":[{\"id\":" } else { b",{\"id\":" });
        put(&mut message, &way.call_ids.fit(&call.id));
        message.extend_from_slice(b",\"type\":\"function\",\"function\":{\"name\":");
        put(&mut message, &*call.name);
        // Strict servers read the arguments; what is no object has an error result to explain it.
        field(&mut message, "arguments", if is_object(&call.arguments) { &*call.arguments } else { "{}" });
        message.extend_from_slice(b"}}");
        calls += 1;
    }
    if calls > 0 {
        message.push(b']');
    } else if text.is_empty() {
        return Vec::new();
    }
    if let Some(name) = way.replay.field() {
        let thinking = assistant.parts.iter().filter_map(|part| match part {
            Part::Thinking { text, .. } => Some(text.as_str()),
            _ => None,
        });
        field(&mut message, name, &thinking.collect::<String>());
    }
    message.push(b'}');
    message
}

fn tool_message(result: &ToolResult, call_ids: CallIds) -> Vec<u8> {
    let text = result.text();
    let text = match text.as_str() {
        "" if result_images(result).next().is_some() => "(an image, see below)",
        "" => "(no output)",
        text => text,
    };
    let mut message = b"{\"role\":\"tool\",\"tool_call_id\":".to_vec();
    put(&mut message, &call_ids.fit(&result.call));
    field(&mut message, "content", text);
    message.push(b'}');
    message
}

fn result_images(result: &ToolResult) -> impl Iterator<Item = Value> {
    result.content.iter().filter(|part| !matches!(part, Content::Text { .. })).filter_map(content_part)
}

fn images_message(images: &mut Vec<Value>) -> Vec<u8> {
    if images.is_empty() {
        return Vec::new();
    }
    let mut content = vec![json!({"type": "text", "text": "(images that the tools returned)"})];
    content.append(images);
    bytes(&json!({"role": "user", "content": content}))
}

fn tools(tools: &ToolList) -> Vec<u8> {
    let list: Vec<Value> = tools
        .iter()
        .map(|tool| {
            json!({"type": "function", "function": {
                "name": &*tool.name, "description": tool.description, "parameters": tool.schema,
            }})
        })
        .collect();
    bytes(&list)
}

fn response_format(output: &OutputSchema) -> Value {
    json!({"type": "json_schema", "json_schema": {"name": output.name, "schema": output.schema}})
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use loopwright::{MessageId, ResultStatus, StopReason, ToolCall, ToolSpec};

    use super::*;

    fn image() -> Content {
        Content::Image { media_type: "image/png".into(), data: "AAAA".into() }
    }

    fn call(id: &str, arguments: &str) -> Part {
        Part::ToolCall(ToolCall { id: id.into(), name: "f".into(), arguments: arguments.into(), signature: None })
    }

    fn result(id: &str, content: Vec<Content>) -> Body {
        let (call, name, status) = (id.into(), "f".into(), ResultStatus::Ok);
        Body::ToolResult(ToolResult { call, name, status, content, details: None, terminate: false })
    }

    fn request(bodies: Vec<Body>) -> ChatRequest {
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
        let thinking = Part::Thinking { text: "hm".into(), signature: None };
        let parts = vec![thinking, call("c1", "{\"a\":1}"), call("c2", "{\"a\":")];
        let request = request(vec![
            UserMessage { content: vec![Content::text(""), Content::text("look"), image()] }.into(),
            AssistantMessage { parts, ..Default::default() }.into(),
            result("c1", vec![image()]),
            result("c2", vec![]),
            AssistantMessage { stop: StopReason::Aborted, ..Default::default() }.into(),
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
            {"role": "user", "content": [{"type": "text", "text": "(images that the tools returned)"}, url]},
            {"role": "user", "content": "go on"},
        ]);
        assert_eq!(encoded(&request)["messages"], expected);
    }

    #[test]
    fn what_is_asked_for_is_in_the_body() {
        let mut request = request(vec![UserMessage::from("hi").into()]);
        let tool = ToolSpec::with_schema("f", "Does f.", json!({"type": "object"}));
        request.tools = Arc::new(ToolList::new(vec![Arc::new(tool)]));
        request.tool_choice = ToolChoice::Tool("f".into());
        request.output = Some(Arc::new(OutputSchema { name: "Out".into(), schema: json!({"type": "object"}) }));
        request.max_tokens = Some(9);
        request.temperature = Some(0.7);
        request.thinking = ThinkingLevel::XHigh;
        request.session = "s1".into();
        let body = encoded(&request);
        assert_eq!(
            body["tools"][0]["function"],
            json!({"name": "f", "description": "Does f.", "parameters": {"type": "object"}})
        );
        assert_eq!(body["tool_choice"]["function"]["name"], "f");
        assert_eq!(body["response_format"]["json_schema"]["name"], "Out");
        assert_eq!((&body["max_tokens"], &body["reasoning_effort"]), (&json!(9), &json!("xhigh")));
        let text = String::from_utf8(encode(&request, &Settings::new("m"))).unwrap();
        assert!(text.contains("\"temperature\":0.7,"), "{text}");
        assert_eq!(body["stream_options"]["include_usage"], true);
        assert!(body.get("prompt_cache_key").is_none());
        let settings = Settings { profile: Profile::of_host("api.openai.com"), ..Settings::new("m") };
        let body: Value = serde_json::from_slice(&encode(&request, &settings)).unwrap();
        assert_eq!((&body["max_completion_tokens"], &body["prompt_cache_key"]), (&json!(9), &json!("s1")));
    }

    #[test]
    fn a_message_is_encoded_once() {
        let request = request(vec![UserMessage::from("hi").into()]);
        let first = encode(&request, &Settings::new("m"));
        let kept = request.messages[0].encode_once(CODEC, || unreachable!());
        assert!(first.windows(kept.len()).any(|part| part == &*kept));
    }
    #[test]
    fn thinking_before_a_call_goes_back_to_the_model_that_thought_it() {
        let thinking = || Part::Thinking { text: "hm".into(), signature: None };
        let said = |model: &str, parts| AssistantMessage { parts, model: model.into(), ..Default::default() };
        let text = Part::Text { text: "a".into(), signature: None };
        let request = request(vec![
            said("m", vec![thinking(), call("c", "{}")]).into(),
            said("other", vec![thinking(), call("c", "{}")]).into(),
            said("m", vec![thinking(), text]).into(),
        ]);
        let replayed = |host: &str, field: &str| {
            let settings = Settings { profile: Profile::of_host(host), ..Settings::new("m") };
            let body: Value = serde_json::from_slice(&encode(&request, &settings)).unwrap();
            [0, 1, 2].map(|at| body["messages"][at][field].as_str().map(str::to_owned))
        };
        assert_eq!(replayed("api.deepseek.com", "reasoning_content"), [Some("hm".into()), None, None]);
        assert_eq!(replayed("openrouter.ai", "reasoning"), [Some("hm".into()), None, None]);
        assert_eq!(replayed("localhost", "reasoning_content"), [None, None, None]);
    }

    #[test]
    fn a_call_and_its_result_have_the_same_id_for_every_server() {
        let id = "call|".repeat(12);
        let assistant = AssistantMessage { parts: vec![call(&id, "{}")], ..Default::default() };
        let request = request(vec![assistant.into(), result(&id, vec![])]);
        for (host, most) in [("api.openai.com", 40), ("api.mistral.ai", 9), ("localhost", 60)] {
            let settings = Settings { profile: Profile::of_host(host), ..Settings::new("m") };
            let body: Value = serde_json::from_slice(&encode(&request, &settings)).unwrap();
            let sent = &body["messages"][0]["tool_calls"][0]["id"];
            assert_eq!(*sent, body["messages"][1]["tool_call_id"]);
            assert!(sent.as_str().unwrap().len() <= most, "{sent}");
        }
    }
}
