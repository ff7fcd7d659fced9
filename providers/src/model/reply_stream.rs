//! The stream of one reply. It reads the network only if no event is ready.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::Stream;
use hyper::{Response, StatusCode};
use loopwright_core::TraceContext;
use loopwright_core::model::{ModelError, ModelErrorKind, ModelEvent};
use tokio::runtime::Handle;
use tokio::time::{Instant, Sleep};

use super::left_out_images::names_image;
use super::reply_body::ReplyBody;
use crate::formats::codec::{Decode, Progress};
use crate::http::key::Secret;
use crate::http::transport::{ResponseBody, TransportError};
use crate::http::unexpected_body::{UnexpectedBody, without_blanks};
use crate::http::{Http, Target};
use crate::model::prompt_truncation;

/// The maximum wait for extras after the reply is complete.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum delay of the last event until the body ends, so that the connection can be reused.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(10);
/// The maximum timeout that is measured. A longer one, such as `Duration::MAX`, means no timeout.
const MAX_TIMEOUT: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);
/// The maximum size of an unfinished event.
const MAX_EVENT_BYTES: usize = 16 << 20;

/// The reply to one request. Dropping it closes the connection, unless the reply is complete.
pub(crate) struct ReplyStream<'a, D> {
    http: &'a Http,
    target: &'a Target,
    trace: Option<TraceContext>,
    /// The request's body, to resume a paused reply and to detect a truncated prompt.
    sent: Bytes,
    /// The key, if a callback returned it.
    secret: Option<Secret>,
    /// Encodes the request without its images, if it has some.
    without_images: Option<Box<dyn FnOnce() -> Vec<u8> + Send + 'a>>,
    body: ReplyBody<D>,
    /// The decoded events that were not returned yet.
    ready: VecDeque<ModelEvent>,
    state: State<'a>,
    clock: Clock,
    /// `true` if the task has yielded once before it waits for the body's end.
    yielded: bool,
    /// The status of the response.
    status: StatusCode,
    /// `true` once any of the body other than blanks has arrived.
    has_content: bool,
    /// `true` once a response with a success status has begun.
    has_begun: bool,
}

enum State<'a> {
    Sending(BoxFuture<'a, Result<Response<ResponseBody>, ModelError>>),
    Refused(BoxFuture<'a, ModelError>),
    Reading(ResponseBody),
    /// The reply is complete. The body's end is usually in the same packet.
    Closing(ResponseBody),
    /// The last event is in `ready` or was returned.
    Over,
}

/// Cold functions are called at most a few times for each reply, and must not stand between what is
/// called for each delta.
impl<'a, D: Decode + Unpin> ReplyStream<'a, D> {
    /// Posts `body` when the stream is first polled.
    pub(crate) fn post(
        http: &'a Http,
        target: &'a Target,
        trace: Option<TraceContext>,
        body: Vec<u8>,
        decoder: D,
    ) -> Self {
        // Without spare capacity, because it is held until the reply ends.
        let sent = Bytes::from(body.into_boxed_slice());
        ReplyStream {
            http,
            target,
            trace: trace.clone(),
            sent: sent.clone(),
            secret: None,
            without_images: None,
            body: ReplyBody::new(decoder),
            ready: VecDeque::new(),
            state: State::Sending(Box::pin(http.send(target, trace, sent))),
            clock: Clock::new(http),
            yielded: false,
            status: StatusCode::OK,
            has_content: false,
            has_begun: false,
        }
    }

    /// Sends the body that `encode` returns if the provider refuses an image of the request.
    pub(crate) fn or_without_images(&mut self, encode: impl FnOnce() -> Vec<u8> + Send + 'a) {
        self.without_images = Some(Box::new(encode));
    }

    #[cold]
    fn begin(&mut self, mut response: Response<ResponseBody>) {
        if self.target.key.is_some() {
            self.secret = response.extensions_mut().remove();
        }
        if !response.status().is_success() {
            self.state = State::Refused(Box::pin(self.target.refused(response)));
            return;
        }
        self.status = response.status();
        match UnexpectedBody::of_headers(response.headers()) {
            Some(unexpected) => self.unexpected(unexpected, &[], response.into_body()),
            None => {
                self.has_begun = true;
                self.state = State::Reading(response.into_body());
            }
        }
    }

    /// Handles a body that is not a reply; `start` has already been read.
    #[cold]
    fn unexpected(&mut self, unexpected: UnexpectedBody, start: &[u8], body: ResponseBody) {
        let error = self.target.unexpected(self.status, unexpected, start.to_vec(), body);
        self.state = State::Refused(Box::pin(error));
    }

    fn chunk(&mut self, chunk: &[u8]) {
        self.clock.receive();
        if !self.has_content {
            let start = without_blanks(chunk);
            self.has_content = !start.is_empty();
            if let Some(unexpected) = UnexpectedBody::of_start(start).filter(|_| self.has_content) {
                if let State::Reading(body) = std::mem::replace(&mut self.state, State::Over) {
                    self.unexpected(unexpected, start, body);
                }
                return;
            }
        }
        if let Some(progress) = self.body.push(chunk, &mut self.ready) {
            self.clock.progress(progress);
            if !self.ready.is_empty() {
                self.clock.receive_part();
            }
            if progress == Progress::Ended {
                return self.close();
            }
        }
        if self.body.buffered() > MAX_EVENT_BYTES {
            let why = format!(
                "{} sent an event of more than {MAX_EVENT_BYTES} bytes. Try again.",
                self.target.endpoint
            );
            self.fail(ModelError::new(ModelErrorKind::Protocol, why));
        }
    }

    /// Handles the end of the body, or a broken connection.
    #[cold]
    fn end(&mut self, broken: Option<&TransportError>) {
        match broken {
            Some(why) if !self.clock.complete => {
                let error = self.target.transport_error(why);
                self.fail(error);
            }
            _ => match self.body.resume(&self.sent) {
                Some(more) => return self.resume(more),
                None => self.body.finish(&mut self.ready),
            },
        }
        self.state = State::Over;
    }

    /// Sends `more`, the request that continues a reply the provider has paused.
    #[cold]
    fn resume(&mut self, more: Vec<u8>) {
        let sending = self.http.send(self.target, self.trace.clone(), more.into());
        self.state = State::Sending(Box::pin(sending));
        self.has_content = false;
        self.clock.restart(self.http);
    }

    /// Handles the last decoded event.
    #[cold]
    fn close(&mut self) {
        if let State::Reading(body) = std::mem::replace(&mut self.state, State::Over) {
            self.state = State::Closing(body);
            self.clock.limit = CLOSE_TIMEOUT;
        }
    }

    fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let State::Closing(body) = &mut self.state {
            while let Some(Ok(_)) = ready!(body.poll_chunk(cx)) {}
            self.state = State::Over;
        }
        Poll::Ready(())
    }

    /// Reads the rest of the body in a separate task, so that the connection can be reused.
    #[cold]
    fn drain(&mut self) {
        let State::Closing(mut body) = std::mem::replace(&mut self.state, State::Over) else {
            return;
        };
        if let Ok(handle) = Handle::try_current() {
            handle.spawn(tokio::time::timeout(DRAIN_TIMEOUT, async move {
                while let Some(Ok(_)) = body.chunk().await {}
            }));
        }
    }

    #[cold]
    fn refused(&mut self, error: ModelError) {
        match self.without_images.take_if(|_| names_image(&error)) {
            Some(encode) => {
                let endpoint = &self.target.endpoint;
                let error = self.clean(error);
                tracing::warn!("{endpoint} refused an image, and is sent none again: {error}");
                self.resume(encode());
            }
            None => self.fail(error),
        }
    }

    #[cold]
    fn fail(&mut self, mut error: ModelError) {
        error.has_begun = self.has_begun;
        self.ready.push_back(ModelEvent::Error(error)); // secrets are removed on return
        self.state = State::Over;
    }

    /// Returns `error` with all secrets removed.
    #[cold]
    fn clean(&self, error: ModelError) -> ModelError {
        let error = self.target.clean(error);
        self.secret.iter().fold(error, |error, secret| secret.clean(error))
    }

    /// Reads from the network until an event is ready.
    fn poll_network(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.ready.is_empty() {
            match &mut self.state {
                State::Sending(response) => match ready!(response.as_mut().poll(cx)) {
                    Ok(response) => self.begin(response),
                    Err(error) => self.fail(error),
                },
                State::Refused(error) => {
                    let error = ready!(error.as_mut().poll(cx));
                    self.refused(error);
                }
                State::Reading(body) => match ready!(body.poll_chunk(cx)) {
                    Some(Ok(chunk)) => self.chunk(&chunk),
                    Some(Err(why)) => self.end(Some(&why)),
                    None => self.end(None),
                },
                State::Closing(_) | State::Over => return Poll::Ready(()),
            }
        }
        Poll::Ready(())
    }
}

impl<D: Decode + Unpin> Stream for ReplyStream<'_, D> {
    type Item = ModelEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ModelEvent>> {
        let this = &mut *self;
        if this.ready.is_empty() && this.poll_network(cx).is_pending() {
            ready!(this.clock.poll_expired(cx));
            if this.clock.complete {
                this.end(None);
                if matches!(this.state, State::Sending(_)) {
                    cx.waker().wake_by_ref(); // continues with another request
                    return Poll::Pending;
                }
            } else {
                let (what, limit) = this.clock.expired();
                let error = this.target.too_slow(what, limit);
                this.fail(error);
            }
        }
        if this.ready.len() == 1 && this.poll_closed(cx).is_pending() {
            if !std::mem::replace(&mut this.yielded, true) {
                // The connection may have received the end already. Polling again is cheaper than a
                // timer.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            ready!(this.clock.poll_expired(cx));
            this.drain();
        }
        Poll::Ready(this.ready.pop_front().map(|event| match event {
            ModelEvent::Error(error) => ModelEvent::Error(this.clean(error)),
            ModelEvent::Done { usage, .. } => {
                prompt_truncation::warn_if_truncated(&this.sent, &usage, &this.target.endpoint);
                event
            }
            event => event,
        }))
    }
}

/// A timer that expires without progress of the reply.
struct Clock {
    between: Duration,
    limit: Duration,
    silence: Duration,
    /// `true` once the reply is complete. A timeout is then no error.
    complete: bool,
    last: Option<Instant>,
    /// The time of the last part of the reply, or of the first data before there is one.
    last_part: Option<Instant>,
    sleep: Option<Pin<Box<Sleep>>>,
    /// The waker that `sleep` will wake.
    waits: Option<Waker>,
}

impl Clock {
    fn new(http: &Http) -> Self {
        let times = http.timeouts();
        Clock {
            between: times.idle,
            limit: times.connect.saturating_add(times.first_event),
            silence: times.silence,
            complete: false,
            last: None,
            last_part: None,
            sleep: None,
            waits: None,
        }
    }

    /// Restarts the limit for another request.
    fn restart(&mut self, http: &Http) {
        let waits = (self.sleep.take(), self.waits.take());
        *self = Clock::new(http);
        (self.sleep, self.waits) = waits;
    }

    /// Restarts the limit, because the server works: it has sent something, if only a ping or a
    /// comment. Does nothing after a complete reply.
    fn receive(&mut self) {
        if !self.complete {
            let now = Instant::now();
            self.last = Some(now);
            self.last_part.get_or_insert(now);
        }
    }

    /// Restarts the limit on pings, because what was received contains a part of the reply.
    fn receive_part(&mut self) {
        self.last_part = self.last;
    }

    /// Returns what was missing when the time expired, and for how long.
    fn expired(&self) -> (&'static str, Duration) {
        let silent = self.last_part.is_some_and(|part| part.elapsed() >= self.silence);
        match silent && self.last.is_some_and(|last| last.elapsed() < self.limit) {
            true => ("sent no part of the reply", self.silence),
            false => ("sent nothing", self.limit),
        }
    }

    fn progress(&mut self, progress: Progress) {
        self.complete = progress != Progress::Open;
        self.limit = if self.complete { self.between.min(DRAIN_TIMEOUT) } else { self.between };
    }

    /// Polls until nothing has happened for the limit. The timer is reset when it fires, not with
    /// each event.
    fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let last = *self.last.get_or_insert_with(Instant::now);
        let until = last + self.limit.min(MAX_TIMEOUT);
        let silent = self.last_part.map(|part| part + self.silence.min(MAX_TIMEOUT));
        let until = silent.map_or(until, |silent| silent.min(until));
        if let (Some(sleep), Some(waker)) = (&self.sleep, &self.waits)
            && sleep.deadline() <= until
            && !sleep.is_elapsed()
            && waker.will_wake(cx.waker())
        {
            return Poll::Pending;
        }
        self.poll_sleep(until, cx)
    }

    #[cold]
    fn poll_sleep(&mut self, until: Instant, cx: &mut Context<'_>) -> Poll<()> {
        // The timer fires early, because a reset wakes a thread and most replies end before they
        // need one.
        let early = || until.min(Instant::now() + DRAIN_TIMEOUT);
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(early())));
        if sleep.deadline() > until {
            sleep.as_mut().reset(until); // the limit has become shorter
        }
        self.waits = Some(cx.waker().clone());
        loop {
            ready!(sleep.as_mut().poll(cx));
            if Instant::now() >= until {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(until);
        }
    }
}
