//! `OpenAiResponses` against a server.

use futures::StreamExt;
use loopwright_core::message::{MessageId, StopReason, Usage, UserMessage};
use loopwright_core::model::{BlockKind, ChatRequest, ModelErrorKind, ModelEvent};
use loopwright_core::{ChatModel, Message};
use loopwright_providers::OpenAiResponses;

use crate::server::Server;

#[tokio::test]
async fn quirk_21_a_reply_is_over_at_its_last_event_though_the_body_stays_open() {
    let server = Server::start().await;
    let model = OpenAiResponses::builder("m")
        .base_url(server.url())
        .api_key("sk-very-secret")
        .build()
        .unwrap();
    let mut request = ChatRequest::default();
    request.messages = vec![Message::new(MessageId(1), UserMessage::from("Hi")).into()].into();
    let serve = async {
        let mut http = server.accept().await;
        assert!(http.head.starts_with("post /v1/responses http/1.1"), "{}", http.head);
        assert!(http.head.contains("authorization: bearer sk-very-secret"));
        assert_eq!(http.body["input"][0]["content"][0]["text"], "Hi");
        assert_eq!(http.body["store"], false);
        http.begin().await;
        for event in [
            r#"{"type":"response.created","response":{"status":"in_progress"}}"#,
            concat!(
                r#"{"type":"response.output_item.added","output_index":0,"#,
                r#""item":{"type":"message","content":[]}}"#,
            ),
            r#"{"type":"response.output_text.delta","output_index":0,"delta":"Hello"}"#,
            r#"{"type":"response.completed","response":{"status":"completed","output":[],
                "usage":{"input_tokens":5,"output_tokens":2,
                "input_tokens_details":{"cached_tokens":3}}}}"#,
        ] {
            http.chunk(&format!("event: some\ndata: {}\n\n", event.replace('\n', ""))).await;
        }
        http
    };
    let (events, _http) = tokio::join!(model.stream(request).collect::<Vec<_>>(), serve);
    let usage = Usage::new(2, 2).cache(3, 0);
    let expected = [
        ModelEvent::BlockStart { block: 0, kind: BlockKind::Text },
        ModelEvent::Delta { block: 0, delta: "Hello".into() },
        ModelEvent::BlockEnd { block: 0, signature: None },
        ModelEvent::Done { stop: StopReason::Stop, usage },
    ];
    assert_eq!(events, expected);
}

/// C147: This API has no stop texts, so a request with stop texts fails before it is sent.
#[tokio::test]
async fn a_request_with_stop_texts_is_not_sent() {
    let model = OpenAiResponses::builder("m").base_url("http://127.0.0.1:1").build().unwrap();
    let mut request = ChatRequest::default();
    request.stop = vec!["END".into()];
    let events: Vec<_> = model.stream(request).collect().await;
    let [ModelEvent::Error(error)] = &events[..] else { panic!("{events:?}") };
    assert_eq!(error.kind, ModelErrorKind::InvalidRequest);
    assert!(error.message.contains("leave out `stop`"), "{}", error.message);
}
