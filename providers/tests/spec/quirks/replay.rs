//! Rows 30 to 35: signatures and thinking are sent back only to the servers that expect them.

use super::kit::*;
use crate::rules;
use crate::rules::openai_chat::Server;

fn anthropic(blocks: &[Value], stop: &str) -> String {
    let mut events = vec![json!({"type": "message_start", "message": {}}).to_string()];
    for (index, block) in blocks.iter().enumerate() {
        events.push(
            json!({"type": "content_block_start", "index": index, "content_block": block})
                .to_string(),
        );
        events.push(json!({"type": "content_block_stop", "index": index}).to_string());
    }
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": stop}}).to_string());
    events.push(json!({"type": "message_stop"}).to_string());
    stream(&events.iter().map(String::as_str).collect::<Vec<_>>())
}

fn responses(items: &[&str]) -> String {
    let items = items.iter().enumerate();
    let mut events: Vec<String> = items
        .map(|(at, item)| {
            format!(r#"{{"type":"response.output_item.done","output_index":{at},"item":{item}}}"#)
        })
        .collect();
    events.push(
        r#"{"type":"response.completed","response":{"status":"completed","output":[]}}"#.into(),
    );
    stream(&events.iter().map(String::as_str).collect::<Vec<_>>())
}

#[tokio::test]
async fn quirk_30_a_thought_signature_goes_back_and_a_call_without_one_gets_the_placeholder() {
    let call = json!({"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "c2ln+/8="});
    let candidate = json!({"content": {"parts": [call]}, "finishReason": "STOP"});
    let calls = stream(&[&json!({"candidates": [candidate]}).to_string()]);
    let words = stream(&[
        r#"{"candidates":[{"content":{"parts":[{"text":"ok"}]},"finishReason":"STOP"}]}"#,
    ]);
    let run = run::<GenerateContent>("", "gemini-3-flash", &[calls, words]).await;
    assert_eq!(run.requests[1]["contents"][1]["parts"][0]["thoughtSignature"], "c2ln+/8=");
    let foreign =
        request(vec![user("q"), by("gpt-5", vec![super::kit::call("a", "{}")]), result("a", "x")]);
    let body = encoded::<GenerateContent>(&foreign, "", "gemini-3-flash");
    rules::gemini::check(&body, "gemini-3-flash").unwrap();
    assert!(String::from_utf8(body).unwrap().contains("skip_thought_signature_validator"));
}

#[tokio::test]
async fn quirk_31_thinking_goes_back_byte_for_byte_and_is_dropped_for_another_model() {
    let thought = json!({"type": "thinking", "thinking": "hm \"é\"", "signature": "EqoB+/=="});
    let sealed = json!({"type": "redacted_thinking", "data": "EmwK+/=="});
    let call = json!({"type": "tool_use", "id": "a", "name": "f", "input": {}});
    let calls = anthropic(&[thought.clone(), sealed.clone(), call], "tool_use");
    let replies = [calls, anthropic(&[json!({"type": "text", "text": "ok"})], "end_turn")];
    let thinks = |agent: AgentBuilder| agent.thinking(loopwright_core::model::ThinkingLevel::Low);
    let run = run_with(|url| of::<Messages>("", "claude-sonnet-4-5", url), thinks, &replies).await;
    let content = &run.requests[1]["messages"][1]["content"];
    assert_eq!((&content[0], &content[1]), (&thought, &sealed));
    rules::anthropic::check(run.raw[1].as_bytes()).unwrap();
    let mut second = request(Vec::new());
    second.messages = Arc::new(run.messages);
    let other = String::from_utf8(encoded::<Messages>(&second, "", "claude-opus-4-5")).unwrap();
    assert!(!other.contains("EqoB") && !other.contains("EmwK"), "{other}");
}

#[tokio::test]
async fn quirk_32_reasoning_content_goes_back_with_its_calls() {
    let call = concat!(
        r#"{"reasoning_content":"I must look.","tool_calls":[{"index":0,"id":"a","#,
        r#""function":{"name":"f"}}]}"#,
    );
    let replies =
        [chat(call, "tool_calls"), chat(r#"{"reasoning_content":"Good.","content":"ok"}"#, "stop")];
    for host in ["api.deepseek.com", "api.moonshot.ai"] {
        let run = run::<ChatCompletions>(host, "m", &replies).await;
        assert_eq!(run.requests[1]["messages"][1]["reasoning_content"], "I must look.", "{host}");
        rules::openai_chat::check(run.raw[1].as_bytes(), Server::DeepSeek).unwrap();
    }
    let other_host = run::<ChatCompletions>("api.openai.com", "gpt-4o", &replies).await;
    assert!(!other_host.raw[1].contains("I must look."));
}

/// Servers lose the thread of a model if they do not get its thinking back. Each gets it where it
/// sent it, and another model does not get it.
#[tokio::test]
async fn thinking_goes_back_with_calls_where_it_came_from() {
    let last = chat(r#"{"content":"ok"}"#, "stop");
    let part = r#"[{"type":"thinking","thinking":[{"type":"text","text":"I must look."}]}]"#;
    for (host, server, field, sent) in [
        ("localhost", Server::Compatible, "reasoning_content", r#""I must look.""#),
        ("api.z.ai", Server::Compatible, "reasoning_content", r#""I must look.""#),
        ("api.groq.com", Server::Groq, "reasoning", r#""I must look.""#),
        ("api.together.xyz", Server::Together, "reasoning", r#""I must look.""#),
        ("localhost", Server::Ollama, "reasoning", r#""I must look.""#),
        ("api.mistral.ai", Server::Mistral, "content", part),
        ("localhost", Server::Compatible, "content", r#""<think>\nI must look.\n</think>\n\n""#),
    ] {
        let mut delta: Value = serde_json::from_str(&call_f("abcdefghi", "{}")).unwrap();
        delta[field] = serde_json::from_str(sent).unwrap();
        let replies = [chat(&delta.to_string(), "tool_calls"), last.clone()];
        let run = run::<ChatCompletions>(host, "m", &replies).await;
        let back = &run.requests[1]["messages"][1];
        assert_eq!(back[field], delta[field], "{host} {field}");
        rules::openai_chat::check(run.raw[1].as_bytes(), server).unwrap();
        let mut other = request(Vec::new());
        other.messages = Arc::new(run.messages);
        let other = String::from_utf8(encoded::<ChatCompletions>(&other, host, "other")).unwrap();
        assert!(!other.contains("I must look."), "{other}");
    }
}

#[tokio::test]
async fn the_opaque_data_of_copilot_goes_back() {
    let recording = include_str!("../recordings/copilot-reasoning-text-opaque.sse");
    let reply = decode::<ChatCompletions>(&[recording.as_bytes()]);
    assert_eq!((&*reply.thinking, &*reply.text), ("think", "a"));
    let call = chunk(&call_f("a", "{}"));
    let calls = recording.replace("data: [DONE]", &stream(&[&call, "[DONE]"]));
    let replies = [calls, chat(r#"{"content":"ok"}"#, "stop")];
    let run = run::<ChatCompletions>("api.githubcopilot.com", "m", &replies).await;
    let back = &run.requests[1]["messages"][1];
    assert_eq!(
        (&back["reasoning_text"], &back["reasoning_opaque"]),
        (&json!("think"), &json!("OPQ"))
    );
}

/// C481: Gemini refuses a call without the signature that it has given it.
#[tokio::test]
async fn the_signature_of_a_call_goes_back_over_chat_completions() {
    let signed = json!({"google": {"thought_signature": "c2ln+/8="}});
    let mut calls: Value = serde_json::from_str(&call_f("a", "{}")).unwrap();
    calls["tool_calls"][0]["extra_content"] = signed.clone();
    let second = json!({"index": 1, "id": "b", "function": {"name": "f", "arguments": "{}"}});
    calls["tool_calls"].as_array_mut().unwrap().push(second);
    let replies = [chat(&calls.to_string(), "tool_calls"), chat(r#"{"content":"ok"}"#, "stop")];
    let host = "generativelanguage.googleapis.com";
    let run = run::<ChatCompletions>(host, "gemini-3-flash", &replies).await;
    let sent = &run.requests[1]["messages"][1]["tool_calls"];
    assert_eq!((&sent[0]["extra_content"], sent[1].get("extra_content")), (&signed, None));
    let mut other = request(Vec::new());
    other.messages = Arc::new(run.messages);
    for host in ["localhost", "api.openai.com"] {
        let body = encoded::<ChatCompletions>(&other, host, "gpt-5.1");
        assert!(!String::from_utf8(body).unwrap().contains("c2ln"), "{host}");
    }
    let handed_over: Value =
        serde_json::from_slice(&encoded::<ChatCompletions>(&other, host, "gemini-3.1-pro"))
            .unwrap();
    let calls = &handed_over["messages"][1]["tool_calls"];
    let placeholder = &calls[0]["extra_content"]["google"]["thought_signature"];
    assert_eq!(placeholder, "skip_thought_signature_validator");
    assert_eq!(calls[1].get("extra_content"), None);
}

#[tokio::test]
async fn quirk_33_reasoning_goes_back_whole_with_what_followed_it() {
    let item =
        r#"{"id":"rs_1",  "type":"reasoning","summary":[],"encrypted_content":"gAAA\u0042"}"#;
    let call = r#"{"type":"function_call","id":"fc_1","call_id":"a","name":"f","arguments":"{}"}"#;
    let message =
        r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"ok"}]}"#;
    let run =
        run::<Responses>("", "gpt-5.1", &[responses(&[item, call]), responses(&[message])]).await;
    assert_eq!(run.raw[1].matches(item).count(), 1, "{}", run.raw[1]);
    assert_eq!(
        (&run.requests[1]["store"], &run.requests[1]["include"][0]),
        (&json!(false), &json!("reasoning.encrypted_content"))
    );
    rules::openai_responses::check(run.raw[1].as_bytes()).unwrap();
    let thought = || ContentPart::Thinking { text: String::new(), signature: Some(item.into()) };
    let alone = request(vec![user("q"), by("m", vec![thought()]), user("well?")]);
    assert!(
        !String::from_utf8(encoded::<Responses>(&alone, "", "m")).unwrap().contains("rs_1"),
        "nothing followed it"
    );
    let stop = StopReason::Aborted;
    let aborted = AssistantMessage::new(vec![thought(), call_part()]).stop(stop).model("m");
    let aborted = request(vec![user("q"), aborted.into(), user("well?")]);
    assert!(
        !String::from_utf8(encoded::<Responses>(&aborted, "", "m")).unwrap().contains("rs_1"),
        "it was aborted"
    );
}

fn call_part() -> ContentPart {
    call("a", "{}")
}

#[test]
fn quirk_34_an_item_is_known_by_its_index_though_its_id_changes() {
    let reply = events::<Responses>(&[
        concat!(
            r#"{"type":"response.output_item.added","output_index":0,"#,
            r#""item":{"type":"message","id":"one","content":[]}}"#,
        ),
        r#"{"type":"response.output_text.delta","output_index":0,"item_id":"two","delta":"a"}"#,
        concat!(
            r#"{"type":"response.output_item.done","output_index":0,"#,
            r#""item":{"type":"message","id":"three","content":[{"type":"output_text","#,
            r#""text":"a"}]}}"#,
        ),
        r#"{"type":"response.completed","response":{"status":"completed"}}"#,
    ]);
    assert_eq!((reply.text.as_str(), reply.stop), ("a", Some(StopReason::Stop)));
}

#[test]
fn quirk_35_an_end_without_output_takes_nothing_away() {
    let call = concat!(
        r#"{"type":"response.output_item.done","output_index":0,"#,
        r#""item":{"type":"function_call","call_id":"a","name":"f","arguments":"{}"}}"#,
    );
    let reply = events::<Responses>(&[
        call,
        r#"{"type":"response.completed","response":{"status":"completed","output":[]}}"#,
    ]);
    assert_eq!(
        (reply.calls(), reply.stop),
        (vec!["a f {}".to_owned()], Some(StopReason::ToolCalls))
    );
}

/// A turn that the provider paused during its own tools is continued, and the loop receives one
/// reply.
#[tokio::test]
async fn a_turn_that_is_paused_goes_on_below_the_loop() {
    let search = json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search",
        "input": {"query": "x"}});
    let search_result =
        json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []});
    let text = |text: &str| json!({"type": "text", "text": text});
    let replies = [
        anthropic(&[text("I look. "), search.clone()], "pause_turn"),
        anthropic(std::slice::from_ref(&search_result), "pause_turn"),
        anthropic(&[text("Found.")], "end_turn"),
    ];
    let run = run::<Messages>("", "claude-sonnet-4-5", &replies).await;
    assert_eq!((run.outcome.end, run.messages.len()), (RunStatus::Done, 2));
    assert_eq!(run.messages[1].text(), "I look. Found.");
    let sent = |at: usize| run.requests[at]["messages"].as_array().unwrap().clone();
    assert_eq!(sent(1)[1..], [json!({"role": "assistant", "content": [text("I look. "), search]})]);
    assert_eq!(
        sent(2)[1..],
        [json!({"role": "assistant", "content": [text("I look. "), search, search_result]})]
    );
    for at in [0, 1, 2] {
        rules::anthropic::check(run.raw[at].as_bytes()).unwrap();
        assert_eq!(run.requests[at]["tools"], run.requests[0]["tools"]);
    }
}
