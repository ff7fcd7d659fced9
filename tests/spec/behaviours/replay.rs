//! B30 to B43: a history that is sent again, and the effects of providers on a run.

use std::collections::VecDeque;

use futures::StreamExt;
use loopwright_providers::openai_chat::{Decoder, Settings, encode};
use loopwright_providers::{Decode, Endpoint, OpenAiChat, Progress, Retry};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::kit::*;

fn endpoint() -> Endpoint {
    Endpoint { provider: "test".into(), host: "here".into(), key_var: None }
}

/// Returns a request as a Chat Completions server receives it.
fn on_the_wire(request: &ChatRequest) -> Value {
    serde_json::from_slice(&encode(request, &Settings::new("m"))).unwrap()
}

/// Decodes a Chat Completions stream of these payloads. Returns its events and its progress.
fn decoded(payloads: &[&str]) -> (Vec<ModelEvent>, Progress) {
    let (mut decoder, mut out, mut progress) =
        (Decoder::new(endpoint()), VecDeque::new(), Progress::Open);
    for payload in payloads {
        progress = decoder.decode(payload, &mut out);
    }
    (out.into(), progress)
}

/// B30: a stream that is aborted half-way keeps its text as `aborted`. The next prompt works, and
/// the model sees the same as the user.
#[tokio::test(start_paused = true)]
async fn an_aborted_reply_is_kept_and_sent() {
    let mut harness = pi([slow(9, ms(10)), Script::text("ok")], &[]).await;
    send(&harness, "go").await;
    harness.until(is_delta).await;
    harness.handle.abort().await.unwrap();
    harness.run_end().await;
    harness.handle.prompt("again").await.unwrap();
    assert_eq!(harness.transcript().await, ["U:go", "A:w0 /Aborted", "U:again", "A:ok/Stop"]);
    assert_eq!(harness.model.requests()[1].messages.len(), 3);
}

/// B31: an abort before the first delta ends the run as aborted. No text was streamed, so no
/// message exists.
#[tokio::test(start_paused = true)]
async fn an_abort_before_the_first_delta_leaves_no_message() {
    let mut harness = pi([Script::text("never")], &[]).await;
    let (sent, aborted) = tokio::join!(
        harness.handle.send(InputEvent::UserRequest("go".into())),
        harness.handle.abort()
    );
    assert!(sent.is_ok() && aborted.is_ok());
    let outcome = outcome_of(&harness.run_end().await);
    assert_eq!(
        (outcome.end, outcome.error.as_ref(), outcome.text.as_str()),
        (RunStatus::Aborted, None, "")
    );
    harness.handle.wait_for_idle().await;
    assert_eq!(harness.transcript().await, ["U:go"], "and the request does not start another run");
}

/// B32: empty messages, of the user or the model, neither end a run in an error nor are sent.
#[tokio::test(start_paused = true)]
async fn empty_messages_are_harmless() {
    let empty = UserMessage::new(vec![]);
    let harness =
        pi([Script::new(), Script::new(), Script::text(" "), Script::text("ok")], &[]).await;
    let empty_reply = (RunStatus::Incomplete, Some(IncompleteReply::Empty));
    for prompt in [empty, "".into(), " \n".into()] {
        let outcome = harness.handle.prompt(prompt).await.unwrap();
        assert_eq!((outcome.end, outcome.incomplete), empty_reply);
    }
    assert_eq!(harness.handle.prompt("hi").await.unwrap().end, RunStatus::Done);
    for request in harness.model.requests() {
        let body = on_the_wire(&request);
        let contents =
            body["messages"].as_array().unwrap().iter().map(|m| m["content"].as_str().unwrap());
        assert!(contents.into_iter().all(|text| !text.is_empty()), "{body}");
    }
}

/// B33: a call that a crash left without a result gets one, directly after its message and before
/// the next user message.
#[tokio::test(start_paused = true)]
async fn a_call_without_a_result_gets_one_before_the_next_message() {
    let harness =
        pi([calls(&["x"]), Script::text("ok"), Script::text("ok")], &[TestTool::new("x")]).await;
    harness.handle.prompt("go").await.unwrap();
    let items = harness.memory.entries();
    let cut = items.iter().position(|i| matches!(i, LogEntry::Replied { .. })).unwrap() + 1;
    let harness = harness.restart_from(items[..cut].to_vec()).await;
    harness.handle.prompt("never mind").await.unwrap();
    assert_eq!(
        harness.transcript().await,
        ["U:go", "A:[a]/ToolCalls", "R:a/Skipped", "U:never mind", "A:ok/Stop"]
    );
    assert!(result_of(&harness, "a").await.contains("before it started"));
}

/// B34: a reply that ended in an error is kept without its calls, and is in no request.
#[tokio::test(start_paused = true)]
async fn a_failed_reply_is_in_no_request_and_its_calls_do_not_run() {
    let tool = TestTool::new("x");
    let failed =
        Script::new().say("half").call("a", "x", "{}").fail(ModelErrorKind::Network, "cut");
    let harness = pi([failed, Script::text("ok")], std::slice::from_ref(&tool)).await;
    harness.handle.prompt("go").await.unwrap();
    harness.handle.prompt("again").await.unwrap();
    assert_eq!(harness.transcript().await, ["U:go", "A:half/Error", "U:again", "A:ok/Stop"]);
    assert_eq!((harness.model.requests()[1].messages.len(), tool.ran()), (2, 0));
}

/// B35: core keeps a new id unchanged, whatever its length and letters, and a result names its
/// call's id. Adapters rewrite ids that their provider refuses, and see calls and results alike.
#[tokio::test(start_paused = true)]
async fn a_result_names_its_call_whatever_the_id_looks_like() {
    let long = format!("call|{}", "x".repeat(450));
    let twice = Script::new().call(&long, "x", "{}").call(&long, "x", "{}").call("", "x", "{}");
    let harness = pi([twice, Script::text("ok")], &[TestTool::new("x")]).await;
    harness.handle.prompt("go").await.unwrap();
    let body = on_the_wire(&harness.model.requests()[1]);
    let calls: Vec<&Value> =
        body["messages"][1]["tool_calls"].as_array().unwrap().iter().map(|c| &c["id"]).collect();
    let results: Vec<&Value> = (2..5).map(|i| &body["messages"][i]["tool_call_id"]).collect();
    assert_eq!(calls, results);
    assert_eq!(*calls[0], json!(long));
    assert!(calls[1] != calls[0] && *calls[2] != json!(""));
}

/// B36: Chat Completions has no field for thinking, so another model's thinking and signatures are
/// never sent. The adapters of formats with such a field keep them for the same model, which every
/// message names.
#[test]
fn thinking_and_signatures_of_another_model_are_not_sent() {
    let signature = || Some("sig".into());
    let call = ToolCall::new("a", "x", "{}").signature(signature());
    let parts = vec![
        ContentPart::Thinking { text: "secret thought".into(), signature: signature() },
        ContentPart::Text { text: "said".into(), signature: signature() },
        ContentPart::ToolCall(call),
    ];
    let message = AssistantMessage::new(parts).model("other/model");
    let mut request = ChatRequest::default();
    request.messages = Arc::new(vec![Arc::new(Message::new(MessageId(1), message))]);
    let text = on_the_wire(&request)["messages"].to_string();
    assert!(text.contains("said") && text.contains("\"a\""), "{text}");
    assert!(!text.contains("secret thought") && !text.contains("sig"), "{text}");
}

/// B37: an unsigned call goes to Gemini 3 with the documented placeholder, and to other models
/// without it.
#[test]
fn an_unsigned_call_gets_the_placeholder_with_gemini_3_only() {
    use loopwright_providers::gemini;
    let call = ToolCall::new("a", "x", "{}");
    let message = AssistantMessage::new(vec![ContentPart::ToolCall(call)]).model("other/model");
    let mut request = ChatRequest::default();
    request.messages = Arc::new(vec![Arc::new(Message::new(MessageId(1), message))]);
    let body = |model: &str| {
        let mut settings = gemini::Settings::new(model);
        settings.profile = gemini::Profile::of_model(model);
        String::from_utf8(gemini::encode(&request, &settings)).unwrap()
    };
    assert!(body("gemini-3-pro-preview").contains("thoughtSignature"));
    assert!(!body("gemini-2.5-flash").contains("thoughtSignature"));
}

/// B38: a call without arguments has the arguments `{}`, from any provider.
#[tokio::test(start_paused = true)]
async fn a_call_without_arguments_has_an_empty_object() {
    let mut harness =
        pi([Script::new().call("a", "x", ""), Script::text("ok")], &[TestTool::new("x")]).await;
    send(&harness, "go").await;
    let started = harness.until(starts).await;
    let Some(AgentEvent::ToolExecutionStart { arguments, .. }) = started.last().map(|e| &e.event)
    else {
        panic!()
    };
    assert_eq!(**arguments, json!({}));
    harness.run_end().await;
    assert_eq!(statuses(&harness).await, [ResultStatus::Ok]);
}

/// B39: a stream that ends without an event is an error that is retried below the loop. Consumers
/// receive one start.
#[tokio::test(start_paused = true)]
async fn an_empty_stream_is_retried_and_consumers_see_one_start() {
    let mut out = VecDeque::new();
    Decoder::new(endpoint()).finish(&mut out);
    let Some(ModelEvent::Error(empty)) = out.pop_front() else {
        panic!("an empty stream is an error")
    };
    assert!(empty.kind.is_retryable());
    let model = ScriptedModel::new([Script::error(empty.kind, &empty.message), Script::text("ok")]);
    let agent = GenericAgent::builder(Retry::new(model.clone()), PiPattern).build().unwrap();
    let (handle, mut events) = agent.run(RunContext::new()).await.unwrap();
    assert_eq!(handle.prompt("go").await.unwrap().text, "ok");
    let emitted: Vec<_> = std::iter::from_fn(|| events.try_next()).collect();
    let started = emitted
        .iter()
        .filter(|e| matches!(e.event, AgentEvent::MessageStart { role: Role::Assistant, .. }))
        .count();
    assert_eq!((started, model.requests().len()), (1, 2));
    assert!(
        !emitted.iter().any(|e| matches!(
            e.event,
            AgentEvent::MessageUpdate { update: Update::Withdrawn, .. }
        ))
    );
}

/// B40: text is UTF-8 here, so a lone surrogate can only be an escape in raw JSON. It is an error
/// result that the model can correct, and the request body is valid.
#[tokio::test(start_paused = true)]
async fn a_lone_surrogate_is_an_error_result() {
    let broken = Script::new().call("a", "x", r#"{"text": "\ud83d"}"#);
    let tool = TestTool::new("x");
    let harness = pi([broken, Script::text("ok")], std::slice::from_ref(&tool)).await;
    assert_eq!(harness.handle.prompt("go").await.unwrap().end, RunStatus::Done);
    assert_eq!((statuses(&harness).await, tool.ran()), (vec![ResultStatus::Error], 0));
    assert!(result_of(&harness, "a").await.contains("not valid JSON"));
    let body = on_the_wire(&harness.model.requests()[1]);
    let sent = &body["messages"][1]["tool_calls"][0]["function"]["arguments"];
    assert!(serde_json::from_str::<Value>(sent.as_str().unwrap()).is_ok(), "{sent}");
}

/// Returns the requested wait of a refusal with these headers.
async fn asked_to_wait(headers: &str) -> Option<Duration> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let model = OpenAiChat::builder("m").base_url(url).build().unwrap();
    let answer = format!(
        "HTTP/1.1 429 Too Many Requests\r\nconnection: close\r\ncontent-length: 0\r\n{headers}\r\n"
    );
    let serve = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut seen = Vec::new();
        while !seen.ends_with(b"}") {
            assert!(stream.read_buf(&mut seen).await.unwrap() > 0);
        }
        stream.write_all(answer.as_bytes()).await.unwrap();
    };
    let (events, ()) =
        tokio::join!(model.stream(ChatRequest::default()).collect::<Vec<_>>(), serve);
    match events.last() {
        Some(ModelEvent::Error(error)) => error.retry_after,
        other => panic!("{other:?}"),
    }
}

/// B41: a provider's requested wait is read in seconds, in milliseconds, as a date, and from the
/// reset of its limits. A header about the retry takes precedence over a header about the limits.
#[tokio::test]
async fn the_wait_that_a_provider_asks_for_is_understood() {
    let seconds = Duration::from_secs;
    assert_eq!(asked_to_wait("retry-after: 7\r\nx-ratelimit-reset: 9\r\n").await, Some(seconds(7)));
    assert_eq!(asked_to_wait("retry-after-ms: 250\r\nretry-after: 1\r\n").await, Some(ms(250)));
    let date = asked_to_wait("retry-after: Tue, 31 Dec 2199 23:59:59 GMT\r\n").await;
    assert!(date.is_some_and(|wait| wait > seconds(3600)), "{date:?}");
    let both = "retry-after: Tue, 31 Dec 2199 23:59:59 GMT\r\nretry-after: 7\r\n\
                x-ratelimit-reset-after: 9\r\n";
    assert_eq!(asked_to_wait(both).await, Some(seconds(7)));
    assert_eq!(asked_to_wait("x-ratelimit-reset-after: 9\r\n").await, Some(seconds(9)));
    assert_eq!(asked_to_wait("x-ratelimit-reset: 9\r\n").await, Some(seconds(9)));
}

/// B42: a reply ends when its format says so, not when the body closes, and a truncated reply has
/// the stop reason `length`. Shown for Chat Completions. The Responses adapter handles
/// `response.completed` and `response.incomplete`.
#[test]
fn a_reply_ends_with_its_last_event_and_a_cut_one_says_so() {
    let cut = r#"{"choices":[{"index":0,"delta":{"content":"Hel"},"finish_reason":"length"}]}"#;
    let (events, progress) = decoded(&[cut, "[DONE]"]);
    assert_eq!(progress, Progress::Ended, "the transport closes the body itself");
    assert!(
        matches!(events.last(), Some(ModelEvent::Done { stop: StopReason::Length, .. })),
        "{events:?}"
    );
}

/// B43: the total of a usage is input, output, cache reads and cache writes, and no token is
/// counted twice.
#[test]
fn a_total_counts_every_token_once() {
    let usage = Usage::new(1, 20).cache(300, 4000).reasoning(7);
    assert_eq!(usage.total(), 4321);
    let done = r#"{"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}"#;
    let counted = r#"{"choices":[],"usage":{
        "prompt_tokens":100,"completion_tokens":20,"total_tokens":120,
        "prompt_tokens_details":{"cached_tokens":40},
        "completion_tokens_details":{"reasoning_tokens":5}}}"#;
    let (events, _) = decoded(&[done, counted, "[DONE]"]);
    let Some(ModelEvent::Done { usage, .. }) = events.last() else { panic!("{events:?}") };
    assert_eq!(*usage, Usage::new(60, 20).cache(40, 0).reasoning(5));
    assert_eq!(usage.total(), 120);
}
