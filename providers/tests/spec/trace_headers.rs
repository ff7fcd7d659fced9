//! The headers of W3C Trace Context.

use futures::StreamExt;
use loopwright_core::{ChatModel, TraceContext};
use loopwright_providers::OpenAiChat;

use crate::kit::request;
use crate::server::Server;

/// C396: A request carries the headers of its trace. Without a trace it has none of these headers.
#[tokio::test]
async fn a_request_carries_the_headers_of_its_trace() {
    let server = Server::start().await;
    let builder = OpenAiChat::builder("m").base_url(server.url()).api_key("a key");
    let model = builder.build().unwrap();
    let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    for trace in [None, TraceContext::parse(header, Some("vendor=1"))] {
        let mut request = request("Hi");
        request.trace = trace.clone();
        let reply = model.stream(request).collect::<Vec<_>>();
        let serving = async {
            let mut exchange = server.accept().await;
            let head = exchange.head.to_lowercase();
            exchange.answer("400 Bad Request", "connection: close\r\n", "{}").await;
            head
        };
        let (_, head) = tokio::join!(reply, serving);
        let has = |line: &str| head.lines().any(|own| own == line);
        assert_eq!(has(&format!("traceparent: {header}")), trace.is_some(), "{head}");
        assert_eq!(has("tracestate: vendor=1"), trace.is_some(), "{head}");
        assert_eq!(head.contains("trace"), trace.is_some(), "{head}");
    }
}
