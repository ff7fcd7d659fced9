//! Bodies that servers refuse, found by random histories (`providers/tests/bodies`).

use loopwright_core::model::ThinkingLevel;
use loopwright_core::tool::ToolList;
use loopwright_providers::{Settings, WireFormat};

use super::kit::*;

fn thought(signature: &str) -> ContentPart {
    ContentPart::Thinking { text: "hm".into(), signature: Some(signature.into()) }
}

fn text(text: &str) -> ContentPart {
    ContentPart::Text { text: text.into(), signature: None }
}

fn json(body: Vec<u8>) -> Value {
    serde_json::from_slice(&body).unwrap()
}

/// Anthropic: "The final block in an assistant message cannot be `thinking`". A reply that was cut
/// off may end so, and each later request of the session would fail.
#[test]
fn a_reply_that_ends_with_thinking_goes_back_without_it() {
    for end in [vec![], vec![text(" \n")], vec![thought("c")]] {
        let parts = [vec![thought("a"), text("so"), thought("b")], end].concat();
        let conversation = request(vec![user("q"), by("m", parts), user("well?")]);
        let body = json(encoded::<Messages>(&conversation, "", "m"));
        let content = body["messages"][1]["content"].as_array().unwrap();
        let kinds: Vec<_> = content.iter().map(|block| block["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["thinking", "text"]);
    }
}

/// Anthropic refuses marks of an hour after marks of five minutes, and two lives for one block.
#[test]
fn our_marks_of_the_cache_live_as_long_as_those_of_the_user() {
    let mut conversation = request(vec![user("q"), by("m", vec![text("a")]), user("well?")]);
    conversation.system = "Be brief.".into();
    let mut settings = Settings::new("m");
    settings.profile = Messages::profile("", "m");
    let own = json!({"type": "ephemeral", "ttl": "1h"});
    settings.options.insert("cache_control".into(), own.clone());
    let body = json(Messages::encode(&conversation, &settings));
    for mark in [
        &body["cache_control"],
        &body["system"][0]["cache_control"],
        &body["messages"][0]["content"][0]["cache_control"],
        &body["messages"][2]["content"][0]["cache_control"],
    ] {
        assert_eq!(*mark, own, "{body}");
    }
}

fn with_files(types: &[&str]) -> ChatRequest {
    let files = || types.iter().map(|of| Content::image(*of, "AAAA")).collect::<Vec<_>>();
    let result = ToolResult::new("a", "f", ResultStatus::Ok, files());
    request(vec![
        UserMessage::new(files()).into(),
        by("other", vec![call("a", "{}")]),
        MessageKind::ToolResult(result),
    ])
}

/// Image types other than four are refused, and so is another spelling of these.
#[test]
fn an_image_is_sent_if_servers_take_its_type_by_its_usual_name() {
    let bodies = |types: &[&str]| {
        let conversation = with_files(types);
        [
            encoded::<ChatCompletions>(&conversation, "api.openai.com", "m"),
            encoded::<Responses>(&conversation, "", "m"),
            encoded::<Messages>(&conversation, "", "m"),
            encoded::<GenerateContent>(&conversation, "", "gemini-2.5-flash"),
            encoded::<GenerateContent>(&conversation, "", "gemini-3-pro"),
        ]
        .map(|body| String::from_utf8(body).unwrap())
    };
    for body in bodies(&["Image/PNG; charset=binary", "image/jpg", "application/PDF;v=2"]) {
        for usual in ["image/png", "image/jpeg", "application/pdf"] {
            assert_eq!(body.matches(usual).count(), 2, "{usual}: {body}");
        }
        assert!(!body.contains("binary") && !body.contains("missing here"), "{body}");
    }
    for body in bodies(&["image/svg+xml", "image/bmp", ""]) {
        assert_eq!(body.matches("missing here").count(), 6, "{body}");
        assert!(!body.contains("AAAA"), "{body}");
    }
    let files = with_files(&["image/heic", "audio/wav", "text/plain"]);
    let body = String::from_utf8(encoded::<GenerateContent>(&files, "", "gemini-3-pro")).unwrap();
    assert_eq!((body.matches("AAAA").count(), body.contains("missing here")), (6, false), "{body}");
}

/// Servers that check requests by OpenAI's own types, such as vLLM, refuse a text of a reply
/// without its id, and an image without `detail`.
#[test]
fn replies_and_images_go_back_to_responses_in_a_form_that_the_published_types_have() {
    let image = UserMessage::new(vec![Content::image("image/png", "AAAA")]);
    let reply = ContentPart::Text { text: "so".into(), signature: Some("phase:commentary".into()) };
    let body = json(encoded::<Responses>(
        &request(vec![image.into(), by("m", vec![reply]), user("well?")]),
        "",
        "m",
    ));
    assert_eq!(body["input"][0]["content"][0]["detail"], "auto");
    let said = json!({"type": "message", "role": "assistant", "content": "so",
        "phase": "commentary"});
    assert_eq!(body["input"][1], said);
}

/// Gemini 3 wants a signature in the first call of a reply, whichever others have one.
#[test]
fn a_first_call_without_a_signature_gets_the_placeholder() {
    let signed = ToolCall::new("b", "f", "{}").signature(Some("c2ln".into()));
    let calls = vec![call("a", "{}"), ContentPart::ToolCall(signed)];
    let conversation = request(vec![user("q"), by("gemini-3-pro", calls)]);
    let body = json(encoded::<GenerateContent>(&conversation, "", "gemini-3-pro"));
    let parts = &body["contents"][1]["parts"];
    assert_eq!(
        (&parts[0]["thoughtSignature"], &parts[1]["thoughtSignature"]),
        (&json!("skip_thought_signature_validator"), &json!("c2ln"))
    );
}

/// A schema may require a property that it does not describe. Gemini refuses that.
#[test]
fn what_a_tool_requires_is_a_property_of_its_schema() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "object",
        "additionalProperties": true}}, "required": ["a", "b"]});
    let mut conversation = request(vec![user("q")]);
    let spec = ToolSpec::with_schema("f", "Does f.", schema);
    conversation.tools = Arc::new(ToolList::new(vec![Arc::new(spec)]));
    let body = json(encoded::<GenerateContent>(&conversation, "", "gemini-3-pro"));
    let parameters = &body["tools"][0]["functionDeclarations"][0]["parametersJsonSchema"];
    assert_eq!(parameters["properties"]["b"], json!({}));
}

/// A model may call what is no tool, by a name that no tool can have. In a conversation, servers
/// refuse it, and each later request of the session would fail.
#[test]
fn a_call_goes_back_with_a_name_that_servers_accept() {
    let conversation = |name: &str| {
        let call = ContentPart::ToolCall(ToolCall::new("a", name, "{}"));
        let content = vec![Content::text("There is no such tool.")];
        let result = ToolResult::new("a", name, ResultStatus::Error, content);
        request(vec![user("q"), by("m", vec![call]), MessageKind::ToolResult(result)])
    };
    let long = "n".repeat(65);
    for (name, sent, at_gemini) in [
        ("functions.f", "functions_f", "functions_f"),
        ("", "unnamed", "unnamed"),
        ("7", "7", "_7"),
        (&*long, &long[1..], &long[1..]),
    ] {
        let conversation = conversation(name);
        let chat = json(encoded::<ChatCompletions>(&conversation, "api.openai.com", "m"));
        assert_eq!(chat["messages"][1]["tool_calls"][0]["function"]["name"], sent);
        let responses = json(encoded::<Responses>(&conversation, "", "m"));
        assert_eq!(responses["input"][1]["name"], sent);
        let anthropic = json(encoded::<Messages>(&conversation, "", "m"));
        assert_eq!(anthropic["messages"][1]["content"][0]["name"], sent);
        let gemini = json(encoded::<GenerateContent>(&conversation, "", "gemini-3-pro"));
        assert_eq!(gemini["contents"][1]["parts"][0]["functionCall"]["name"], at_gemini);
        assert_eq!(gemini["contents"][2]["parts"][0]["functionResponse"]["name"], at_gemini);
    }
}

/// With a budget, a turn of calls begins with thinking if the request asks for thinking. What the
/// user says after the results is a part of the message with the results, so the turn continues.
#[test]
fn a_steered_turn_of_another_model_goes_on_without_thinking() {
    let name = "claude-sonnet-4-5";
    let thinks = |conversation: Vec<MessageKind>| {
        let mut request = request(conversation);
        request.thinking = ThinkingLevel::Low;
        json(encoded::<Messages>(&request, "", name)).get("thinking").is_some()
    };
    let calls = || by("other", vec![text("so"), call("a", "{}")]);
    let own = || by(name, vec![thought("c2ln"), call("a", "{}")]);
    assert!(!thinks(vec![user("q"), calls(), result("a", "x"), user("wait"), user("well?")]));
    assert!(!thinks(vec![user("q"), calls(), user("the result is missing")]));
    let says_nothing = by(name, vec![thought("c2ln")]);
    assert!(!thinks(vec![user("q"), calls(), result("a", "x"), says_nothing, user("well?")]));
    assert!(thinks(vec![user("q"), own(), result("a", "x"), user("wait")]));
    let said = by("other", vec![text("done")]);
    assert!(thinks(vec![user("q"), calls(), result("a", "x"), said, user("well?"), user("go")]));
}
