//! `Anthropic` against a server.

use std::sync::Arc;

use futures::StreamExt;
use loopwright_core::message::{MessageId, StopReason, Usage, UserMessage};
use loopwright_core::model::{BlockKind, ChatRequest, ModelEvent, Prices, ToolChoice};
use loopwright_core::tool::{ToolList, ToolSpec};
use loopwright_core::{ChatModel, Message};
use loopwright_providers::Anthropic;
use serde_json::json;

use crate::quirks::kit;
use crate::server::Server;

#[tokio::test]
async fn a_reply_is_streamed_and_the_key_is_where_it_belongs() {
    let server = Server::start().await;
    let model =
        Anthropic::builder("m").base_url(server.url()).api_key("sk-very-secret").build().unwrap();
    let mut request = ChatRequest::default();
    request.messages = vec![Message::new(MessageId(1), UserMessage::from("Hi")).into()].into();
    let serve = async {
        let mut http = server.accept().await;
        assert!(http.head.starts_with("post /v1/messages http/1.1"), "{}", http.head);
        assert!(
            http.head.contains("x-api-key: sk-very-secret")
                && http.head.contains("anthropic-version: 2023-06-01")
        );
        assert!(!http.head.contains("authorization"));
        assert_eq!(http.body["messages"][0]["content"][0]["text"], "Hi");
        http.begin().await;
        for event in [
            r#"{"type":"message_start","message":{"usage":{"input_tokens":5,"output_tokens":1}}}"#,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
            r#"{"type":"ping"}"#,
            concat!(
                r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","#,
                r#""text":"Hello"}}"#,
            ),
            r#"{"type":"content_block_stop","index":0}"#,
            concat!(
                r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"#,
                r#""usage":{"output_tokens":2}}"#,
            ),
            r#"{"type":"message_stop"}"#,
        ] {
            http.chunk(&format!("event: some\ndata: {event}\n\n")).await;
        }
        http.end().await;
        http
    };
    let (mut events, _http) = tokio::join!(model.stream(request).collect::<Vec<_>>(), serve);
    let expected = [
        ModelEvent::BlockStart { block: 0, kind: BlockKind::Text },
        ModelEvent::Delta { block: 0, delta: "Hello".into() },
        ModelEvent::BlockEnd { block: 0, signature: None },
        ModelEvent::Done { stop: StopReason::Stop, usage: Usage::new(5, 2) },
    ];
    // The number of usage reports before the end depends on the timing of the events.
    events.retain(|event| !matches!(event, ModelEvent::Usage(_)));
    assert_eq!(events, expected);
}

/// The instruction to call a tool is part of one request only. The next request would be refused if
/// it contained the thinking after it.
#[tokio::test]
async fn what_was_thought_after_words_that_do_not_stay_is_not_signed() {
    let signatures = async |choice: ToolChoice| {
        let server = Server::start().await;
        let model = Anthropic::builder("claude-opus-5-5").base_url(server.url()).build().unwrap();
        let mut request = ChatRequest::default();
        request.messages = vec![Message::new(MessageId(1), UserMessage::from("Hi")).into()].into();
        request.tools = Arc::new(ToolList::new(vec![Arc::new(ToolSpec::with_schema(
            "f",
            "",
            json!({"type": "object"}),
        ))]));
        request.tool_choice = choice;
        let serve = async {
            let mut http = server.accept().await;
            let events = [
                r#"{"type":"message_start","message":{}}"#,
                concat!(
                    r#"{"type":"content_block_start","index":0,"#,
                    r#""content_block":{"type":"thinking","thinking":"hm","#,
                    r#""signature":"s"}}"#,
                ),
                r#"{"type":"content_block_stop","index":0}"#,
                r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#,
                r#"{"type":"message_stop"}"#,
            ];
            let body: String = events.map(|event| format!("data: {event}\n\n")).concat();
            http.answer(
                "200 OK",
                "content-type: text/event-stream\r\nconnection: close\r\n",
                &body,
            )
            .await;
        };
        let (events, ()) = tokio::join!(model.stream(request).collect::<Vec<_>>(), serve);
        assert!(matches!(events.last(), Some(ModelEvent::Done { .. })), "{events:?}");
        events
            .iter()
            .filter(|event| matches!(event, ModelEvent::BlockEnd { signature: Some(_), .. }))
            .count()
    };
    assert_eq!(
        [signatures(ToolChoice::Auto).await, signatures(ToolChoice::Required).await],
        [1, 0]
    );
}

#[tokio::test]
async fn the_cost_of_a_run_has_each_request_that_the_provider_made_for_a_reply() {
    let usage = json!({"input_tokens": 612, "output_tokens": 2819,
    "cache_creation_input_tokens": 1000,
    "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 1000},
    "iterations": [
        {"type": "compaction", "input_tokens": 60_385, "output_tokens": 522},
        {"type": "message", "input_tokens": 612, "output_tokens": 2819,
         "cache_creation_input_tokens": 1000,
         "cache_creation": {"ephemeral_1h_input_tokens": 1000}},
    ]});
    let reply = kit::stream(&[
        &json!({"type": "content_block_start", "index": 0,
            "content_block": {"type": "text", "text": "Hi."}})
        .to_string(),
        &json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage})
            .to_string(),
        r#"{"type":"message_stop"}"#,
    ]);
    let prices = Prices::new(5.0, 25.0).cache(0.5, 6.25);
    let model = |url: &str| Anthropic::builder("m").base_url(url).prices(prices).build().unwrap();
    let run = kit::run_with(model, |agent| agent, &[reply]).await;
    let dollars = (60_997.0 * 5.0 + 3341.0 * 25.0 + 1000.0 * 10.0) / 1e6;
    assert!((run.outcome.cost - dollars).abs() < 1e-9, "{} is not {dollars}", run.outcome.cost);
    assert_eq!((run.outcome.usage.input, run.outcome.usage.output), (60_997, 3341));
}
