//! Keys that a callback provides for each request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures::StreamExt;
use loopwright_core::message::{MessageId, UserMessage};
use loopwright_core::model::{ChatRequest, ModelError, ModelErrorKind, ModelEvent};
use loopwright_core::{ChatModel, Message};
use loopwright_providers::{Anthropic, Gemini, ModelBuilder, OpenAiChat, Retry, WireFormat};

use crate::server::Server;

fn request() -> ChatRequest {
    let mut request = ChatRequest::default();
    request.messages = vec![Message::new(MessageId(1), UserMessage::from("Hi")).into()].into();
    request
}

/// Builds a model whose callback returns `secret-token-1`, `secret-token-2` and so on.
fn counted<F: WireFormat>(builder: ModelBuilder<F>) -> ModelBuilder<F> {
    let count = Arc::new(AtomicU32::new(0));
    builder.api_key_with(move || {
        let count = count.clone();
        async move {
            Ok::<_, String>(format!("secret-token-{}\n", count.fetch_add(1, Ordering::Relaxed) + 1))
        }
    })
}

async fn error(model: &impl ChatModel) -> ModelError {
    match model.stream(request()).collect::<Vec<_>>().await.pop() {
        Some(ModelEvent::Error(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn each_request_and_each_retry_has_a_fresh_key() {
    let server = Server::start().await;
    let model =
        Retry::new(counted(OpenAiChat::builder("m").base_url(server.url())).build().unwrap());
    let serve = async {
        for key in 1..=3 {
            let mut http = server.accept().await;
            assert!(
                http.head.contains(&format!("authorization: bearer secret-token-{key}\r\n")),
                "{}",
                http.head
            );
            match key {
                1 => {
                    http.answer("503 Busy", "connection: close\r\nretry-after-ms: 1\r\n", "").await
                }
                _ => {
                    http.begin().await;
                    http.chunk(concat!(
                        "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"},",
                        "\"finish_reason\":\"stop\"}]}\n\n"
                    ))
                    .await;
                    http.chunk("data: [DONE]\n\n").await;
                }
            }
        }
    };
    let ask = async {
        for _ in 0..2 {
            let last = model.stream(request()).collect::<Vec<_>>().await.pop();
            assert!(matches!(last, Some(ModelEvent::Done { .. })), "{last:?}");
        }
    };
    tokio::join!(ask, serve);
}

#[tokio::test]
async fn the_key_goes_into_the_header_of_the_format() {
    let server = Server::start().await;
    let anthropic = counted(Anthropic::builder("m").base_url(server.url())).build().unwrap();
    let gemini = counted(Gemini::builder("m").base_url(server.url())).build().unwrap();
    let models: [(&dyn ChatModel, &str); 2] =
        [(&anthropic, "x-api-key"), (&gemini, "x-goog-api-key")];
    for (model, header) in models {
        let serve = async {
            let mut http = server.accept().await;
            assert!(http.head.contains(&format!("{header}: secret-token-1\r\n")), "{}", http.head);
            http.answer("400 Bad Request", "", "{}").await;
        };
        tokio::join!(model.stream(request()).collect::<Vec<_>>(), serve);
    }
}

#[tokio::test]
async fn a_server_that_repeats_the_key_does_not_give_it_away() {
    let server = Server::start().await;
    let model = counted(OpenAiChat::builder("m").base_url(server.url())).build().unwrap();
    assert!(!format!("{model:?}").contains("secret"));
    let refuse = async {
        let mut http = server.accept().await;
        http.answer(
            "403 Forbidden",
            "connection: close\r\n",
            r#"{"error":{"message":"Not for secret-token-1"}}"#,
        )
        .await;
        http
    };
    let (refused, _http) = tokio::join!(error(&model), refuse);
    assert!(
        refused.kind == ModelErrorKind::Auth && refused.message.contains("Not for ***"),
        "{refused}"
    );
    let fail = async {
        let mut http = server.accept().await;
        http.begin().await;
        http.chunk(
            "data: {\"error\":{\"message\":\"secret-token-2 is over its limit\",\"code\":503}}\n\n",
        )
        .await;
        http
    };
    let (failed, _http) = tokio::join!(error(&model), fail);
    assert!(failed.message.contains("*** is over its limit"), "{failed}");
}

#[tokio::test]
async fn a_key_that_is_cut_or_without_its_scheme_is_not_given_away_either() {
    let server = Server::start().await;
    let model = OpenAiChat::builder("m").base_url(server.url());
    let model =
        model.header("authorization", "Bearer sk-abcdefghijklmnopqrstuvwxyz").build().unwrap();
    let filler = |length| "-".repeat(length);
    let long = format!(
        r#"{{"error":{{"message":"{}sk-abcdefghijklmnopqrstuvwxyz is wrong"}}}}"#,
        filler(585)
    );
    let whole = r#"{"error":{"message":"sk-abcdefghijklmnopqrstuvwxyz is wrong"}}"#;
    for body in [&long, whole] {
        let refuse = async {
            let mut http = server.accept().await;
            http.answer("403 Forbidden", "connection: close\r\n", body).await;
            http
        };
        let (refused, _http) = tokio::join!(error(&model), refuse);
        assert!(
            refused.message.contains("***") && !refused.message.contains("sk-abc"),
            "{refused}"
        );
    }
    let babble = async {
        let mut http = server.accept().await;
        http.begin().await;
        http.chunk(&format!("data: [{}sk-abcdefghijklmnopqrstuvwxyz]\n\n", filler(100))).await;
        http
    };
    let (failed, _http) = tokio::join!(error(&model), babble);
    assert!(
        failed.message.contains("***. Try again") && !failed.message.contains("sk-abc"),
        "{failed}"
    );
}

#[tokio::test]
async fn a_key_that_is_not_accepted_is_asked_for_once_more() {
    let server = Server::start().await;
    let model = counted(OpenAiChat::builder("m").base_url(server.url())).build().unwrap();
    let no = r#"{"error":{"message":"Expired"}}"#;
    let serve = async {
        for key in 1..=4 {
            let mut http = server.accept().await;
            assert!(
                http.head.contains(&format!("authorization: bearer secret-token-{key}\r\n")),
                "{}",
                http.head
            );
            match key {
                2 => {
                    http.begin().await;
                    http.chunk(
                        "data: {\"error\":{\"message\":\"secret-token-2 is \
                                late\",\"code\":503}}\n\n",
                    )
                    .await;
                }
                _ => http.answer("401 Unauthorized", "connection: close\r\n", no).await,
            }
        }
    };
    let ask = async {
        let late = error(&model).await;
        assert!(
            late.kind == ModelErrorKind::Overloaded && late.message.contains("*** is late"),
            "{late}"
        );
        assert_eq!(error(&model).await.kind, ModelErrorKind::Auth, "not for ever");
    };
    tokio::join!(ask, serve);
}

#[tokio::test]
async fn the_same_key_is_not_tried_twice() {
    let server = Server::start().await;
    let builder = OpenAiChat::builder("m").base_url(server.url());
    let model =
        builder.api_key_with(async || Ok::<_, String>("always-this".into())).build().unwrap();
    let refuse = async {
        let mut http = server.accept().await;
        http.answer("401 Unauthorized", "", "{}").await;
        http
    };
    let (refused, _http) = tokio::join!(error(&model), refuse);
    assert_eq!(refused.kind, ModelErrorKind::Auth);
}

#[tokio::test]
async fn without_a_key_nothing_is_sent_and_the_error_says_why() {
    let base = || OpenAiChat::builder("m").base_url("http://127.0.0.1:9/v1").provider("acme");
    let failing = base().api_key_with(async || Err("the vault is sealed")).build().unwrap();
    let empty = base().api_key_with(async || Ok::<_, String>(" ".into())).build().unwrap();
    let broken =
        base().api_key_with(async || Ok::<_, String>("secret\u{7}token".into())).build().unwrap();
    for (model, why) in [
        (failing, "its callback failed (the vault is sealed)"),
        (empty, "its callback gave an empty one"),
        (broken, "what its callback gave has characters that no header can have"),
    ] {
        let error = error(&model).await;
        assert_eq!(error.kind, ModelErrorKind::Auth);
        let says = format!(
            "There is no key for acme at 127.0.0.1:9: {why}. Check the callback that gives the key."
        );
        assert_eq!(error.message, says);
    }
}

#[tokio::test]
async fn the_last_of_key_and_callback_counts_and_a_header_of_ones_own_goes_before_both() {
    let server = Server::start().await;
    let builder = || OpenAiChat::builder("m").base_url(server.url());
    let fixed = counted(builder()).api_key("fixed").build().unwrap();
    let asked = counted(builder().api_key("fixed")).build().unwrap();
    let own = counted(builder()).header("authorization", "Own scheme").build().unwrap();
    for (model, value) in
        [(fixed, "bearer fixed"), (asked, "bearer secret-token-1"), (own, "own scheme")]
    {
        let serve = async {
            let mut http = server.accept().await;
            assert!(http.head.contains(&format!("authorization: {value}\r\n")), "{}", http.head);
            assert_eq!(http.head.matches("authorization").count(), 1);
            http.answer("400 Bad Request", "", "{}").await;
        };
        tokio::join!(error(&model), serve);
    }
}
