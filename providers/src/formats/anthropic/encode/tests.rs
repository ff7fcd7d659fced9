//! Tests of the encoder.

use std::sync::Arc;

use loopwright_core::message::{MessageId, ResultStatus, UserMessage};
use loopwright_core::model::{OutputSchema, ThinkingLevel};
use loopwright_core::tool::ToolSpec;

use super::*;
use crate::formats::anthropic::Profile;

fn call(id: &str, arguments: &str) -> ContentPart {
    ContentPart::ToolCall(ToolCall::new(id, "f", arguments))
}

fn thought(text: &str, signature: &str) -> ContentPart {
    ContentPart::Thinking {
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

/// Returns the body, without cache marks.
fn encoded(request: &ChatRequest) -> Value {
    let profile = Profile { cache: false, ..Profile::default() };
    encoded_with(request, &Settings { profile, ..Settings::new("m") })
}

fn encoded_with(request: &ChatRequest, settings: &Settings) -> Value {
    let bytes = encode(request, settings);
    serde_json::from_slice(&bytes)
        .unwrap_or_else(|why| panic!("{why}: {}", String::from_utf8_lossy(&bytes)))
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

#[test]
fn roles_alternate_and_results_come_first() {
    let image = Content::image("image/png", "AAAA");
    let request = request(vec![
        user("a"),
        UserMessage::new(vec![Content::text(" "), image.clone()]).into(),
        assistant(
            "m",
            vec![
                ContentPart::Text { text: "\n".into(), signature: None },
                call("c|1", "{\"a\":1}"),
                call("c2", "[1"),
            ],
        ),
        result("c|1", ResultStatus::Ok, vec![image]),
        result("c2", ResultStatus::Error, vec![]),
        user("go on"),
        assistant("m", vec![]),
        user("well?"),
    ]);
    let picture = json!({"type": "image", "source": {"type": "base64",
        "media_type": "image/png", "data": "AAAA"}});
    let id = CallIds::UpTo64.fit("c|1").into_owned();
    let expected = json!([
        {"role": "user", "content": [text("a"), picture]},
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": id, "name": "f", "input": {"a": 1}},
            {"type": "tool_use", "id": "c2", "name": "f", "input": {}},
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": id, "content": [picture]},
            {"type": "tool_result", "tool_use_id": "c2", "content": [text("(no output)")],
            "is_error": true},
            text("go on"),
            text("well?"),
        ]},
    ]);
    assert_eq!(encoded(&request)["messages"], expected);
}

#[test]
fn thinking_goes_back_byte_for_byte_to_the_model_that_thought_it() {
    let parts = || {
        vec![
            thought("hm", "s\"1"),
            thought("", "redacted:d"),
            thought("unsigned", ""),
            call("c", "{}"),
        ]
    };
    let request = request(vec![
        user("a"),
        assistant("m", parts()),
        result("c", ResultStatus::Ok, vec![]),
        assistant("other", parts()),
        result("c", ResultStatus::Ok, vec![]),
        assistant("m", vec![thought("alone", "s")]),
    ]);
    let body = encoded(&request);
    let thoughts = json!([
        {"type": "thinking", "thinking": "hm", "signature": "s\"1"},
        {"type": "redacted_thinking", "data": "d"},
        {"type": "tool_use", "id": "c", "name": "f", "input": {}},
    ]);
    assert_eq!(body["messages"][1]["content"], thoughts);
    assert_eq!(body["messages"][3]["content"].as_array().unwrap().len(), 1);
    assert_eq!(body["messages"].as_array().unwrap().len(), 5, "thinking alone is no message");
    let other = encoded_with(&request, &Settings::new("other"));
    assert_eq!(other["messages"][1]["content"].as_array().unwrap().len(), 1);
    assert_eq!(other["messages"][3]["content"], thoughts);
}

#[test]
fn a_conversation_begins_with_the_user() {
    let answer = ContentPart::Text { text: "b".into(), signature: None };
    let body = encoded(&request(vec![assistant("m", vec![answer]), user("c")]));
    let roles: Vec<&Value> =
        body["messages"].as_array().unwrap().iter().map(|message| &message["role"]).collect();
    assert_eq!(roles, ["user", "assistant", "user"]);
}

#[test]
fn the_end_of_the_system_prompt_and_of_the_last_two_user_messages_are_marked_for_the_cache() {
    let answer = || assistant("m", vec![ContentPart::Text { text: "b".into(), signature: None }]);
    let mut request = request(vec![user("1"), answer(), user("2"), answer(), user("3"), user("4")]);
    request.system = "Be brief.".into();
    let body = encoded_with(&request, &Settings::new("m"));
    let mark = json!({"type": "ephemeral"});
    assert_eq!(body["system"][0]["cache_control"], mark);
    let marks = |at: usize| -> Vec<bool> {
        let content = body["messages"][at]["content"].as_array().unwrap();
        content.iter().map(|block| block["cache_control"] == mark).collect()
    };
    assert_eq!(
        [0, 1, 2, 3, 4].map(marks),
        [vec![false], vec![false], vec![true], vec![false], vec![false, true]]
    );
}

#[test]
fn what_is_asked_for_is_in_the_body() {
    let mut request = request(vec![user("hi")]);
    let body = encoded(&request);
    assert_eq!(
        (&body["max_tokens"], body.get("system"), body.get("thinking")),
        (&json!(8192), None, None)
    );
    let tool = ToolSpec::with_schema("f", "Does f.", json!({"type": "object", "properties": {}}));
    request.tools = Arc::new(ToolList::new(vec![Arc::new(tool)]));
    request.tool_choice = ToolChoice::Tool("f".into());
    request.output = Some(Arc::new(OutputSchema::new("Out", json!({"type": "object"}))));
    request.max_tokens = Some(9);
    request.temperature = Some(0.5);
    request.stop = vec!["END".into()];
    request.thinking = ThinkingLevel::High;
    let body = encoded(&request);
    assert_eq!(body["stop_sequences"], json!(["END"]));
    assert_eq!(
        body["tools"],
        json!([{"name": "f", "description": "Does f.", "input_schema": {"type": "object",
            "properties": {}}}])
    );
    assert_eq!(body["tool_choice"], json!({"type": "tool", "name": "f"}));
    assert_eq!((&body["max_tokens"], &body["temperature"]), (&json!(9), &json!(0.5)));
    assert!(body["system"][0]["text"].as_str().unwrap().ends_with("{\"type\":\"object\"}"));
    assert!(body.get("thinking").is_none(), "a forced tool excludes thinking");
    assert_eq!(body["stream"], true);
}

#[test]
fn a_level_of_thinking_is_a_budget_or_an_effort_within_the_limit() {
    let mut request = request(vec![user("hi")]);
    (request.thinking, request.temperature) = (ThinkingLevel::Medium, Some(0.5));
    let body = encoded(&request);
    assert_eq!(body["thinking"], json!({"type": "enabled", "budget_tokens": 8192}));
    assert_eq!((&body["max_tokens"], body.get("temperature")), (&json!(16384), None));
    let newer = Settings {
        profile: Profile::of_model("claude-opus-4-7"),
        ..Settings::new("claude-opus-4-7")
    };
    let body = encoded_with(&request, &newer);
    assert_eq!(
        (&body["thinking"]["type"], &body["output_config"]["effort"]),
        (&json!("adaptive"), &json!("medium"))
    );
    assert!(body.get("temperature").is_none());
    request.max_tokens = Some(2000);
    assert_eq!(encoded(&request)["thinking"]["budget_tokens"], 1500, "a quarter is for the reply");
    request.max_tokens = Some(1366);
    assert_eq!(encoded(&request)["thinking"]["budget_tokens"], 1024);
    request.max_tokens = Some(1365);
    assert!(encoded(&request).get("thinking").is_none());
}

#[test]
fn without_a_limit_in_the_request_it_is_that_of_the_model() {
    let settings = |max_output| Settings { max_output, ..Settings::new("m") };
    let mut request = request(vec![user("hi")]);
    assert_eq!(encoded_with(&request, &settings(Some(64_000)))["max_tokens"], 64_000);
    request.thinking = ThinkingLevel::High;
    let body = encoded_with(&request, &settings(Some(4096)));
    assert_eq!(
        (&body["max_tokens"], &body["thinking"]["budget_tokens"]),
        (&json!(4096), &json!(3072))
    );
    request.max_tokens = Some(2000);
    assert_eq!(encoded_with(&request, &settings(Some(64_000)))["max_tokens"], 2000);
}

#[test]
fn there_is_no_budget_for_a_turn_that_this_model_did_not_begin_with_a_thought() {
    let thinks = |model: &str, parts: Vec<ContentPart>| {
        let mut request = request(vec![
            user("a"),
            assistant(model, parts),
            result("c", ResultStatus::Ok, vec![Content::text("x")]),
        ]);
        request.thinking = ThinkingLevel::Low;
        encoded(&request).get("thinking").is_some()
    };
    assert!(thinks("m", vec![thought("hm", "s"), call("c", "{}")]));
    assert!(!thinks("m", vec![call("c", "{}")]));
    assert!(!thinks("other", vec![thought("hm", "s"), call("c", "{}")]));
}

fn of(model: &str) -> Settings {
    Settings { profile: Profile::of_model(model), ..Settings::new(model) }
}

fn with_tool(mut request: ChatRequest, choice: ToolChoice) -> ChatRequest {
    let tool = ToolSpec::with_schema("f", "", json!({"type": "object", "properties": {}}));
    request.tools = Arc::new(ToolList::new(vec![Arc::new(tool)]));
    request.tool_choice = choice;
    request
}

#[test]
fn a_model_that_cannot_be_forced_is_asked_in_words_after_all_else() {
    let mut request = with_tool(request(vec![user("hi")]), ToolChoice::Tool("f".into()));
    request.thinking = ThinkingLevel::High;
    for model in ["claude-opus-5-5", "claude-sonnet-5-5", "claude-fable-5-1"] {
        let body = encoded_with(&request, &of(model));
        assert!(body.get("tool_choice").is_none(), "{model}");
        assert_eq!(body["thinking"]["type"], "adaptive", "{model}: nothing excludes thinking");
        let content = &body["messages"][0]["content"];
        assert_eq!(content[0]["cache_control"]["type"], "ephemeral");
        assert_eq!(content[1], text("(Answer with a call of the tool `f`.)"));
        assert!(!signs(&request, &of(model)), "{model}: what it thinks belongs to these words");
    }
    request.tool_choice = ToolChoice::Auto;
    assert!(signs(&request, &of("claude-opus-5-5")));
    let map = json!({"type": "object", "additionalProperties": {"type": "string"}});
    request.output = Some(Arc::new(OutputSchema::new("Out", map)));
    request.thinking = ThinkingLevel::Off;
    let body = encoded_with(&request, &of("claude-opus-5-5"));
    assert_eq!(
        (body.get("tool_choice"), body["tools"].as_array().unwrap().len()),
        (None, 1),
        "no tool takes the answer"
    );
    assert!(body["system"][0]["text"].as_str().unwrap().contains("JSON Schema"));
    for model in ["claude-fable-5", "claude-haiku-5-5", "claude-opus-5"] {
        let forced = with_tool(request.clone(), ToolChoice::Required);
        assert_eq!(encoded_with(&forced, &of(model))["tool_choice"]["type"], "any", "{model}");
        assert!(signs(&forced, &of(model)));
    }
}

#[test]
fn thinking_is_disabled_per_model() {
    let request = request(vec![user("hi")]);
    for (model, off) in [
        ("claude-opus-4-8", Value::Null),
        ("claude-opus-5", json!({"type": "disabled"})),
        ("claude-sonnet-5", json!({"type": "disabled"})),
        ("claude-haiku-5-5", json!({"type": "disabled"})),
        ("claude-sonnet-5-5", json!({"type": "between_tools"})),
        ("claude-opus-5-5", Value::Null),
        ("claude-fable-5-1", Value::Null),
    ] {
        assert_eq!(encoded_with(&request, &of(model))["thinking"], off, "{model}");
    }
}

#[test]
fn a_temperature_goes_out_only_where_nothing_thinks() {
    let mut request = request(vec![user("hi")]);
    request.temperature = Some(0.5);
    let sent = |request: &ChatRequest, settings: &Settings| {
        encoded_with(request, settings).get("temperature").is_some()
    };
    assert!(sent(&request, &of("claude-sonnet-4-5")) && sent(&request, &of("claude-opus-4-6")));
    assert!(!sent(&request, &of("claude-opus-4-7")) && !sent(&request, &of("claude-sonnet-5")));
    let mut own = of("claude-sonnet-4-5");
    own.options.insert("thinking".into(), json!({"type": "enabled", "budget_tokens": 2048}));
    assert!(!sent(&request, &own), "the user's own thinking excludes it too");
    request.thinking = ThinkingLevel::High;
    let body = encoded_with(&request, &of("claude-opus-4-6"));
    assert_eq!(
        (&body["thinking"]["type"], &body["output_config"]["effort"]),
        (&json!("adaptive"), &json!("high"))
    );
    assert!(body.get("temperature").is_none());
}

#[test]
fn thoughts_stay_behind_where_the_providers_own_tools_leave_gaps_in_their_past() {
    let thoughts = |model: &str, option: &str| {
        let assistant = assistant(model, vec![thought("hm", "s"), call("c", "{}")]);
        let request = request(vec![user("a"), assistant, result("c", ResultStatus::Ok, vec![])]);
        let mut settings = of(model);
        settings.options.insert(option.into(), json!([]));
        encoded_with(&request, &settings)["messages"][1].to_string().matches("signature").count()
    };
    assert_eq!(
        [thoughts("claude-opus-5-5", "tools"), thoughts("claude-opus-5-5", "stop_sequences")],
        [0, 1]
    );
    assert_eq!(thoughts("claude-opus-5", "tools"), 1);
}

#[test]
fn thoughts_from_before_a_compaction_stay_behind_where_they_are_bound_to_their_past() {
    let thoughts = |model: &str, compacted: Option<u64>| {
        let turn = |what: &str| {
            let assistant = assistant(model, vec![thought("hm", what), call(what, "{}")]);
            [assistant, result(what, ResultStatus::Ok, vec![])]
        };
        let mut request =
            request([vec![user("a")], turn("old").into(), turn("new").into()].concat());
        request.compacted = compacted.map(MessageId);
        let body = encoded_with(&request, &of(model)).to_string();
        ["old", "new"].map(|what| body.contains(&format!(r#""signature":"{what}""#)))
    };
    assert_eq!(thoughts("claude-opus-5-5", None), [true, true]);
    assert_eq!(thoughts("claude-opus-5-5", Some(3)), [false, true]);
    assert_eq!(thoughts("claude-opus-5", Some(3)), [true, true], "it takes them after any past");
}

#[test]
fn no_thought_goes_out_after_something_that_does_not() {
    let blank = ContentPart::Text { text: "\n".into(), signature: None };
    let parts = vec![thought("one", "s1"), blank, thought("two", "s2"), call("c", "{}")];
    let body = encoded(&request(vec![
        user("a"),
        assistant("m", parts),
        result("c", ResultStatus::Ok, vec![]),
    ]));
    let kinds: Vec<&Value> =
        body["messages"][1]["content"].as_array().unwrap().iter().map(|b| &b["type"]).collect();
    assert_eq!(kinds, ["thinking", "tool_use"]);
}

#[test]
fn arguments_go_back_as_they_came() {
    let arguments = r#"{"z": 1e2, "a": 12345678901234567890123}"#;
    let bytes = encode(
        &request(vec![user("a"), assistant("m", vec![call("c", arguments)])]),
        &Settings::new("m"),
    );
    assert!(String::from_utf8(bytes).unwrap().contains(arguments));
}

#[test]
fn a_message_is_encoded_once() {
    let request = request(vec![user("hi")]);
    let first = encode(&request, &Settings::new("m"));
    let cached = request.messages[0].encode_once(CODEC, || unreachable!());
    assert!(first.windows(cached.len() - 1).any(|part| *part == cached[..cached.len() - 1]));
}
