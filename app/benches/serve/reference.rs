//! The references for the server: axum without loopwright. Both read the mock's replies, send a
//! frame for each delta and a comment in silence. Neither validates, logs or stores anything.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::{Bytes, HttpBody};
use axum::extract::State;
use axum::http::Request;
use axum::response::Sse;
use axum::response::sse::{Event, KeepAlive, KeepAliveStream};
use axum::routing::{get, post};
use axum::serve::ListenerExt;
use futures::{Stream, stream};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;

/// Maximum number of events that a reader can be behind.
const MAX_BEHIND: usize = 4096;

/// Relays each reply to the client that has requested it, at `/relay`.
pub(crate) fn relay(mock: SocketAddr) {
    serve(Router::new().route("/relay", post(relay_reply)).with_state(Mock::new(mock)));
}

/// Sends the reply to a request at `/prompt` to all readers of `/events`.
pub(crate) fn broadcast(mock: SocketAddr) {
    let (sender, _) = broadcast::channel(MAX_BEHIND);
    let routes = Router::new()
        .route("/events", get(read))
        .route("/prompt", post(prompt))
        .with_state((Mock::new(mock), sender));
    serve(routes);
}

/// Serves on a free port, which is printed on standard output, with the threads of `loopwright
/// serve`, until standard input closes.
fn serve(routes: Router) {
    crate::end_with_parent();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all().build().unwrap().block_on(async {
        let listener = crate::listen();
        println!("{}", listener.local_addr().unwrap());
        let listener = listener.tap_io(|stream| stream.set_nodelay(true).unwrap());
        axum::serve(listener, routes).await.unwrap();
    });
}

/// A frame of the relay, and the data of an event of the broadcast.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Frame<'a> {
    Content { content: &'a str },
    Complete,
}

type Frames<S> = Sse<KeepAliveStream<S>>;

async fn relay_reply(
    State(mock): State<Mock>,
    body: Bytes,
) -> Frames<impl Stream<Item = Result<Event, Infallible>>> {
    let deltas = mock.deltas(body).await;
    let frames = stream::unfold(Some(deltas), async |deltas| {
        let mut deltas = deltas?;
        let delta = deltas.next().await;
        let frame = match &delta {
            Some(delta) => Frame::Content { content: delta },
            None => Frame::Complete,
        };
        let event = Event::default().json_data(frame).unwrap();
        Some((Ok(event), delta.map(|_| deltas)))
    });
    Sse::new(frames).keep_alive(KeepAlive::default())
}

/// An event's name and its JSON.
type Named = (&'static str, Arc<str>);
type Readers = (Mock, broadcast::Sender<Named>);

async fn read(
    State((_, sender)): State<Readers>,
) -> Frames<impl Stream<Item = Result<Event, Infallible>>> {
    let events = stream::unfold(sender.subscribe(), async |mut events| {
        let (name, data) = events.recv().await.ok()?;
        Some((Ok(Event::default().event(name).data(&*data)), events))
    });
    Sse::new(events).keep_alive(KeepAlive::default())
}

async fn prompt(State((mock, sender)): State<Readers>, body: Bytes) {
    let mut deltas = mock.deltas(body).await;
    tokio::spawn(async move {
        while let Some(delta) = deltas.next().await {
            send(&sender, "message_update", Frame::Content { content: &delta });
        }
        send(&sender, "agent_end", Frame::Complete);
    });
}

/// Sends an event to all readers.
fn send(readers: &broadcast::Sender<Named>, name: &'static str, frame: Frame<'_>) {
    let json = serde_json::to_string(&frame).unwrap();
    let _ = readers.send((name, json.into())); // it fails if there is no reader
}

/// The mock, and the connections to it.
#[derive(Clone)]
struct Mock {
    client: Client<HttpConnector, Full<Bytes>>,
    uri: String,
}

impl Mock {
    fn new(address: SocketAddr) -> Self {
        let client = Client::builder(TokioExecutor::new()).build_http();
        Mock { client, uri: format!("http://{address}/v1/chat/completions") }
    }

    /// Requests a reply.
    async fn deltas(self, body: Bytes) -> Deltas<impl HttpBody<Data = Bytes> + Unpin> {
        let request = Request::post(&self.uri).body(Full::new(body)).unwrap();
        let body = self.client.request(request).await.unwrap().into_body();
        Deltas { body, bytes: Vec::new(), consumed: 0 }
    }
}

/// The deltas of a reply.
struct Deltas<B> {
    body: B,
    bytes: Vec<u8>,
    /// The number of bytes that were read.
    consumed: usize,
}

#[derive(Deserialize)]
struct Chunk {
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    delta: Delta,
}

#[derive(Deserialize)]
struct Delta {
    content: Option<String>,
}

impl<B: HttpBody<Data = Bytes> + Unpin> Deltas<B> {
    /// Returns the next delta, or `None` at the end.
    async fn next(&mut self) -> Option<String> {
        loop {
            let Some(end) = self.bytes[self.consumed..].iter().position(|byte| *byte == b'\n')
            else {
                self.bytes.drain(..std::mem::take(&mut self.consumed));
                self.bytes.extend(self.body.frame().await?.ok()?.into_data().ok()?);
                continue;
            };
            let line = self.consumed..self.consumed + end;
            self.consumed = line.end + 1;
            let Some(data) = self.bytes[line].strip_prefix(b"data: ") else {
                continue;
            };
            if data == b"[DONE]" {
                return None;
            }
            let chunk: Chunk = serde_json::from_slice(data).unwrap();
            let content = chunk.choices.into_iter().next().and_then(|choice| choice.delta.content);
            if let Some(content) = content.filter(|content| !content.is_empty()) {
                return Some(content);
            }
        }
    }
}
