//! Rows 1 to 10: tool calls in all forms, wrong finish reasons, and usage in all positions.

use super::kit::*;

#[test]
fn quirk_01_a_call_without_an_index_is_matched_by_its_id_or_continues_the_latest() {
    let fragment = |fragment: &str| chunk(&format!("{{\"tool_calls\":[{fragment}]}}"));
    let payloads = [
        fragment(r#"{"id":"a","function":{"name":"f","arguments":"{\"x\":"}}"#),
        fragment(r#"{"function":{"arguments":"1}"}}"#),
        fragment(r#"{"id":"b","function":{"name":"g","arguments":"{"}}"#),
        fragment(r#"{"id":"b","function":{"arguments":"}"}}"#),
        finish("tool_calls"),
    ];
    let reply = events::<ChatCompletions>(&payloads.each_ref().map(String::as_str));
    assert_eq!(reply.calls(), ["a f {\"x\":1}", "b g {}"]);
}

#[test]
fn quirk_02_parallel_calls_that_all_have_index_0_are_calls_of_their_own() {
    let call = |id: &str, name: &str| {
        let function = json!({"name": name, "arguments": "{}"});
        chunk(&json!({"tool_calls": [{"index": 0, "id": id, "function": function}]}).to_string())
    };
    let reply = events::<ChatCompletions>(&[
        &call("a", "f"),
        &call("b", "f"),
        &call("c", "g"),
        &finish("tool_calls"),
    ]);
    assert_eq!(reply.calls(), ["a f {}", "b f {}", "c g {}"]);
}

#[test]
fn quirk_03_an_index_may_start_anywhere() {
    let fragment = |index: u64, rest: &str| {
        chunk(&format!("{{\"tool_calls\":[{{\"index\":{index},{rest}}}]}}"))
    };
    let reply = events::<ChatCompletions>(&[
        &fragment(1, r#""id":"a","function":{"name":"f","arguments":""}"#),
        &fragment(4_000_000_000, r#""id":"b","function":{"name":"g","arguments":"{"}"#),
        &fragment(1, r#""function":{"arguments":"{\"x\":1}"}"#),
        &fragment(4_000_000_000, r#""function":{"arguments":"}"}"#),
        &finish("tool_calls"),
    ]);
    assert_eq!(reply.calls(), ["a f {\"x\":1}", "b g {}"]);
}

#[tokio::test]
async fn quirk_04_arguments_that_are_an_object_are_taken_and_go_back_as_a_string() {
    let call =
        r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":{"x":1}}}]}"#;
    let run = run::<ChatCompletions>(
        "",
        "m",
        &[chat(call, "tool_calls"), chat(r#"{"content":"ok"}"#, "stop")],
    )
    .await;
    assert_eq!(run.ran, [json!({"x": 1})]);
    assert_eq!(
        run.requests[1]["messages"][1]["tool_calls"][0]["function"]["arguments"],
        "{\"x\":1}"
    );
}

#[tokio::test]
async fn quirk_05_no_arguments_are_none_and_what_is_no_object_is_an_error() {
    let ok = || chat(r#"{"content":"ok"}"#, "stop");
    for none in [r#""""#, "null", "{}"] {
        let function = format!(r#"{{"name":"f","arguments":{none}}}"#);
        let call = format!(r#"{{"tool_calls":[{{"index":0,"id":"a","function":{function}}}]}}"#);
        let run = run::<ChatCompletions>("", "m", &[chat(&call, "tool_calls"), ok()]).await;
        assert_eq!(run.ran, [json!({})], "{none}");
    }
    for other in ["[1]", "7", "\"x\"", "nonsense"] {
        let run =
            run::<ChatCompletions>("", "m", &[chat(&call_f("a", other), "tool_calls"), ok()]).await;
        assert_eq!((run.ran.len(), run.results()[0].status), (0, ResultStatus::Error), "{other}");
        assert_eq!(
            run.requests[1]["messages"][1]["tool_calls"][0]["function"]["arguments"], "{}",
            "{other}"
        );
    }
}

#[tokio::test]
async fn quirk_06_calls_are_run_whatever_the_reason_to_finish() {
    for reason in ["stop", "end_turn", "eos", "function_call"] {
        let replies = [chat(&call_f("a", "{}"), reason), chat(r#"{"content":"ok"}"#, "stop")];
        let run = run::<ChatCompletions>("", "m", &replies).await;
        assert_eq!((run.ran.len(), run.requests.len()), (1, 2), "{reason}");
    }
    let block = concat!(
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","#,
        r#""id":"a","name":"f"}}"#,
    );
    let end = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#;
    let reply = events::<Messages>(&[block, end, r#"{"type":"message_stop"}"#]);
    assert_eq!(
        (reply.stop, reply.calls()),
        (Some(StopReason::ToolCalls), vec!["a f {}".to_owned()])
    );
}

#[tokio::test]
async fn quirk_07_finish_tool_calls_without_calls_is_a_stop() {
    let run =
        run::<ChatCompletions>("", "m", &[chat(r#"{"content":"that is all"}"#, "tool_calls")])
            .await;
    assert_eq!((run.outcome.end, run.requests.len()), (RunStatus::Done, 1), "no second request");
    assert_eq!(run.messages.last().unwrap().as_assistant().unwrap().stop, StopReason::Stop);
}

#[tokio::test]
async fn quirk_08_a_truncated_call_is_never_run_and_its_result_explains_why() {
    let ok = || chat(r#"{"content":"ok"}"#, "stop");
    let by_limit =
        run::<ChatCompletions>("", "m", &[chat(&call_f("a", "{\"x\": \"lon"), "length"), ok()])
            .await;
    assert!(by_limit.ran.is_empty());
    assert_eq!(by_limit.results()[0].status, ResultStatus::Error);
    assert!(by_limit.results()[0].text().contains("limit"), "{}", by_limit.results()[0].text());
    let whole = run::<ChatCompletions>("", "m", &[chat(&call_f("a", "{}"), "length"), ok()]).await;
    assert!(whole.ran.is_empty(), "it may not be all that was meant");
    let unsaid =
        run::<ChatCompletions>("", "m", &[chat(&call_f("a", "{\"x\": \"lon"), "tool_calls"), ok()])
            .await;
    assert!(unsaid.ran.is_empty());
    assert!(
        unsaid.results()[0].text().contains("lon"),
        "what came is shown: {}",
        unsaid.results()[0].text()
    );
}

#[test]
fn quirk_09_usage_may_come_with_no_choices() {
    for choices in ["[]", "null"] {
        let filter = r#"{"choices":[],"prompt_filter_results":[{"prompt_index":0}]}"#;
        let usage = format!(
            r#"{{"choices":{choices},"usage":{{"prompt_tokens":5,"completion_tokens":2}}}}"#
        );
        let reply = events::<ChatCompletions>(&[
            filter,
            &chunk(r#"{"content":"a"}"#),
            &finish("stop"),
            &usage,
            "[DONE]",
        ]);
        assert_eq!((reply.text.as_str(), reply.stop), ("a", Some(StopReason::Stop)));
        assert_eq!(reply.usage, Usage::new(5, 2), "{choices}");
    }
}

#[test]
fn quirk_10_the_last_usage_counts_and_ends_nothing() {
    let with = |text: &str, key: &str, tokens: u32| {
        let usage = json!({"prompt_tokens": 5, "completion_tokens": tokens});
        let mut chunk = json!({"choices": [{"index": 0, "delta": {"content": text}}]});
        match key {
            "x_groq" => chunk["x_groq"] = json!({"usage": usage}),
            key => chunk[key] = usage,
        }
        chunk.to_string()
    };
    for key in ["usage", "x_groq"] {
        let reply =
            events::<ChatCompletions>(&[&with("a", key, 1), &with("b", key, 2), &finish("stop")]);
        assert_eq!((reply.text.as_str(), reply.usage.output), ("ab", 2), "{key}");
        let cut = events::<ChatCompletions>(&[&with("a", key, 1)]);
        assert_eq!(cut.error_kind(), Some(ModelErrorKind::Network), "usage is no end: {key}");
    }
}
