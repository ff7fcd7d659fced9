//! The frames of the server's event streams. A long event is not copied: all its readers' frames
//! share the JSON.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures::{Stream, StreamExt, stream};
use serde::Serialize;
use tokio::time::{Instant, Sleep, sleep};
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::sse::HEARTBEAT_INTERVAL;
use crate::server::Shared;
use crate::telemetry::metrics::OpenStream;

/// Maximum size of JSON that is copied into a frame.
const MAX_COPIED_BYTES: usize = 1024;
/// A comment, sent after [`HEARTBEAT_INTERVAL`] without a frame.
const HEARTBEAT: &[u8] = b":\n\n";

/// A frame in three parts, some of which may be empty.
#[derive(Debug, Clone)]
pub(crate) struct SseFrame([Bytes; 3]);

impl SseFrame {
    /// Builds a frame with this type, if one is given, and with JSON in one line as its data.
    pub(crate) fn new(name: Option<&str>, data: &impl Serialize) -> Self {
        let mut frame = start(name);
        match serde_json::to_writer(&mut frame, data) {
            Ok(()) => {}
            Err(error) => {
                tracing::error!(name, %error, "an event cannot be serialised");
                frame = b": an event that cannot be serialised is left out".into();
            }
        }
        frame.extend(b"\n\n");
        SseFrame::whole(frame)
    }

    /// Builds a frame with this type. Its data is this JSON between two texts, and it may have a
    /// number.
    pub(crate) fn around(
        name: &str,
        json: Bytes,
        (before, after): (&str, &str),
        number: Option<u64>,
    ) -> Self {
        let mut frame = start(Some(name));
        frame.extend(before.as_bytes());
        let is_copied = json.len() <= MAX_COPIED_BYTES;
        let mut end = Vec::new();
        let rest = if is_copied { &mut frame } else { &mut end };
        if is_copied {
            rest.extend(&json);
        }
        rest.extend(after.as_bytes());
        rest.push(b'\n');
        if let Some(number) = number {
            rest.extend(format!("id: {number}\n").as_bytes());
        }
        rest.push(b'\n');
        match is_copied {
            true => SseFrame::whole(frame),
            false => SseFrame([frame.into(), json, end.into()]),
        }
    }

    /// Builds a frame whose data is a text of one line.
    pub(crate) fn text(data: &str) -> Self {
        SseFrame::whole(format!("data: {data}\n\n").into_bytes())
    }

    fn whole(frame: Vec<u8>) -> Self {
        SseFrame([frame.into(), Bytes::new(), Bytes::new()])
    }
}

fn start(name: Option<&str>) -> Vec<u8> {
    let mut frame = Vec::with_capacity(256);
    if let Some(name) = name {
        frame.extend(b"event: ");
        frame.extend(name.as_bytes());
        frame.push(b'\n');
    }
    frame.extend(b"data: ");
    frame
}

/// Returns a response with these frames. Its headers stop proxies from buffering.
pub(crate) fn response(frames: impl Stream<Item = SseFrame> + Unpin + Send + 'static) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    let no_parts = [Bytes::new(), Bytes::new(), Bytes::new()].into_iter();
    let heartbeat = Box::pin(sleep(HEARTBEAT_INTERVAL));
    let parts = Parts { frames, parts: no_parts, heartbeat };
    (headers, Body::from_stream(parts.map(Ok::<_, Infallible>))).into_response()
}

/// The parts of frames, and a comment after a while without frames.
struct Parts<S> {
    frames: S,
    /// The unsent parts of the last frame.
    parts: std::array::IntoIter<Bytes, 3>,
    heartbeat: Pin<Box<Sleep>>,
}

impl<S: Stream<Item = SseFrame> + Unpin> Stream for Parts<S> {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let this = &mut *self;
        loop {
            if let Some(part) = this.parts.find(|part| !part.is_empty()) {
                return Poll::Ready(Some(part));
            }
            let frame = match this.frames.poll_next_unpin(cx) {
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(frame)) => frame,
                Poll::Pending => {
                    std::task::ready!(this.heartbeat.as_mut().poll(cx));
                    SseFrame([Bytes::from_static(HEARTBEAT), Bytes::new(), Bytes::new()])
                }
            };
            this.heartbeat.as_mut().reset(Instant::now() + HEARTBEAT_INTERVAL);
            this.parts = frame.0.into_iter();
        }
    }
}

/// Frames that end when the server has shut down, after a frame that announces the shutdown.
pub(crate) struct DrainedFrames<S> {
    frames: S,
    /// `None` after `notice` was sent.
    draining: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    notice: SseFrame,
    end: Pin<Box<WaitForCancellationFutureOwned>>,
    _open: OpenStream,
}

impl<S: Stream<Item = SseFrame> + Unpin + Send + 'static> DrainedFrames<S> {
    /// Adds `notice` to these frames.
    pub(crate) fn new(shared: &Shared, frames: S, notice: SseFrame) -> Self {
        DrainedFrames {
            frames,
            draining: Some(Box::pin(shared.drain.started())),
            notice,
            end: Box::pin(shared.drain.finished()),
            _open: shared.metrics.open_stream(),
        }
    }

    /// Returns the response with these frames.
    pub(crate) fn response(self) -> Response {
        let next = async |mut frames: Self| frames.next().await.map(|frame| (frame, frames));
        response(Box::pin(stream::unfold(self, next)))
    }

    async fn next(&mut self) -> Option<SseFrame> {
        let draining = async {
            match &mut self.draining {
                Some(started) => started.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! { biased;
            frame = self.frames.next() => frame,
            () = draining => {
                self.draining = None;
                Some(self.notice.clone())
            },
            () = &mut self.end => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn text(frame: &SseFrame) -> String {
        String::from_utf8(frame.0.concat()).unwrap()
    }

    /// C278: A frame is the same whether its JSON is long or not, and long JSON is not copied.
    #[test]
    fn the_parts_of_a_frame_are_the_frame() {
        for length in [1, MAX_COPIED_BYTES, MAX_COPIED_BYTES + 1] {
            let json = Bytes::from("1".repeat(length));
            let frame = SseFrame::around("x", json.clone(), ("{\"a\":", "}"), Some(7));
            let expected = format!("event: x\ndata: {{\"a\":{}}}\nid: 7\n\n", "1".repeat(length));
            assert_eq!(text(&frame), expected);
            let is_shared = frame.0[1].as_ptr() == json.as_ptr();
            assert_eq!(is_shared, length > MAX_COPIED_BYTES);
        }
        assert_eq!(text(&SseFrame::new(None, &["a\nb"])), "data: [\"a\\nb\"]\n\n");
    }

    #[tokio::test(start_paused = true)]
    async fn a_comment_is_sent_when_there_is_no_frame_for_a_while() {
        let start = Instant::now();
        let (sender, frames) = tokio::sync::mpsc::channel(1);
        let frames = Box::pin(stream::unfold(frames, async |mut frames| {
            frames.recv().await.map(|frame| (frame, frames))
        }));
        let mut body = response(frames).into_body().into_data_stream();
        assert_eq!(body.next().await.unwrap().unwrap(), HEARTBEAT);
        assert_eq!(start.elapsed(), HEARTBEAT_INTERVAL);
        tokio::time::advance(Duration::from_secs(10)).await;
        sender.send(SseFrame::new(None, &1)).await.unwrap();
        assert_eq!(body.next().await.unwrap().unwrap(), "data: 1\n\n");
        assert_eq!(body.next().await.unwrap().unwrap(), HEARTBEAT);
        assert_eq!(start.elapsed(), 2 * HEARTBEAT_INTERVAL + Duration::from_secs(10));
        drop(sender);
        assert!(body.next().await.is_none());
    }
}
