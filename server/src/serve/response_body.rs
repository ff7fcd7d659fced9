//! [`ResponseBody`]: a body that records whether its client reads it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use super::requests::RequestGuard;
use super::stream_executor::{Progress, progress};
use crate::limits::quota::Permit;

/// Maximum size of a part for an HTTP/2 connection, which keeps a part until the client has room
/// for it.
const MAX_PART_BYTES: usize = 16 * 1024;

type Part = Result<Frame<Bytes>, axum::Error>;

/// The body of a response, in parts that a slow client can hold up one by one.
pub(super) struct ResponseBody {
    body: Body,
    /// The rest of the last frame of `body`.
    rest: Bytes,
    /// The progress over HTTP/2. `None` for HTTP/1.1, which has a timeout for writes.
    progress: Option<Arc<Progress>>,
    _held: (RequestGuard, Option<Permit>),
}

impl ResponseBody {
    /// Wraps the body of a response. `held` is dropped with it.
    pub(super) fn new(body: Body, is_http2: bool, held: (RequestGuard, Option<Permit>)) -> Self {
        let progress = is_http2.then(progress).flatten();
        ResponseBody { body, rest: Bytes::new(), progress, _held: held }
    }

    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Option<Part>> {
        if self.rest.is_empty() {
            match std::task::ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
                other => return Poll::Ready(other),
            }
        }
        let max = if self.progress.is_some() { MAX_PART_BYTES } else { usize::MAX };
        let part = self.rest.split_to(self.rest.len().min(max));
        Poll::Ready(Some(Ok(Frame::data(part))))
    }
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Part>> {
        let part = self.poll_part(cx);
        if let Some(progress) = &self.progress {
            progress.polled(part.is_ready());
        }
        part
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, hint) = (self.rest.len() as u64, self.body.size_hint());
        let mut whole = SizeHint::new();
        whole.set_lower(hint.lower() + rest);
        if let Some(upper) = hint.upper() {
            whole.set_upper(upper + rest);
        }
        whole
    }
}
