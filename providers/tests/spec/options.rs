//! The options of a request, in every format. Each combination follows the rules of its API, and
//! each option reaches the server.

mod merge;
mod models;
mod schemas;

use std::sync::Arc;

use loopwright_core::Message;
use loopwright_core::message::{
    Content, ContentPart, MessageId, MessageKind, ResultStatus, StopReason, ToolCall, ToolResult,
    Usage, UserMessage,
};
use loopwright_core::model::ThinkingLevel::{self, High, Low, Medium, Minimal, Off, XHigh};
use loopwright_core::model::{ChatRequest, OutputSchema, ToolChoice};
use loopwright_core::tool::{ToolList, ToolSpec};
use loopwright_providers::anthropic::{Answers, Messages};
use loopwright_providers::gemini::GenerateContent;
use loopwright_providers::openai_chat::ChatCompletions;
use loopwright_providers::openai_responses::Responses;
use loopwright_providers::{Provider, Wire, WireFormat};
use serde_json::{Value, json};

use self::models::{body, models};
use crate::quirks::kit::{decode, events};

const LEVELS: [ThinkingLevel; 6] = [Off, Minimal, Low, Medium, High, XHigh];

fn asks(bodies: Vec<MessageKind>) -> ChatRequest {
    let mut request = ChatRequest::default();
    let messages = (1..).zip(bodies).map(|(id, body)| Arc::new(Message::new(MessageId(id), body)));
    request.messages = Arc::new(messages.collect());
    request.session = "session-1".into();
    request.system = "Be brief.".into();
    request
}

fn hi() -> ChatRequest {
    asks(vec![UserMessage::from("hi").into()])
}

fn with_tools(mut request: ChatRequest) -> ChatRequest {
    let tool = |name: &str, schema| Arc::new(ToolSpec::with_schema(name, "", schema));
    let ns = json!({"type": "object", "properties": {"ns": {"type": "array", "items": schema()}}});
    request.tools =
        Arc::new(ToolList::new(vec![tool("f", ns), tool("g", json!({"type": "object"}))]));
    request
}

fn schema() -> Value {
    json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer",
        "minimum": 1}}})
}

/// The schema in the form that OpenAI enforces.
fn strict_schema() -> Value {
    let n = json!({"type": "integer", "description": "(minimum: 1)"});
    json!({"type": "object", "required": ["n"], "properties": {"n": n},
        "additionalProperties": false})
}

fn with_output(mut request: ChatRequest) -> ChatRequest {
    request.output = Some(Arc::new(OutputSchema::new("Out", schema())));
    request
}

/// Returns every combination of options.
fn combinations() -> Vec<ChatRequest> {
    let choices =
        [ToolChoice::Auto, ToolChoice::None, ToolChoice::Required, ToolChoice::Tool("g".into())];
    let mut all = Vec::new();
    for (level, choice) in
        LEVELS.iter().flat_map(|level| choices.iter().map(move |choice| (level, choice)))
    {
        for bits in 0..16 {
            let bits = |bit: u8| bits & (1 << bit) != 0;
            let request = if bits(0) { with_tools(hi()) } else { hi() };
            let mut request = if bits(1) { with_output(request) } else { request };
            request.max_tokens = bits(2).then_some(if bits(0) { 2000 } else { 9 });
            request.temperature = bits(3).then_some(0.5);
            (request.thinking, request.tool_choice) = (*level, choice.clone());
            all.push(request);
        }
    }
    all
}

#[test]
fn combinations_of_options_are_legal_requests_for_every_model() {
    let (combinations, models) = (combinations(), models());
    assert!(combinations.len() == 6 * 4 * 16 && models.len() > 90, "{} models", models.len());
    for (at, model) in models.into_iter().enumerate() {
        // Each model gets a third of them. Each pair of options occurs, and each option with each
        // model.
        combinations.iter().skip(at % 3).step_by(3).for_each(|request| drop(body(request, model)));
    }
}

#[test]
fn a_thinking_level_is_sent_as_the_model_knows_it() {
    let sent = |model: (&str, &str, &str), pointer: &str| {
        let words = LEVELS.map(|level| {
            let mut request = hi();
            request.thinking = level;
            body(&request, model).pointer(pointer).cloned().unwrap_or_default()
        });
        json!(words)
    };
    let cases = [
        (
            ("chat", "api.openai.com", "gpt-4o"),
            "/reasoning_effort",
            json!([null, null, null, null, null, null]),
        ),
        (
            ("chat", "api.openai.com", "gpt-5"),
            "/reasoning_effort",
            json!([null, "minimal", "low", "medium", "high", "high"]),
        ),
        (
            ("chat", "localhost", "qwen3"),
            "/reasoning_effort",
            json!([null, "low", "low", "medium", "high", "high"]),
        ),
        (
            ("chat", "openrouter.ai", "x"),
            "/reasoning/effort",
            json!([null, "minimal", "low", "medium", "high", "xhigh"]),
        ),
        (
            ("chat", "api.deepseek.com", "x"),
            "/thinking/type",
            json!(["disabled", "enabled", "enabled", "enabled", "enabled", "enabled"]),
        ),
        (
            ("responses", "", "gpt-5.1"),
            "/reasoning/effort",
            json!([null, "low", "low", "medium", "high", "high"]),
        ),
        (
            ("anthropic", "", "claude-sonnet-4-5"),
            "/thinking/budget_tokens",
            json!([null, 1024, 4096, 8192, 16384, 32768]),
        ),
        (
            ("anthropic", "", "claude-opus-4-7"),
            "/output_config/effort",
            json!([null, "low", "low", "medium", "high", "max"]),
        ),
        (
            ("responses", "", "gpt-5.6"),
            "/reasoning/effort",
            json!(["none", "low", "low", "medium", "high", "xhigh"]),
        ),
        (
            ("chat", "ollama", "qwen3:8b"),
            "/reasoning_effort",
            json!(["none", "low", "low", "medium", "high", "high"]),
        ),
        (
            ("chat", "api.together.xyz", "zai-org/GLM-5.3"),
            "/reasoning/enabled",
            json!([false, true, true, true, true, true]),
        ),
        (
            ("gemini", "", "gemini-2.5-flash"),
            "/generationConfig/thinkingConfig/thinkingBudget",
            json!([0, 128, 4096, 8192, 16384, 24576]),
        ),
        (
            ("gemini", "", "gemini-3-flash"),
            "/generationConfig/thinkingConfig/thinkingLevel",
            json!([null, "minimal", "low", "medium", "high", "high"]),
        ),
    ];
    for (model, pointer, expected) in cases {
        assert_eq!(sent(model, pointer), expected, "{model:?}");
    }
}

#[test]
fn images_of_the_user_and_of_results_arrive_at_every_model() {
    let image = |data: &str| Content::image("image/png", data);
    let call = |id: &str| ContentPart::ToolCall(ToolCall::new(id, "f", "{}"));
    let result = |id: &str, content| {
        MessageKind::ToolResult(ToolResult::new(id, "f", ResultStatus::Ok, content))
    };
    let assistant = loopwright_core::message::AssistantMessage::new(vec![call("a"), call("b")]);
    let request = with_tools(asks(vec![
        UserMessage::new(vec![Content::text("look"), image("AAAA")]).into(),
        assistant.into(),
        result("a", vec![Content::text("seen"), image("BBBB")]),
        result("b", vec![image("CCCC")]),
    ]));
    for model in models() {
        let body = body(&request, model).to_string();
        let places = ["AAAA", "BBBB", "CCCC"]
            .map(|data| body.find(data).unwrap_or_else(|| panic!("{model:?} lost {data}: {body}")));
        assert!(places.is_sorted(), "{model:?}: {body}");
    }
}

#[test]
fn a_pdf_is_sent_as_a_document_and_what_cannot_be_sent_is_named() {
    let attached =
        || vec![Content::image("application/pdf", "AAAA"), Content::image("audio/wav", "BBBB")];
    let call = ContentPart::ToolCall(ToolCall::new("a", "f", "{}"));
    let result = MessageKind::ToolResult(ToolResult::new("a", "f", ResultStatus::Ok, attached()));
    let request = with_tools(asks(vec![
        UserMessage::new(attached()).into(),
        loopwright_core::message::AssistantMessage::new(vec![call]).into(),
        result,
    ]));
    for model in models() {
        let body = body(&request, model).to_string();
        let of = |words: &str| body.matches(words).count();
        let (kind, missing) = match model.0 {
            "chat" => (r#""type":"file""#, 2),
            "responses" => (r#""type":"input_file""#, 2),
            "anthropic" => (r#""type":"document""#, 2),
            _ => (r#""mimeType":"application/pdf""#, 0),
        };
        assert_eq!((of(kind), of("AAAA")), (2, 2), "{model:?}: {body}");
        assert_eq!(of("of the type audio/wav is missing"), missing, "{model:?}: {body}");
        assert!(of("image_url") + of("input_image") + of(r#""type":"image""#) == 0, "{body}");
    }
}

/// One image of a type that a server refuses would fail each later request of its session.
#[test]
fn only_images_that_every_server_accepts_are_sent() {
    let images = ["image/png", "Image/jpg", "image/svg+xml", "image/heic", "image/tiff"];
    let images = images.iter().map(|kind| Content::image(*kind, "AAAA")).collect();
    let request = asks(vec![UserMessage::new(images).into()]);
    for model in models() {
        let body = body(&request, model).to_string();
        let missing = |kind: &str| body.contains(&format!("of the type {kind} is missing"));
        let is_gemini = body.contains("inlineData");
        assert_eq!(body.matches("AAAA").count(), if is_gemini { 3 } else { 2 }, "{body}");
        assert!(missing("image/svg+xml") && missing("image/tiff"), "{body}");
        assert_eq!(missing("image/heic"), !is_gemini, "{body}");
    }
}

#[test]
fn the_user_may_speak_directly_after_results_at_every_model() {
    let call = ToolCall::new("a", "f", "{}");
    let assistant =
        loopwright_core::message::AssistantMessage::new(vec![ContentPart::ToolCall(call)]);
    let content = vec![Content::text("seen"), Content::image("image/png", "AAAA")];
    let result = MessageKind::ToolResult(ToolResult::new("a", "f", ResultStatus::Ok, content));
    let user = |text: &str| MessageKind::from(UserMessage::from(text));
    let steered =
        with_tools(asks(vec![user("q"), assistant.into(), result, user("stop"), user("now")]));
    for model in models() {
        let body = body(&steered, model).to_string();
        assert_eq!(
            body.matches("results are there").count(),
            usize::from(model.1 == "api.mistral.ai"),
            "{model:?}"
        );
    }
}

#[test]
fn the_prompt_cache_is_hinted_at_where_hints_are_taken() {
    let request = with_tools(hi());
    assert_eq!(
        body(&request, ("chat", "api.openai.com", "gpt-4o"))["prompt_cache_key"],
        "session-1"
    );
    assert_eq!(body(&request, ("responses", "", "gpt-5.1"))["prompt_cache_key"], "session-1");
    assert!(body(&request, ("chat", "localhost", "m")).get("prompt_cache_key").is_none());
    let anthropic = body(&request, ("anthropic", "", "claude-sonnet-4-5"));
    let mark = json!({"type": "ephemeral"});
    assert_eq!(
        (
            &anthropic["system"][0]["cache_control"],
            &anthropic["messages"][0]["content"][0]["cache_control"]
        ),
        (&mark, &mark)
    );
}

/// C484
#[test]
fn an_output_schema_is_sent_in_its_field_or_as_a_tool_or_in_words() {
    let (alone, beside) = (with_output(hi()), with_output(with_tools(hi())));
    for request in [&alone, &beside] {
        let chat = body(request, ("chat", "api.openai.com", "gpt-4o"));
        let asked = &chat["response_format"]["json_schema"];
        assert_eq!((&asked["strict"], &asked["schema"]), (&json!(true), &strict_schema()));
        let vllm = body(request, ("chat", "", "m"));
        let asked = &vllm["response_format"]["json_schema"];
        assert_eq!((asked.get("strict"), &asked["schema"]), (None, &schema()));
        let deepseek = body(request, ("chat", "api.deepseek.com", "m"));
        assert_eq!(deepseek["response_format"]["type"], "json_object");
        assert!(deepseek["messages"][0]["content"].as_str().unwrap().contains("\"minimum\":1"));
        let responses = body(request, ("responses", "", "gpt-5.1"));
        let asked = &responses["text"]["format"];
        assert_eq!((&asked["strict"], &asked["schema"]), (&json!(true), &strict_schema()));
        let anthropic = body(request, ("anthropic", "", "claude-sonnet-4-5"));
        let closed = json!({"type": "object", "required": ["n"],
            "properties": {"n": {"type": "integer"}}, "additionalProperties": false});
        assert_eq!(anthropic["output_config"]["format"]["schema"], closed);
        assert_eq!(
            body(request, ("gemini", "", "gemini-3-pro"))["generationConfig"]["responseJsonSchema"],
            schema()
        );
    }
    assert_eq!(
        body(&alone, ("chat", "api.groq.com", "m"))["response_format"]["type"],
        "json_schema"
    );
    let groq = body(&beside, ("chat", "api.groq.com", "m"));
    assert!(
        groq.get("response_format").is_none()
            && groq["messages"][0]["content"].as_str().unwrap().contains("JSON Schema")
    );
    assert_eq!(
        body(&alone, ("gemini", "", "gemini-2.5-pro"))["generationConfig"]["responseJsonSchema"],
        schema()
    );
    let gemini = body(&beside, ("gemini", "", "gemini-2.5-pro"));
    let tool = &gemini["tools"][0]["functionDeclarations"][2];
    assert_eq!(
        (&tool["parametersJsonSchema"], &gemini["toolConfig"]["functionCallingConfig"]["mode"]),
        (&schema(), &json!("ANY"))
    );
    let call = json!({"functionCall": {"name": tool["name"], "args": {"n": 3}}});
    let reply =
        json!({"candidates": [{"content": {"parts": [call]}, "finishReason": "STOP"}]}).to_string();
    let answer = events::<GenerateContent>(&[&reply]);
    assert_eq!(
        (answer.text.as_str(), answer.stop, answer.calls().len()),
        ("{\"n\":3}", Some(StopReason::Stop), 0)
    );
    let mut forced = beside.clone();
    forced.tool_choice = ToolChoice::Required;
    let gemini = body(&forced, ("gemini", "", "gemini-2.5-pro"));
    assert!(
        gemini["systemInstruction"]["parts"][1]["text"].as_str().unwrap().contains("JSON Schema")
    );
    let mut map = beside.clone();
    map.output = Some(Arc::new(OutputSchema::new(
        "Out",
        json!({"type": "object", "additionalProperties": {"type": "string"}}),
    )));
    let anthropic = body(&map, ("anthropic", "", "claude-sonnet-4-5"));
    assert!(anthropic.get("output_config").is_none(), "no grammar is made of a map");
    assert_eq!(anthropic["tool_choice"]["type"], "any");
}

#[test]
fn a_model_without_a_field_for_schemas_answers_by_a_tool_whose_call_is_text() {
    let older = ("anthropic", "", "claude-sonnet-4-20250514");
    assert_eq!(Messages::profile("", older.2).answers, Answers::Tool);
    let asked = body(&with_output(with_tools(hi())), older);
    let tool = &asked["tools"][2];
    assert_eq!((&asked["tool_choice"]["type"], &tool["input_schema"]), (&json!("any"), &schema()));
    let name = tool["name"].as_str().unwrap();
    let block = json!({"type": "content_block_start", "index": 0,
        "content_block": {"type": "tool_use", "id": "a", "name": name, "input": {}}});
    let delta = |json: &str| {
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta",
            "partial_json": json}})
        .to_string()
    };
    let end = json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}).to_string();
    let payloads = [
        block.to_string(),
        delta("{\"n\":"),
        delta(" 3}"),
        end,
        r#"{"type":"message_stop"}"#.into(),
    ];
    let answer = events::<Messages>(&payloads.each_ref().map(String::as_str));
    assert_eq!(
        (answer.text.as_str(), answer.stop, answer.calls().len()),
        ("{\"n\": 3}", Some(StopReason::Stop), 0)
    );
    let mut thinks = with_output(hi());
    thinks.thinking = High;
    let asked = body(&thinks, older);
    assert!(
        asked.get("tool_choice").is_none() && asked["thinking"]["type"] == "enabled",
        "a forced tool excludes thinking"
    );
    assert!(asked["system"][1]["text"].as_str().unwrap().contains("JSON Schema"));
}

#[test]
fn a_forced_tool_is_forced_and_goes_before_thinking_where_they_exclude_each_other() {
    let mut request = with_tools(hi());
    (request.tool_choice, request.thinking) = (ToolChoice::Tool("g".into()), High);
    assert_eq!(body(&request, ("chat", "localhost", "m"))["tool_choice"]["function"]["name"], "g");
    assert_eq!(
        body(&request, ("responses", "", "gpt-5.1"))["tool_choice"],
        json!({"type": "function", "name": "g"})
    );
    let gemini = body(&request, ("gemini", "", "gemini-2.5-pro"));
    assert_eq!(gemini["toolConfig"]["functionCallingConfig"]["allowedFunctionNames"], json!(["g"]));
    let deepseek = body(&request, ("chat", "api.deepseek.com", "deepseek-flash"));
    assert_eq!(
        (&deepseek["tool_choice"]["function"]["name"], &deepseek["thinking"]["type"]),
        (&json!("g"), &json!("disabled"))
    );
    for model in ["claude-sonnet-4-5", "claude-opus-4-7"] {
        let anthropic = body(&request, ("anthropic", "", model));
        assert_eq!(anthropic["tool_choice"], json!({"type": "tool", "name": "g"}));
        assert!(anthropic.get("thinking").is_none(), "{model}");
    }
}

#[test]
fn usage_has_what_the_cache_gave_and_took_and_what_the_reasoning_cost() {
    let expected = Usage::new(10, 30).cache(70, 20).reasoning(12);
    let chat = json!({"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}], "usage": {
        "prompt_tokens": 100, "completion_tokens": 30, "total_tokens": 130,
        "prompt_tokens_details": {"cached_tokens": 70, "cache_write_tokens": 20},
        "completion_tokens_details": {"reasoning_tokens": 12}}});
    assert_eq!(events::<ChatCompletions>(&[&chat.to_string()]).usage, expected);
    let responses = json!({"type": "response.completed", "response": {"status": "completed",
        "usage": {
        "input_tokens": 100, "output_tokens": 30, "input_tokens_details": {"cached_tokens": 70,
        "cache_write_tokens": 20},
        "output_tokens_details": {"reasoning_tokens": 12}}}});
    let text = r#"{"type":"response.output_text.delta","delta":"a"}"#;
    assert_eq!(events::<Responses>(&[text, &responses.to_string()]).usage, expected);
    let begin = json!({"type": "message_start", "message": {"usage": {
        "input_tokens": 10, "cache_read_input_tokens": 70, "cache_creation_input_tokens": 20,
        "output_tokens": 1}}});
    let end = json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {
        "output_tokens": 30, "output_tokens_details": {"thinking_tokens": 12}}});
    let anthropic = [begin.to_string(), end.to_string(), r#"{"type":"message_stop"}"#.into()];
    assert_eq!(events::<Messages>(&anthropic.each_ref().map(String::as_str)).usage, expected);
    let gemini = json!({"candidates": [{"content": {"parts": [{"text": "a"}]},
        "finishReason": "STOP"}], "usageMetadata": {
        "promptTokenCount": 100, "cachedContentTokenCount": 70, "candidatesTokenCount": 18,
        "thoughtsTokenCount": 12}});
    let body = format!("data: {gemini}\n\n");
    let expected = Usage::new(30, expected.output).cache(expected.cache_read, 0).reasoning(12);
    assert_eq!(
        decode::<GenerateContent>(&[body.as_bytes()]).usage,
        expected,
        "it does not tell what it wrote"
    );
}

/// A request with tools at Azure, which uses Responses by default, and the error of Chat
/// Completions if that format is selected.
#[test]
fn azure_speaks_responses_and_in_chat_completions_tools_go_before_an_effort() {
    assert_eq!(Provider::named("azure").unwrap().wire, Wire::OpenAiResponses);
    let mut request = with_tools(hi());
    request.thinking = High;
    for model in ["gpt-5.5", "gpt-5.6-terra", "gpt-6-sol"] {
        assert_eq!(body(&request, ("chat", "azure", model))["reasoning_effort"], "none", "{model}");
        assert_eq!(
            body(&request, ("responses", "azure", model))["reasoning"]["effort"],
            "high",
            "{model}"
        );
    }
    let mut alone = hi();
    alone.thinking = High;
    assert_eq!(body(&alone, ("chat", "azure", "gpt-5.6-terra"))["reasoning_effort"], "high");
    assert!(body(&request, ("chat", "azure", "gpt-5.4")).get("reasoning_effort").is_none());
}

#[test]
fn a_temperature_is_omitted_where_chat_completions_gets_an_effort() {
    let sent = |level, model| {
        let mut request = hi();
        (request.thinking, request.temperature) = (level, Some(0.5));
        body(&request, ("chat", "api.openai.com", model)).get("temperature").is_some()
    };
    assert_eq!([Off, Low].map(|level| sent(level, "gpt-5.1")), [true, false]);
    assert_eq!([Off, Low].map(|level| sent(level, "gpt-5.6-luna")), [true, false]);
    assert_eq!([Off, Low].map(|level| sent(level, "gpt-5-mini")), [false, false]);
    assert_eq!([Off, Low].map(|level| sent(level, "gpt-4o")), [true, true]);
}

#[test]
fn openrouter_is_asked_to_cache_for_the_models_that_do_not_cache_unasked() {
    let marked =
        |model| body(&hi(), ("chat", "openrouter.ai", model)).get("cache_control").cloned();
    assert_eq!(marked("anthropic/claude-opus-5.5"), Some(json!({"type": "ephemeral"})));
    assert_eq!(marked("openai/gpt-6-luna"), None);
}
