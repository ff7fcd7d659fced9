//! Rows 36 to 38, 40 and 41: conversations, texts and schemas that strict servers refuse.

use loopwright_core::tool::ToolList;

use super::kit::*;
use crate::rules;
use crate::rules::openai_chat::Server;

/// Checks a conversation with the rules of every API, and returns the bodies.
fn legal_everywhere(conversation: &ChatRequest) -> Vec<String> {
    let bodies = [
        encoded::<ChatCompletions>(conversation, "api.openai.com", "m"),
        encoded::<ChatCompletions>(conversation, "api.mistral.ai", "m"),
        encoded::<Responses>(conversation, "", "m"),
        encoded::<Messages>(conversation, "", "m"),
        encoded::<GenerateContent>(conversation, "", "gemini-3-pro"),
    ];
    rules::openai_chat::check(&bodies[0], Server::OpenAi).unwrap();
    rules::openai_chat::check(&bodies[1], Server::Mistral).unwrap();
    rules::openai_responses::check(&bodies[2]).unwrap();
    rules::anthropic::check(&bodies[3]).unwrap();
    rules::gemini::check(&bodies[4], "gemini-3-pro").unwrap();
    bodies.into_iter().map(|body| String::from_utf8(body).unwrap()).collect()
}

#[tokio::test]
async fn quirk_36_no_call_is_sent_without_its_result_and_no_result_without_its_call() {
    let calls = || by("m", vec![call("a", "{}"), call("b", "{}")]);
    for conversation in [
        vec![result("a", "x"), user("q")],
        vec![user("q"), calls()],
        vec![user("q"), calls(), result("b", "only b")],
        vec![user("q"), calls(), result("b", "only b"), result("a", "a too")],
        vec![user("q"), calls(), user("well?"), result("a", "late")],
        vec![
            user("q"),
            by("m", vec![call("a", "{}")]),
            result("a", "x"),
            result("a", "again"),
            result("z", "whose?"),
        ],
    ] {
        for body in legal_everywhere(&request(conversation)) {
            assert!(!body.contains("whose?") && !body.contains("again"), "{body}");
        }
    }
    // A hook that prunes the conversation cannot break it either.
    let replies = [chat(&call_f("a", "{}"), "tool_calls"), chat(r#"{"content":"ok"}"#, "stop")];
    let forgets = |agent: AgentBuilder| {
        agent.convert_to_llm(|_, messages| {
            messages.into_iter().filter(|m| m.as_tool_result().is_none()).collect()
        })
    };
    let run =
        run_with(|url| of::<ChatCompletions>("api.openai.com", "m", url), forgets, &replies).await;
    assert_eq!(run.outcome.end, RunStatus::Done);
    rules::openai_chat::check(run.raw[1].as_bytes(), Server::OpenAi).unwrap();
}

#[test]
fn quirk_37_blank_texts_are_left_out() {
    let text = |text: &str| ContentPart::Text { text: text.into(), signature: None };
    let image = Content::image("image/png", "AAAA");
    legal_everywhere(&request(vec![
        user("q"),
        by("m", vec![text(""), call("a", "{}")]),
        result("a", ""),
        by("m", vec![text("")]),
        UserMessage::new(vec![Content::text(""), image]).into(),
    ]));
    let blank = request(vec![
        user("q"),
        by("m", vec![text(" \n"), call("a", "{}")]),
        result("a", " "),
        user("\n"),
        user("well?"),
    ]);
    rules::anthropic::check(&encoded::<Messages>(&blank, "", "m")).unwrap();
    rules::gemini::check(&encoded::<GenerateContent>(&blank, "", "m"), "m").unwrap();
}

#[tokio::test]
async fn quirk_38_half_a_surrogate_pair_neither_fails_a_reply_nor_is_ever_sent() {
    let reply = events::<ChatCompletions>(&[&chunk(r#"{"content":"a\ud83d"}"#), &finish("stop")]);
    assert_eq!((reply.text.as_str(), reply.stop), ("a\u{fffd}", Some(StopReason::Stop)));
    let text =
        r#"{"candidates":[{"content":{"parts":[{"text":"a\ud83d"}]},"finishReason":"STOP"}]}"#;
    assert_eq!(events::<GenerateContent>(&[text]).text, "a\u{fffd}");
    let delta = concat!(
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","#,
        r#""text":"a\ud83d"}}"#,
    );
    let start =
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
    assert_eq!(events::<Messages>(&[start, delta]).text, "a\u{fffd}");
    assert_eq!(
        events::<Responses>(&[r#"{"type":"response.output_text.delta","delta":"a\ud83d"}"#]).text,
        "a\u{fffd}"
    );
    // Arguments with a lone surrogate are not valid JSON. No server receives them.
    let run = run::<ChatCompletions>(
        "",
        "m",
        &[
            chat(&call_f("a", r#"{"x":"\ud83d"}"#), "tool_calls"),
            chat(r#"{"content":"ok"}"#, "stop"),
        ],
    )
    .await;
    assert_eq!((run.ran.len(), run.outcome.end), (0, RunStatus::Done));
    let sent = &run.requests[1]["messages"][1]["tool_calls"][0]["function"]["arguments"];
    assert_eq!(sent, "{}");
    rules::openai_chat::check(run.raw[1].as_bytes(), Server::Compatible).unwrap();
}

#[test]
fn quirk_40_a_reply_may_go_on_after_its_first_reason_to_finish() {
    let part = |text: &str| {
        json!({"candidates": [{"content": {"parts": [{"text": text}]}, "finishReason": "STOP"}]})
            .to_string()
    };
    let reply = events::<GenerateContent>(&[&part("one "), &part("two")]);
    assert_eq!((reply.text.as_str(), reply.stop), ("one two", Some(StopReason::Stop)));
}

#[test]
fn quirk_41_gemini_gets_a_json_schema_as_one() {
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
        "additionalProperties": false,
        "properties": {"n": {"type": "integer", "exclusiveMinimum": 0, "default": 1}},
        "required": ["n"],
    });
    let mut request = request(vec![user("q")]);
    request.tools = Arc::new(ToolList::new(vec![Arc::new(ToolSpec::with_schema(
        "f",
        "Does f.",
        schema.clone(),
    ))]));
    let body = encoded::<GenerateContent>(&request, "", "gemini-2.5-flash");
    rules::gemini::check(&body, "gemini-2.5-flash").unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    let function = &body["tools"][0]["functionDeclarations"][0];
    schema.as_object_mut().unwrap().remove("$schema");
    assert_eq!((&function["parametersJsonSchema"], function.get("parameters")), (&schema, None));
}
