//! Servers behind a proxy.

use futures::StreamExt;
use loopwright_core::ChatModel;
use loopwright_core::model::{ChatRequest, ModelErrorKind, ModelEvent};
use loopwright_providers::{Http, OpenAiChat};

use crate::server::Server;

fn model(base: &str, http: &Http) -> OpenAiChat {
    OpenAiChat::builder("m")
        .base_url(base)
        .api_key("secret-token")
        .http(http.clone())
        .build()
        .unwrap()
}

async fn last(model: &OpenAiChat) -> Option<ModelEvent> {
    model.stream(ChatRequest::default()).collect::<Vec<_>>().await.pop()
}

#[tokio::test]
async fn a_remote_server_is_reached_through_the_proxy() {
    let proxy = Server::start().await;
    let http = Http::new().proxy(proxy.url().trim_end_matches("/v1/")).unwrap();
    let model = model("http://model.invalid/v1", &http);
    let serve = async {
        let mut exchange = proxy.accept().await;
        assert!(
            exchange.head.starts_with("post http://model.invalid/v1/chat/completions http/1.1"),
            "{}",
            exchange.head
        );
        exchange.begin().await;
        exchange
            .chunk(concat!(
                "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"},",
                "\"finish_reason\":\"stop\"}]}\n\n"
            ))
            .await;
        exchange.chunk("data: [DONE]\n\n").await;
        exchange
    };
    let (last, _exchange) = tokio::join!(last(&model), serve);
    assert!(matches!(last, Some(ModelEvent::Done { .. })), "{last:?}");
}

#[tokio::test]
async fn a_secure_server_is_asked_through_a_tunnel_that_sees_no_key() {
    let proxy = Server::start().await;
    let http = Http::new().proxy(proxy.url().trim_end_matches("/v1/")).unwrap();
    let model = model("https://model.invalid/v1", &http);
    let serve = async {
        let (head, mut stream) = proxy.accept_head().await;
        assert!(head.starts_with("connect model.invalid:443 http/1.1"), "{head}");
        assert!(!head.contains("secret-token"), "{head}");
        tokio::io::AsyncWriteExt::write_all(&mut stream, b"HTTP/1.1 403 Forbidden\r\n\r\n")
            .await
            .unwrap();
    };
    let (last, ()) = tokio::join!(last(&model), serve);
    let Some(ModelEvent::Error(error)) = last else { panic!("{last:?}") };
    assert_eq!(error.kind, ModelErrorKind::Unreachable, "{error}");
    assert!(error.message.contains("through the proxy"), "{error}");
}

#[tokio::test]
async fn a_server_on_this_machine_is_asked_directly() {
    let (proxy, server) = (Server::start().await, Server::start().await);
    let http = Http::new().proxy(proxy.url().trim_end_matches("/v1/")).unwrap();
    let model = model(&server.url(), &http);
    let serve = async {
        let mut exchange = server.accept().await;
        exchange.answer("400 Bad Request", "", "{}").await;
        exchange
    };
    let (last, _exchange) = tokio::join!(last(&model), serve);
    assert!(matches!(last, Some(ModelEvent::Error(error))
            if error.kind == ModelErrorKind::InvalidRequest));
}

#[test]
fn what_is_no_address_is_refused_without_being_repeated() {
    let error = Http::new().proxy("http://user:pass word@").unwrap_err();
    assert!(
        error.kind == ModelErrorKind::InvalidRequest && !error.message.contains("pass"),
        "{error}"
    );
}

#[test]
fn only_proxies_of_http_are_accepted() {
    for address in ["socks5://127.0.0.1:1080", "127.0.0.1:3128", ""] {
        let error = Http::new().proxy(address).map(|_| ()).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::InvalidRequest, "{address}");
    }
}
