//! `Gemini` against a server.

use futures::StreamExt;
use loopwright_core::message::{MessageId, StopReason, Usage, UserMessage};
use loopwright_core::model::{BlockKind, ChatRequest, ModelEvent};
use loopwright_core::{ChatModel, Message};
use loopwright_providers::Gemini;

use crate::server::Server;

#[tokio::test]
async fn a_connection_that_breaks_after_the_finish_has_lost_nothing() {
    let server = Server::start().await;
    let model = Gemini::builder("m").base_url(server.url()).build().unwrap();
    let serve = async {
        let mut http = server.accept().await;
        http.begin().await;
        http.chunk(concat!(
            "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\"}]},",
            "\"finishReason\":\"STOP\"}]}\n\n"
        ))
        .await;
    };
    let (events, ()) =
        tokio::join!(model.stream(ChatRequest::default()).collect::<Vec<_>>(), serve);
    assert!(
        matches!(events.last(), Some(ModelEvent::Done { stop: StopReason::Stop, .. })),
        "{events:?}"
    );
}

#[tokio::test]
async fn a_reply_is_streamed_to_its_end_and_the_key_is_where_it_belongs() {
    let server = Server::start().await;
    let model = Gemini::builder("models/m")
        .base_url(server.url())
        .api_key("AI-very-secret")
        .build()
        .unwrap();
    let mut request = ChatRequest::default();
    request.messages = vec![Message::new(MessageId(1), UserMessage::from("Hi")).into()].into();
    let serve = async {
        let mut http = server.accept().await;
        assert!(
            http.head.starts_with("post /v1/models/m:streamgeneratecontent?alt=sse http/1.1"),
            "{}",
            http.head
        );
        assert!(http.head.contains("x-goog-api-key: ai-very-secret"), "{}", http.head);
        assert!(!http.head.contains("authorization"));
        assert_eq!(http.body["contents"][0]["parts"][0]["text"], "Hi");
        http.begin().await;
        for chunk in [
            concat!(
                r#"{"candidates":[{"content":{"parts":[{"text":"Hel"}],"role":"model"},"#,
                r#""finishReason":"STOP","index":0}]}"#,
            ),
            r#"{"candidates":[{"content":{"parts":[{"text":"lo"}],"role":"model"},
                "finishReason":"STOP","index":0}],
                "usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":2}}"#,
        ] {
            http.chunk(&format!("data: {}\r\n\r\n", chunk.replace('\n', " "))).await;
        }
        http.end().await;
        http
    };
    let (events, _http) = tokio::join!(model.stream(request).collect::<Vec<_>>(), serve);
    let deltas = events
        .iter()
        .map(|event| if let ModelEvent::Delta { delta, .. } = event { delta } else { "" });
    let answer: String = deltas.collect();
    assert_eq!(answer, "Hello");
    assert_eq!(events[0], ModelEvent::BlockStart { block: 0, kind: BlockKind::Text });
    let usage = Usage::new(5, 2);
    assert_eq!(events.last(), Some(&ModelEvent::Done { stop: StopReason::Stop, usage }));
}
