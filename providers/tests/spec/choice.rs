//! Models chosen by `provider/name`, against a server.

use futures::StreamExt;
use loopwright_core::message::{MessageId, StopReason, UserMessage};
use loopwright_core::model::{ChatRequest, ModelEvent};
use loopwright_core::{ChatModel, Message};
use loopwright_providers::{Catalogue, Http, first_model, resolve_with};
use serde_json::Value;

use crate::server::Server;

const CHAT: &[&str] = &[
    r#"{"choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]}"#,
    r#"{"choices":[],"usage":{"prompt_tokens":10000,"completion_tokens":500}}"#,
    "[DONE]",
];
const RESPONSES: &[&str] = &[
    concat!(
        r#"{"type":"response.output_item.added","output_index":0,"#,
        r#""item":{"type":"message","content":[]}}"#,
    ),
    r#"{"type":"response.output_text.delta","output_index":0,"delta":"Hi"}"#,
    concat!(
        r#"{"type":"response.completed","response":{"status":"completed","output":[],"#,
        r#""usage":{"input_tokens":10000,"output_tokens":500}}}"#,
    ),
];
const MESSAGES: &[&str] = &[
    r#"{"type":"message_start","message":{"usage":{"input_tokens":10000,"output_tokens":1}}}"#,
    r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}"#,
    r#"{"type":"content_block_stop","index":0}"#,
    r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":500}}"#,
    r#"{"type":"message_stop"}"#,
];
const GEMINI: &[&str] = &[concat!(
    r#"{"candidates":[{"content":{"parts":[{"text":"Hi"}]},"finishReason":"STOP"}],"#,
    r#""usageMetadata":{"promptTokenCount":10000,"candidatesTokenCount":500}}"#,
)];

/// Sends a request to the model `id` on a server that replies with `payloads`. Returns the head and
/// the body of the request, and the cost of the reply.
async fn asked(id: &str, payloads: &[&str], catalogue: &Catalogue) -> (String, Value, Option<f64>) {
    let server = Server::start().await;
    let model = resolve_with(id, Some(&server.url()), catalogue, |_| Some("sk-of-the-test".into()))
        .unwrap();
    let model = model.build().unwrap();
    let mut request = ChatRequest::default();
    request.messages = vec![Message::new(MessageId(1), UserMessage::from("Hi")).into()].into();
    let serve = async {
        let mut http = server.accept().await;
        http.begin().await;
        for payload in payloads {
            http.chunk(&format!("data: {payload}\n\n")).await;
        }
        http.end().await;
        http
    };
    let (events, http) = tokio::join!(model.stream(request).collect::<Vec<_>>(), serve);
    let Some(ModelEvent::Done { stop: StopReason::Stop, usage }) = events.last() else {
        panic!("{id}: {events:?}")
    };
    assert_eq!((usage.input, usage.output), (10_000, 500), "{id}");
    (http.head, http.body, model.info().prices.map(|prices| prices.cost(usage)))
}

#[tokio::test]
async fn each_format_is_spoken_by_the_models_that_want_it_and_costs_what_they_cost() {
    let catalogue = Catalogue::built_in();
    for (id, payloads, path, key, cost) in [
        (
            "openai/gpt-4o-mini",
            CHAT,
            "/v1/chat/completions",
            "authorization: bearer sk-of-the-test",
            0.0018,
        ),
        (
            "openai-responses/gpt-6-sol",
            RESPONSES,
            "/v1/responses",
            "authorization: bearer sk-of-the-test",
            0.025,
        ),
        ("anthropic/claude-opus-5-5", MESSAGES, "/v1/messages", "x-api-key: sk-of-the-test", 0.05),
        (
            "gemini/gemini-2.5-pro",
            GEMINI,
            "/v1/models/gemini-2.5-pro:streamgeneratecontent?alt=sse",
            "x-goog-api-key: sk-of-the-test",
            0.0175,
        ),
    ] {
        let (head, _, received) = asked(id, payloads, &catalogue).await;
        assert!(head.starts_with(&format!("post {path} http/1.1")), "{head}");
        assert!(head.contains(key), "{head}");
        assert!(
            received.is_some_and(|received| (received - cost).abs() < 1e-9),
            "{id}: {received:?} instead of {cost}"
        );
    }
}

#[tokio::test]
async fn an_anthropic_model_gets_its_own_output_limit() {
    let mut catalogue = Catalogue::built_in();
    let limit = async |id: &str, catalogue: &Catalogue| {
        asked(id, MESSAGES, catalogue).await.1["max_tokens"].clone()
    };
    assert_eq!(limit("anthropic/claude-haiku-4-5", &catalogue).await, 64_000);
    assert_eq!(limit("anthropic/unheard-of", &catalogue).await, 8192);
    catalogue.add("[\"anthropic/unheard-of\"]\nmax_output = 5000", "mine").unwrap();
    assert_eq!(limit("anthropic/unheard-of", &catalogue).await, 5000);
}

#[tokio::test]
async fn a_server_that_wants_a_key_before_it_lists_its_models_gets_it() {
    let server = Server::start().await;
    let serve = async |key: Option<&str>| {
        let (head, mut stream) = server.accept_head().await;
        assert!(head.starts_with("get /v1/models http/1.1"), "{head}");
        let sent = head.lines().find_map(|line| line.strip_prefix("authorization: bearer "));
        assert_eq!(sent, key);
        let body = r#"{"data":[{"id":"mine"}]}"#;
        let status = if sent.is_some() { "200 OK" } else { "401 Unauthorized" };
        let answer = format!(
            "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        tokio::io::AsyncWriteExt::write_all(&mut stream, answer.as_bytes()).await.unwrap();
    };
    for (key, sent, resolved) in [
        (None, None, None),
        (Some(" "), None, None),
        (Some("a-key\n"), Some("a-key"), Some("mine".to_owned())),
    ] {
        let (http, url) = (Http::new(), server.url());
        assert_eq!(tokio::join!(first_model(&http, &url, key), serve(sent)).0, resolved);
    }
}
