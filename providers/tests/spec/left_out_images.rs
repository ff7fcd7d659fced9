//! Images that a model does not take, or that its provider refuses.

use std::sync::Arc;

use futures::StreamExt;
use loopwright_core::message::{Content, MessageId, UserMessage};
use loopwright_core::model::{ChatRequest, ModelErrorKind, ModelEvent};
use loopwright_core::{ChatModel, Message};
use loopwright_providers::{ModelFacts, OpenAiChat};

use crate::server::{Exchange, Server};

const REPLY: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"},\
                     \"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

fn model(server: &Server, images: Option<bool>) -> OpenAiChat {
    let mut facts = ModelFacts::default();
    facts.images = images;
    OpenAiChat::builder("m").base_url(server.url()).facts(facts).build().unwrap()
}

/// Returns a request with an image of the user.
fn request(session: &str) -> ChatRequest {
    let mut request = ChatRequest::default();
    request.session = session.into();
    let image = Content::image("image/png", "AAAA");
    let user = UserMessage::new(vec![Content::text("Look."), image]);
    request.messages = Arc::new(vec![Arc::new(Message::new(MessageId(1), user))]);
    request
}

/// Answers a request. Returns whether it has an image, and its text.
async fn reply(mut http: Exchange) -> (bool, String) {
    http.answer("200 OK", "content-type: text/event-stream\r\nconnection: close\r\n", REPLY).await;
    (http.raw.contains("image_url"), http.raw)
}

async fn refuse(mut http: Exchange, why: &str) -> bool {
    let body =
        format!("{{\"error\":{{\"message\":\"{why}\",\"type\":\"invalid_request_error\"}}}}");
    http.answer("400 Bad Request", "connection: close\r\n", &body).await;
    http.raw.contains("image_url")
}

async fn last(model: &OpenAiChat, request: ChatRequest) -> ModelEvent {
    model.stream(request).collect::<Vec<_>>().await.pop().unwrap()
}

/// C456: A model that is known to take no images gets a text in place of each.
#[tokio::test]
async fn a_model_that_takes_no_images_gets_none() {
    let server = Server::start().await;
    for (images, is_sent) in [(Some(false), false), (Some(true), true), (None, true)] {
        let model = model(&server, images);
        let serve = async { reply(server.accept().await).await };
        let (end, (has_image, body)) = tokio::join!(last(&model, request("s")), serve);
        assert!(matches!(end, ModelEvent::Done { .. }), "{end:?}");
        assert_eq!(has_image, is_sent, "{images:?}");
        assert_eq!(body.contains("takes no images"), !is_sent, "{body}");
        assert!(body.contains("Look."), "{body}");
    }
}

/// C457: If a provider refuses an image, the request is sent once more without images, and so are
/// later requests of the session.
#[tokio::test]
async fn a_refused_image_is_sent_once() {
    let server = Server::start().await;
    let model = model(&server, None);
    let serve = async {
        assert!(refuse(server.accept().await, "Could not process image").await);
        let (has_image, body) = reply(server.accept().await).await;
        assert!(!has_image && body.contains("has refused an image"), "{body}");
        assert!(!reply(server.accept().await).await.0, "it is remembered");
        assert!(reply(server.accept().await).await.0, "another session has images");
    };
    let ask = async {
        for session in ["s", "s", "other"] {
            let end = last(&model, request(session)).await;
            assert!(matches!(end, ModelEvent::Done { .. }), "{end:?}");
        }
    };
    tokio::join!(serve, ask);
}

#[tokio::test]
async fn other_refusals_and_a_second_one_end_the_reply() {
    let server = Server::start().await;
    let model = model(&server, None);
    let serve = async {
        assert!(refuse(server.accept().await, "The temperature is too high").await);
        assert!(refuse(server.accept().await, "Invalid image").await);
        assert!(!refuse(server.accept().await, "Invalid image").await);
    };
    let ask = async {
        for _ in 0..2 {
            let ModelEvent::Error(error) = last(&model, request("s")).await else { panic!() };
            assert_eq!(error.kind, ModelErrorKind::InvalidRequest);
        }
    };
    tokio::join!(serve, ask);
}
