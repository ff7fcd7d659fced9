//! Addresses that others choose: only allowed ones are connected to.

use std::net::IpAddr;

use futures::StreamExt;
use loopwright_core::ChatModel;
use loopwright_core::model::{ChatRequest, ModelError, ModelErrorKind, ModelEvent};
use loopwright_providers::{Http, OpenAiChat};
use tokio::net::TcpStream;

use crate::server::Server;

async fn fails(base: &str, http: &Http) -> ModelError {
    let model = OpenAiChat::builder("m").base_url(base).http(http.clone()).build().unwrap();
    match model.stream(ChatRequest::default()).collect::<Vec<_>>().await.pop() {
        Some(ModelEvent::Error(error)) => error,
        other => panic!("{base}: {other:?}"),
    }
}

fn port(server: &Server) -> String {
    server.url().trim_end_matches("/v1/").rsplit(':').next().unwrap().to_owned()
}

/// Checks that nobody has connected: a connection made now is the first.
async fn is_unasked(server: &Server) {
    let own = TcpStream::connect(("127.0.0.1", port(server).parse().unwrap())).await.unwrap();
    let first = server.accept_stream().await;
    assert_eq!(first.peer_addr().unwrap(), own.local_addr().unwrap(), "a connection was made");
}

/// C257: an address that is not allowed is not connected to, in any notation. Neither is such an
/// address of a name.
#[tokio::test]
async fn only_allowed_addresses_are_connected_to() {
    let server = Server::start().await;
    let port = port(&server);
    let http = Http::new().only_to(|ip| !ip.is_loopback() && !ip.is_unspecified());
    for host in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.0x1",
        "0177.0.0.1",
        "127.0.0.1.",
        "%31%32%37.0.0.1",
        "１２７.0.0.1",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::1]",
        "[0:0::0:1]",
        "0.0.0.0",
        "0",
        "[::]",
        "localhost",
        "LOCALHOST",
        "allowed.example:secret@127.0.0.1",
    ] {
        for scheme in ["http", "https"] {
            let error = fails(&format!("{scheme}://{host}:{port}/v1"), &http).await;
            assert_eq!(error.kind, ModelErrorKind::InvalidRequest, "{host}: {error}");
            assert!(error.message.contains("may not be reached"), "{host}: {error}");
            is_unasked(&server).await;
        }
    }
}

/// C257: allowed addresses are reached, by address and by name, at each attempt.
#[tokio::test]
async fn allowed_addresses_are_reached() {
    let server = Server::start().await;
    let http = Http::new().only_to(|ip: IpAddr| ip.is_loopback());
    for host in ["127.0.0.1", "localhost"] {
        let url = format!("http://{host}:{}/v1", port(&server));
        let serve = async { server.accept().await.answer("400 Bad Request", "", "{}").await };
        let (error, _) = tokio::join!(fails(&url, &http), serve);
        assert_eq!(error.status, Some(400), "{error}");
    }
}

/// C257: a redirect to another server is not followed.
#[tokio::test]
async fn redirects_are_not_followed() {
    let (server, inner) = (Server::start().await, Server::start().await);
    for http in [Http::new(), Http::new().only_to(|_| true)] {
        for status in ["301 Moved", "302 Found", "303 See Other", "307 Again", "308 Moved"] {
            let location = format!("location: {}\r\n", inner.url());
            let serve = async { server.accept().await.answer(status, &location, "{}").await };
            let url = server.url();
            let (error, _) = tokio::join!(fails(&url, &http), serve);
            assert!(error.status.is_some_and(|status| status / 100 == 3), "{error}");
            is_unasked(&inner).await;
        }
    }
}
