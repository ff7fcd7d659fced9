//! `OpenAiChat` against a server.

use std::time::Duration;

use futures::StreamExt;
use loopwright_core::message::{MessageId, StopReason, Usage, UserMessage};
use loopwright_core::model::{BlockKind, ChatRequest, ModelError, ModelErrorKind, ModelEvent};
use loopwright_core::{ChatModel, Message};
use loopwright_providers::{Http, OpenAiChat, Retry, Timeouts};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::server::Server;

const KEY: &str = "sk-very-secret";

fn model(server: &Server) -> OpenAiChat {
    OpenAiChat::builder("m")
        .base_url(server.url())
        .api_key(KEY)
        .key_var("TEST_KEY")
        .build()
        .unwrap()
}

fn request() -> ChatRequest {
    let mut request = ChatRequest::default();
    request.system = "Be brief.".into();
    request.messages = vec![Message::new(MessageId(1), UserMessage::from("Hi")).into()].into();
    request
}

fn chunk(delta: &str) -> String {
    format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{delta}}}]}}\n\n")
}

async fn error(model: &impl ChatModel) -> ModelError {
    match model.stream(request()).collect::<Vec<_>>().await.pop() {
        Some(ModelEvent::Error(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_reply_with_a_call_is_streamed() {
    let server = Server::start().await;
    let model = model(&server);
    let serve = async {
        let mut http = server.accept().await;
        assert!(http.head.starts_with("post /v1/chat/completions http/1.1"), "{}", http.head);
        assert!(http.head.contains("authorization: bearer sk-very-secret"));
        assert_eq!(http.body["messages"][0]["role"], "system");
        assert_eq!(http.body["messages"][1]["content"], "Hi");
        assert_eq!(http.body["stream"], true);
        http.begin().await;
        http.chunk(&chunk(r#"{"content":"Hel"}"#)).await;
        let two = chunk(r#"{"content":"lo"}"#)
            + &chunk(
                r#"{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{}"}}]}"#,
            );
        let (a, b) = two.split_at(40);
        http.chunk(a).await;
        http.chunk(b).await;
        http.chunk(
            "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n",
        )
        .await;
        http.chunk(
            "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2}}\n\n",
        )
        .await;
        http.chunk("data: [DONE]\n\n").await;
        http.end().await;
        http
    };
    let (mut events, _http) = tokio::join!(model.stream(request()).collect::<Vec<_>>(), serve);
    let delta = |block, text: &str| ModelEvent::Delta { block, delta: text.into() };
    let expected = [
        ModelEvent::BlockStart { block: 0, kind: BlockKind::Text },
        delta(0, "Hel"),
        delta(0, "lo"),
        ModelEvent::BlockEnd { block: 0, signature: None },
        ModelEvent::BlockStart {
            block: 1,
            kind: BlockKind::ToolCall { id: "c".into(), name: "f".into() },
        },
        delta(1, "{}"),
        ModelEvent::BlockEnd { block: 1, signature: None },
        ModelEvent::Done { stop: StopReason::ToolCalls, usage: Usage::new(5, 2) },
    ];
    // The number of usage reports before the end depends on the timing of the events.
    events.retain(|event| !matches!(event, ModelEvent::Usage(_)));
    assert_eq!(events, expected);
}

#[tokio::test]
async fn a_connection_is_reused_even_if_the_body_ends_late() {
    let server = Server::start().await;
    let model = model(&server);
    let ask = async || {
        let last = model.stream(request()).collect::<Vec<_>>().await.pop();
        assert!(matches!(last, Some(ModelEvent::Done { .. })), "{last:?}");
    };
    let serve = async {
        let mut http = server.accept().await;
        http.begin().await;
        http.chunk(&(chunk(r#"{"content":"x"}"#) + "data: [DONE]\n\n")).await;
        http
    };
    let ((), mut http) = tokio::join!(ask(), serve);
    http.end().await;
    tokio::join!(ask(), async {
        let mut http = http.next().await;
        http.answer(
            "200 OK",
            "content-type: application/json\r\n",
            r#"{"choices":[{"message":{"content":"y"},"finish_reason":"stop"}]}"#,
        )
        .await;
    });
}

#[tokio::test]
async fn an_error_status_tells_its_kind_and_its_wait_and_hides_the_key() {
    let server = Server::start().await;
    let model = model(&server);
    let serve = async |status: &str, headers: &str, body: &str| {
        let mut http = server.accept().await;
        http.answer(status, &format!("connection: close\r\n{headers}"), body).await;
    };
    let (limited, ()) =
        tokio::join!(error(&model), serve("429 Too Many", "retry-after: 7\r\n", "slow down"));
    assert_eq!((limited.kind, limited.status), (ModelErrorKind::RateLimited, Some(429)));
    assert_eq!(limited.retry_after, Some(Duration::from_secs(7)));
    let body = format!("{{\"error\":{{\"message\":\"Incorrect API key provided: {KEY}.\"}}}}");
    let (refused, ()) = tokio::join!(error(&model), serve("401 Unauthorized", "", &body));
    assert_eq!(refused.kind, ModelErrorKind::Auth);
    assert!(refused.message.contains("openai at 127.0.0.1:"), "{refused}");
    assert!(refused.message.contains("TEST_KEY"), "{refused}");
    assert!(!format!("{refused:?} {model:?}").contains("secret"), "{refused:?}");
}

#[tokio::test]
async fn a_cut_connection_is_an_error() {
    let server = Server::start().await;
    let model = model(&server);
    for in_order in [true, false] {
        let serve = async {
            let mut http = server.accept().await;
            http.begin().await;
            http.chunk(&chunk(r#"{"content":"half"}"#)).await;
            if in_order {
                http.end().await;
            }
        };
        let (error, ()) = tokio::join!(error(&model), serve);
        assert_eq!(error.kind, ModelErrorKind::Network, "{error}");
    }
}

#[tokio::test]
async fn nobody_there_is_a_sentence() {
    let server = Server::start().await;
    let model = model(&server);
    drop(server);
    let error = error(&model).await;
    assert_eq!(error.kind, ModelErrorKind::Unreachable);
    assert!(error.message.contains("cannot be reached"), "{error}");
}

#[tokio::test]
async fn dropping_the_stream_closes_the_connection() {
    let server = Server::start().await;
    let model = model(&server);
    let mut stream = model.stream(request());
    let serve = async {
        let mut http = server.accept().await;
        http.begin().await;
        http.chunk(&chunk(r#"{"content":"for ever"}"#)).await;
        http
    };
    let (first, http) = tokio::join!(stream.next(), serve);
    assert!(matches!(first, Some(ModelEvent::BlockStart { .. })));
    drop(stream);
    http.closed().await;
}

/// C65 C66
#[tokio::test]
async fn a_retried_attempt_is_withdrawn() {
    let server = Server::start().await;
    let model = Retry::new(model(&server)).base_delay(Duration::ZERO);
    let serve = async {
        let mut http = server.accept().await;
        http.begin().await;
        http.chunk(&chunk(r#"{"content":"half"}"#)).await;
        drop(http);
        let mut http = server.accept().await;
        http.begin().await;
        http.chunk(&(chunk(r#"{"content":"whole"}"#) + "data: [DONE]\n\n")).await;
        http.end().await;
    };
    let (events, ()) = tokio::join!(model.stream(request()).collect::<Vec<_>>(), serve);
    let withdrawn = events.iter().position(|event| *event == ModelEvent::Withdrawn).unwrap();
    assert_eq!(events[withdrawn - 1], ModelEvent::Delta { block: 0, delta: "half".into() });
    assert!(matches!(&events[withdrawn + 1], ModelEvent::Retry(notice) if notice.attempt == 2));
    assert_eq!(events[withdrawn + 3], ModelEvent::Delta { block: 0, delta: "whole".into() });
    assert!(matches!(events.last(), Some(ModelEvent::Done { .. })));
}

#[tokio::test]
async fn silence_is_a_timeout_unless_the_reply_is_complete() {
    let server = Server::start().await;
    let timeouts = Timeouts { idle: Duration::from_millis(50), ..Timeouts::default() };
    let model = OpenAiChat::builder("m")
        .base_url(server.url())
        .http(Http::with_timeouts(timeouts))
        .build()
        .unwrap();
    let last = async || model.stream(request()).collect::<Vec<_>>().await.pop();
    let serve = async |text: &str| {
        let mut http = server.accept().await;
        http.begin().await;
        http.chunk(&chunk(r#"{"content":"x"}"#)).await;
        http.chunk(text).await;
        http
    };
    let (silent, _http) = tokio::join!(last(), serve(": still here\n\n"));
    assert!(
        matches!(silent, Some(ModelEvent::Error(error)) if error.kind == ModelErrorKind::Timeout)
    );
    let reply = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
    let (open, _http) = tokio::join!(last(), serve(reply));
    assert!(matches!(open, Some(ModelEvent::Done { .. })), "{open:?}");
}

/// C472: Pings prove that the server lives, not that it works.
#[tokio::test]
async fn pings_alone_are_a_timeout_in_the_end() {
    let server = Server::start().await;
    let timeouts = Timeouts { silence: Duration::from_millis(50), ..Timeouts::default() };
    let model = OpenAiChat::builder("m")
        .base_url(server.url())
        .http(Http::with_timeouts(timeouts))
        .build()
        .unwrap();
    let pings = async {
        let mut http = server.accept().await;
        http.begin().await;
        http.chunk(&chunk(r#"{"content":"x"}"#)).await;
        loop {
            http.chunk(": still here\n\n").await;
        }
    };
    let error = tokio::select! {
        error = error(&model) => error,
        () = pings => return,
    };
    assert_eq!(error.kind, ModelErrorKind::Timeout);
    assert!(error.message.contains("sent no part of the reply"), "{error}");
}

#[tokio::test]
async fn what_is_not_http_is_named() {
    let server = Server::start().await;
    let model = model(&server);
    let serve = async {
        let mut stream = server.accept_stream().await;
        assert!(stream.read(&mut [0; 1024]).await.unwrap() > 0);
        let greeting = b"220 mail.example\r\n\r\n";
        stream.write_all(greeting).await.unwrap();
        stream
    };
    let (error, _stream) = tokio::join!(error(&model), serve);
    assert_eq!(error.kind, ModelErrorKind::Protocol, "{error}");
    assert!(error.message.contains("did not answer in HTTP"), "{error}");
}

#[tokio::test]
async fn many_headers_are_read_and_too_many_are_named() {
    let server = Server::start().await;
    let model = model(&server);
    for (count, kind) in
        [(150, ModelErrorKind::RateLimited), (5000, ModelErrorKind::InvalidRequest)]
    {
        let serve = async {
            let mut http = server.accept().await;
            let headers: String = (0..count).map(|n| format!("x-{n}: a\r\n")).collect();
            let headers = format!("connection: close\r\n{headers}");
            http.answer("429 Too Many", &headers, "").await;
            http
        };
        let (error, _http) = tokio::join!(error(&model), serve);
        assert_eq!(error.kind, kind, "{error}");
    }
}

#[tokio::test]
async fn an_error_in_the_stream_fails_the_reply() {
    let server = Server::start().await;
    let model = model(&server);
    let serve = async {
        let mut http = server.accept().await;
        http.begin().await;
        http.chunk("data: {\"error\":{\"message\":\"overloaded\",\"code\":503}}\n\n").await;
        http
    };
    let (error, _http) = tokio::join!(error(&model), serve);
    assert_eq!((error.kind, error.status), (ModelErrorKind::Overloaded, Some(503)));
}
