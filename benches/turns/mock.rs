//! The model server: a separate process that streams the same replies to every client.
//!
//! A reply depends on the request alone. While fewer than `turns` tool results follow the last user
//! message, it has `deltas` text deltas and a call of `add`. After that it has only the deltas.

use std::convert::Infallible;
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use tokio::net::TcpSocket;

/// The length of the replies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Script {
    /// The number of turns with a tool call. One turn without a call follows them.
    pub(crate) turns: u64,
    /// The number of text deltas in each reply.
    pub(crate) deltas: u64,
    /// The pause before each delta. With zero, they are sent as fast as the socket accepts them.
    pub(crate) pause: Duration,
}

/// The server's counts, printed when its standard input closes.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Seen {
    pub(crate) requests: u64,
    pub(crate) refused: u64,
    /// The maximum number of concurrent replies.
    pub(crate) at_once: u64,
}

struct Server {
    script: Script,
    /// The events at the start of every reply.
    opening: Vec<Bytes>,
    requests: AtomicU64,
    refused: AtomicU64,
    streaming: AtomicU64,
    at_once: AtomicU64,
}

#[derive(Deserialize)]
struct RequestBody<'a> {
    #[serde(borrow)]
    messages: Vec<RequestMessage<'a>>,
    stream: bool,
}

#[derive(Deserialize)]
struct RequestMessage<'a> {
    role: &'a str,
    #[serde(default, rename = "content")]
    _content: IgnoredAny,
}

fn event(delta: &str, finish: &str) -> Bytes {
    let chunk = format!(
        "data: {{\"id\":\"chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG\",\
         \"object\":\"chat.completion.chunk\",\
         \"created\":1741570283,\"model\":\"mock\",\"service_tier\":\"default\",\
         \"system_fingerprint\":\"fp_44709d6fcb\",\
         \"choices\":[{{\"index\":0,\"delta\":{delta},\"logprobs\":null,\
         \"finish_reason\":{finish}}}]}}\n\n"
    );
    Bytes::from(chunk)
}

impl Server {
    fn new(script: Script) -> Self {
        let words = ["five", " and", " two", " are", " now", " one"];
        let mut opening =
            vec![event("{\"role\":\"assistant\",\"content\":\"\",\"refusal\":null}", "null")];
        let deltas = words.iter().cycle().take(script.deltas as usize);
        opening.extend(deltas.map(|word| event(&format!("{{\"content\":\"{word}\"}}"), "null")));
        let zero = || AtomicU64::new(0);
        Server {
            script,
            opening,
            requests: zero(),
            refused: zero(),
            streaming: zero(),
            at_once: zero(),
        }
    }

    /// Returns the events of a reply after `results` tool results.
    fn reply(&self, results: u64) -> Vec<Bytes> {
        let mut events = self.opening.clone();
        if results < self.script.turns {
            events.push(event(
                &format!(
                    "{{\"tool_calls\":[{{\"index\":0,\"id\":\"call_{results}\",\
                     \"type\":\"function\",\
                     \"function\":{{\"name\":\"add\",\"arguments\":\"\"}}}}]}}"
                ),
                "null",
            ));
            for fragment in ["{\\\"a\\\":", &format!("{results},\\\"b\\\""), ":1}"] {
                let call = format!(
                    "{{\"tool_calls\":[{{\"index\":0,\
                     \"function\":{{\"arguments\":\"{fragment}\"}}}}]}}"
                );
                events.push(event(&call, "null"));
            }
            events.push(event("{}", "\"tool_calls\""));
        } else {
            events.push(event("{}", "\"stop\""));
        }
        let (prompt, completion) = (100 + 60 * results, self.script.deltas + 20);
        events.push(Bytes::from(format!(
            "data: {{\"id\":\"chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG\",\
         \"object\":\"chat.completion.chunk\",\
             \"created\":1741570283,\"model\":\"mock\",\"choices\":[],\
             \"usage\":{{\"prompt_tokens\":{prompt},\"completion_tokens\":{completion},\
             \"total_tokens\":{},\"prompt_tokens_details\":{{\"cached_tokens\":0}},\
             \"completion_tokens_details\":{{\"reasoning_tokens\":0}}}}}}\n\ndata: [DONE]\n\n",
            prompt + completion
        )));
        events
    }

    /// Returns the number of tool results after the last user message, or `None` if the body is
    /// invalid.
    fn results(body: &[u8]) -> Option<u64> {
        let request: RequestBody<'_> =
            serde_json::from_slice(body).ok().filter(|request: &RequestBody<'_>| request.stream)?;
        let since = request.messages.iter().rev().take_while(|message| message.role != "user");
        Some(since.filter(|message| message.role == "tool").count() as u64)
    }

    fn seen(&self) -> Seen {
        Seen {
            requests: self.requests.load(Relaxed),
            refused: self.refused.load(Relaxed),
            at_once: self.at_once.load(Relaxed),
        }
    }
}

/// A guard that counts a reply while it streams.
struct Streaming(Arc<Server>);

impl Streaming {
    fn new(server: Arc<Server>) -> Self {
        let now = server.streaming.fetch_add(1, Relaxed) + 1;
        server.at_once.fetch_max(now, Relaxed);
        Streaming(server)
    }
}

impl Drop for Streaming {
    fn drop(&mut self) {
        self.0.streaming.fetch_sub(1, Relaxed);
    }
}

type Events = StreamBody<BoxStream<'static, Result<Frame<Bytes>, Infallible>>>;

async fn answer(
    server: Arc<Server>,
    request: Request<Incoming>,
) -> Result<Response<Events>, hyper::Error> {
    let right_path = request.uri().path().ends_with("/chat/completions");
    let body = request.into_body().collect().await?.to_bytes();
    server.requests.fetch_add(1, Relaxed);
    let Some(results) = Server::results(&body).filter(|_| right_path) else {
        server.refused.fetch_add(1, Relaxed);
        let mut refused = Response::new(StreamBody::new(stream::empty().boxed()));
        *refused.status_mut() = StatusCode::BAD_REQUEST;
        return Ok(refused);
    };
    let (events, pause) = (server.reply(results).into_iter(), server.script.pause);
    let streaming = Streaming::new(server);
    let events = stream::unfold((events, streaming), move |(mut events, streaming)| async move {
        let event = events.next()?;
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        Some((Ok(Frame::data(event)), (events, streaming)))
    });
    let mut response = Response::new(StreamBody::new(events.boxed()));
    response
        .headers_mut()
        .insert("content-type", hyper::header::HeaderValue::from_static("text/event-stream"));
    Ok(response)
}

/// Serves on a free local port and prints it on standard output. Returns when standard input
/// closes.
pub(crate) fn serve(script: Script) {
    let server = Arc::new(Server::new(script));
    let until = server.clone();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read(&mut [0]);
        let mut out = std::io::stdout();
        serde_json::to_writer(&mut out, &until.seen()).expect("standard output");
        out.flush().expect("standard output");
        std::process::exit(0);
    });
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind(([127, 0, 0, 1], 0).into()).expect("a port");
        let listener = socket.listen(4096).expect("a listener");
        println!("{}", listener.local_addr().expect("an address").port());
        while let Ok((stream, _)) = listener.accept().await {
            let _ = stream.set_nodelay(true);
            let server = server.clone();
            let service = service_fn(move |request| answer(server.clone(), request));
            let mut http = hyper::server::conn::http1::Builder::new();
            // One buffer per write is cheapest, and keeps each event in a separate HTTP chunk.
            let connection = http.writev(false).serve_connection(TokioIo::new(stream), service);
            tokio::spawn(async move {
                let _ = connection.await;
            });
        }
    });
}
