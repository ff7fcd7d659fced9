//! [`Retry`]: asks again when a request failed in a way that may pass.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::stream::{BoxStream, Stream, StreamExt};
use loopwright_core::ChatModel;
use loopwright_core::model::{ChatRequest, ModelEvent, ModelInfo, RetryNotice};
use tokio::time::Sleep;

use super::emitted::Emitted;
use super::retry_rule::{Delays, NextAttempt, RetryRule};
use crate::http::endpoint::cut_short;

/// A model whose requests are retried after a
/// [retryable](loopwright_core::model::ModelError::is_retryable) error: a rate limit, an overloaded
/// or failing server, a broken connection, a timeout, or a response that could not be understood.
///
/// The provider's header `x-should-retry` takes precedence. A wrong key, an exhausted quota, a
/// missing payment, a refused request and an error inside a stream with an unknown code are final.
/// A malformed reply of the model
/// ([`ModelErrorKind::Malformed`](loopwright_core::model::ModelErrorKind::Malformed)) is final too.
/// Only [`RetryMalformedCalls`](crate::RetryMalformedCalls) handles it, so the attempts of the two
/// do not multiply.
///
/// ```
/// use std::time::Duration;
///
/// use loopwright_providers::{Offline, Retry};
///
/// let model = Retry::new(Offline::new()).attempts(5).max_delay(Duration::from_secs(20));
/// ```
///
/// The delay before the second attempt is random, between half of [`Retry::base_delay`] and all of
/// it. Both bounds double before each further attempt, until [`Retry::max_delay`]. A wait that the
/// provider requests is added to the delay, up to the same maximum. If the provider requests a
/// longer wait, the error is returned at once.
///
/// At most three attempts may reach no server
/// ([`Unreachable`](loopwright_core::model::ModelErrorKind::Unreachable)). At most three may fail
/// after a reply has begun or because a timeout has expired, since providers charge for them.
///
/// An attempt that had begun to stream is [withdrawn](ModelEvent::Withdrawn) at once, and
/// [`ModelEvent::Retry`] contains the delay and the reason.
#[derive(Debug)]
pub struct Retry<M> {
    model: M,
    rule: RetryRule,
}

impl<M: ChatModel> Retry<M> {
    /// Wraps `model` with ten attempts and delays of at most 0.5 s, 1 s, 2 s, … 60 s.
    pub fn new(model: M) -> Self {
        Retry { model, rule: RetryRule::default() }
    }

    /// Sets the maximum number of attempts, including the first. Defaults to
    /// [`MAX_ATTEMPTS`](crate::MAX_ATTEMPTS).
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.rule.attempts = attempts;
        self
    }

    /// Sets the maximum delay before the second attempt. Defaults to half a second.
    pub fn base_delay(mut self, delay: Duration) -> Self {
        self.rule.base = delay;
        self
    }

    /// Sets the maximum delay before any attempt, even if the provider requests a longer wait.
    /// Defaults to [`MAX_RETRY_DELAY`](crate::MAX_RETRY_DELAY).
    pub fn max_delay(mut self, delay: Duration) -> Self {
        self.rule.max_delay = delay;
        self
    }

    /// Makes the delays of each request reproducible, for tests.
    pub fn seed(mut self, seed: u64) -> Self {
        self.rule.seed = Some(seed);
        self
    }
}

impl<M: ChatModel> ChatModel for Retry<M> {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    fn stream<'a>(&'a self, request: ChatRequest) -> BoxStream<'a, ModelEvent> {
        let state = State::Attempt(self.model.stream(request.clone()));
        let (emitted, ready, delays) = (Emitted::default(), VecDeque::new(), self.rule.delays());
        let has_reply = false;
        Attempts { retry: self, request, delays, emitted, has_reply, ready, state }.boxed()
    }
}

struct Attempts<'a, M> {
    retry: &'a Retry<M>,
    request: ChatRequest,
    delays: Delays,
    emitted: Emitted,
    /// `true` if the attempt has emitted a part of a reply, even if it was withdrawn since.
    has_reply: bool,
    /// The events to return before the stream's.
    ready: VecDeque<ModelEvent>,
    state: State<'a>,
}

enum State<'a> {
    Attempt(BoxStream<'a, ModelEvent>),
    Waiting(Pin<Box<Sleep>>),
    Over,
}

impl<M: ChatModel> Stream for Attempts<'_, M> {
    type Item = ModelEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ModelEvent>> {
        let this = &mut *self;
        loop {
            if let Some(event) = this.ready.pop_front() {
                return Poll::Ready(Some(event));
            }
            match &mut this.state {
                State::Over => return Poll::Ready(None),
                State::Waiting(sleep) => {
                    ready!(sleep.as_mut().poll(cx));
                    this.state = State::Attempt(this.retry.model.stream(this.request.clone()));
                }
                State::Attempt(stream) => {
                    let event = ready!(stream.poll_next_unpin(cx));
                    match event
                        .unwrap_or_else(|| ModelEvent::Error(cut_short(&this.retry.info().id)))
                    {
                        ModelEvent::Error(error) => {
                            let has_reply = std::mem::take(&mut this.has_reply);
                            let next = this.retry.rule.next(&mut this.delays, &error, has_reply);
                            let Some(next) = next else {
                                this.state = State::Over;
                                return Poll::Ready(Some(ModelEvent::Error(error)));
                            };
                            let NextAttempt { number, last, delay } = next;
                            tracing::debug!(attempt = number, ?delay, %error, "retrying a request");
                            this.state = State::Waiting(Box::pin(tokio::time::sleep(delay)));
                            this.ready.extend(this.emitted.withdraw());
                            let notice = RetryNotice::new(number, last, delay, &error);
                            this.ready.push_back(ModelEvent::Retry(Arc::new(notice)));
                        }
                        event => {
                            this.emitted.note(&event);
                            this.has_reply |= this.emitted.any();
                            if let ModelEvent::Done { .. } = event {
                                this.state = State::Over;
                            }
                            return Poll::Ready(Some(event));
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use loopwright_core::message::{StopReason, Usage};
    use loopwright_core::model::{BlockKind, ModelError, ModelErrorKind};
    use tokio::time::Instant;

    use super::*;

    /// A model that returns one scripted attempt after another.
    struct Script(ModelInfo, Mutex<Vec<Vec<ModelEvent>>>);

    impl ChatModel for Script {
        fn info(&self) -> &ModelInfo {
            &self.0
        }

        fn stream<'a>(&'a self, _: ChatRequest) -> BoxStream<'a, ModelEvent> {
            futures::stream::iter(self.1.lock().unwrap().remove(0)).boxed()
        }
    }

    fn retry(attempts: Vec<Vec<ModelEvent>>) -> Retry<Script> {
        Retry::new(Script(ModelInfo::new("test/script"), Mutex::new(attempts))).seed(7)
    }

    fn error(kind: ModelErrorKind, wait: Option<u64>) -> ModelEvent {
        let mut error = ModelError::new(kind, "no");
        error.retry_after = wait.map(Duration::from_secs);
        ModelEvent::Error(error)
    }

    fn started() -> ModelEvent {
        ModelEvent::BlockStart { block: 0, kind: BlockKind::Text }
    }

    fn done() -> ModelEvent {
        ModelEvent::Done { stop: StopReason::Stop, usage: Usage::default() }
    }

    async fn all_events(model: &Retry<Script>) -> Vec<ModelEvent> {
        model.stream(ChatRequest::default()).collect().await
    }

    /// Returns the events without the notices.
    async fn events(model: &Retry<Script>) -> Vec<ModelEvent> {
        let mut events = all_events(model).await;
        events.retain(|event| !matches!(event, ModelEvent::Retry(_)));
        events
    }

    #[tokio::test(start_paused = true)]
    async fn each_retry_is_announced_before_its_delay() {
        let failed = |wait| error(ModelErrorKind::RateLimited, wait);
        let attempts = vec![vec![failed(None)], vec![started(), failed(Some(20))], vec![done()]];
        let model = retry(attempts).attempts(4);
        let mut stream = model.stream(ChatRequest::default());
        let mut notices = Vec::new();
        while let Some(event) = stream.next().await {
            if let ModelEvent::Retry(notice) = event {
                notices.push((notice, Instant::now()));
            }
        }
        let [(first, at), (second, then)] = &notices[..] else { panic!("{notices:?}") };
        assert_eq!((first.attempt, first.max_attempts), (2, 4));
        assert_eq!((first.kind, &*first.reason), (ModelErrorKind::RateLimited, "no"));
        let delay = |notice: &RetryNotice| Duration::from_millis(notice.delay_ms);
        assert!(*then - *at >= delay(first));
        assert_eq!(second.attempt, 3);
        assert!(delay(second) > Duration::from_secs(20), "{second:?}");
        let waited = then.elapsed();
        assert!(waited >= delay(second) && waited < delay(second) + Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_of_two_minutes_is_survived() {
        let begin = Instant::now();
        let model = retry(vec![vec![error(ModelErrorKind::Network, None)]; 10]);
        events(&model).await;
        let waited = begin.elapsed().as_secs();
        assert!((90..=184).contains(&waited), "{waited}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_half_streamed_attempt_is_withdrawn() {
        let cut = error(ModelErrorKind::Network, None);
        let model = retry(vec![vec![cut.clone()], vec![started(), cut], vec![started(), done()]]);
        assert_eq!(events(&model).await, [started(), ModelEvent::Withdrawn, started(), done()]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_that_has_reported_its_usage_is_withdrawn() {
        let cut = error(ModelErrorKind::Network, None);
        let used = || ModelEvent::Usage(Usage::new(5, 0));
        let model = retry(vec![vec![used(), cut], vec![used(), started(), done()]]);
        let expected = [used(), ModelEvent::Withdrawn, used(), started(), done()];
        assert_eq!(events(&model).await, expected);
    }

    /// C470: Nothing that a wait does not mend is waited for.
    #[tokio::test(start_paused = true)]
    async fn a_server_that_cannot_be_reached_is_tried_three_times() {
        let begin = Instant::now();
        let last = error(ModelErrorKind::Unreachable, None);
        let model = retry(vec![vec![last.clone()]; 3]);
        let all = all_events(&model).await;
        let [ModelEvent::Retry(first), ModelEvent::Retry(second), end] = &all[..] else {
            panic!("{all:?}");
        };
        assert_eq!((first.attempt, first.max_attempts), (2, 3));
        assert_eq!((second.attempt, second.max_attempts), (3, 3));
        assert_eq!(*end, last);
        assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
        let reached = vec![error(ModelErrorKind::Overloaded, None)];
        let model = retry(vec![vec![last.clone()], reached, vec![last.clone()], vec![done()]]);
        assert_eq!(events(&model).await, [done()]);
    }

    /// C471: A proxy may cut each stream.
    #[tokio::test(start_paused = true)]
    async fn replies_that_fail_are_paid_for_three_times() {
        let cut = error(ModelErrorKind::Network, None);
        let model = retry(vec![vec![started(), cut.clone()]; 3]);
        assert_eq!(events(&model).await.last(), Some(&cut));
        assert!(model.model.1.lock().unwrap().is_empty());
        let model = retry(vec![vec![error(ModelErrorKind::Protocol, None)]; 3]);
        events(&model).await;
        let half = vec![started(), cut.clone()];
        let model = retry(vec![half.clone(), vec![cut.clone()], half, vec![cut], vec![done()]]);
        assert_eq!(events(&model).await.last(), Some(&done()));
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_error_is_given_out() {
        let model = retry(vec![vec![error(ModelErrorKind::Overloaded, None)]; 10]);
        assert_eq!(events(&model).await, [error(ModelErrorKind::Overloaded, None)]);
        assert!(model.model.1.lock().unwrap().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_pass_is_not_retried() {
        use ModelErrorKind::*;
        for kind in [
            Auth,
            QuotaExhausted,
            PaymentRequired,
            ContextOverflow,
            InvalidRequest,
            ContentFiltered,
            Malformed,
        ] {
            let last = error(kind, Some(1));
            let model = retry(vec![vec![last.clone()], vec![done()]]);
            assert_eq!(events(&model).await, [last]);
        }
        for kind in [RateLimited, Overloaded, Unreachable, Network, Timeout, Protocol] {
            let model = retry(vec![vec![error(kind, Some(1))], vec![done()]]);
            assert_eq!(events(&model).await, [done()]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_provider_says_about_a_retry_goes_before_the_kind_of_error() {
        for (kind, should_retry, retried) in [
            (ModelErrorKind::Overloaded, false, false),
            (ModelErrorKind::RateLimited, false, false),
            (ModelErrorKind::InvalidRequest, true, true),
            (ModelErrorKind::Overloaded, true, true),
        ] {
            let mut failed = ModelError::new(kind, "no");
            failed.should_retry = Some(should_retry);
            let last = ModelEvent::Error(failed);
            let model = retry(vec![vec![last.clone()], vec![done()]]);
            assert_eq!(events(&model).await, [if retried { done() } else { last }], "{kind:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn quirk_22_a_wait_of_hours_is_not_waited_for() {
        let begin = Instant::now();
        let last = error(ModelErrorKind::RateLimited, Some(114 * 3600));
        let model = retry(vec![vec![last.clone()], vec![done()]]);
        assert_eq!(events(&model).await, std::slice::from_ref(&last));
        assert_eq!(begin.elapsed(), Duration::ZERO);
        let waiting =
            retry(vec![vec![last], vec![done()]]).max_delay(Duration::from_secs(115 * 3600));
        assert_eq!(events(&waiting).await, [done()]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_without_a_final_event_is_retried_and_never_a_reply() {
        let model = retry(vec![vec![started()], vec![], vec![started(), done()]]);
        assert_eq!(events(&model).await, [started(), ModelEvent::Withdrawn, started(), done()]);
        let model = retry(vec![vec![]]).attempts(1);
        assert!(matches!(&events(&model).await[..], [ModelEvent::Error(e)]
                if e.kind == ModelErrorKind::Network));
    }

    #[tokio::test(start_paused = true)]
    async fn a_requested_wait_is_honoured() {
        let model = retry(vec![vec![error(ModelErrorKind::RateLimited, Some(20))], vec![done()]]);
        let begin = Instant::now();
        assert_eq!(events(&model).await, [done()]);
        let waited = begin.elapsed();
        assert!((20.0..=20.6).contains(&waited.as_secs_f64()), "{waited:?}");
    }
}
