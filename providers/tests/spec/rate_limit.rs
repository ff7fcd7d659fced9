//! `RateLimit`: the order and the time of requests.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use futures::{FutureExt, StreamExt};
use loopwright_core::ChatModel;
use loopwright_core::message::Usage;
use loopwright_core::model::ModelErrorKind;
use loopwright_core::testing::{Script, ScriptedModel};
use loopwright_providers::{RateLimit, RateLimiter, Retry};
use tokio::time::Instant;

use crate::kit::{request, scripted, transcript};

type Limited = RateLimit<ScriptedModel>;

/// Returns a model with enough replies, each of which reports a usage of `tokens` tokens.
fn limited(limiter: &RateLimiter, tokens: u64) -> Limited {
    let usage = Usage::new(tokens, 0);
    RateLimit::new(
        scripted("a/1", (0..500).map(|_| Script::text("yes").usage(usage))),
        limiter.clone(),
    )
}

/// Returns the time at which the reply to a request of `tokens` tokens ended, in seconds.
async fn over(model: &Limited, begin: Instant, tokens: usize) -> f64 {
    model.stream(request(&"x".repeat(tokens * 4))).for_each(|_| async {}).await;
    (begin.elapsed().as_secs_f64() * 10.0).round() / 10.0
}

#[tokio::test(start_paused = true)]
async fn a_minutes_worth_of_requests_goes_at_once_and_the_next_evenly() {
    let (model, begin) = (limited(&RateLimiter::new().requests_per_minute(30), 0), Instant::now());
    let times = join_all((0..33).map(|_| over(&model, begin, 1))).await;
    assert!(times[..30].iter().all(|time| *time == 0.0), "{times:?}");
    assert_eq!(times[30..], [2.0, 4.0, 6.0]);
    tokio::time::advance(Duration::from_secs(600)).await;
    let begin = Instant::now();
    let times = join_all((0..31).map(|_| over(&model, begin, 1))).await;
    assert_eq!(times[29..], [0.0, 2.0], "what is not used is not saved up");
}

#[tokio::test(start_paused = true)]
async fn tokens_are_guessed_by_what_is_sent() {
    let (model, begin) = (limited(&RateLimiter::new().tokens_per_minute(600), 0), Instant::now());
    let times =
        join_all([over(&model, begin, 400), over(&model, begin, 400), over(&model, begin, 100)])
            .await;
    assert_eq!(times, [0.0, 20.0, 30.0]);
}

#[tokio::test(start_paused = true)]
async fn nobody_is_overtaken() {
    let (model, begin) = (limited(&RateLimiter::new().tokens_per_minute(600), 0), Instant::now());
    let times =
        join_all([over(&model, begin, 500), over(&model, begin, 600), over(&model, begin, 50)])
            .await;
    assert_eq!(times, [0.0, 50.0, 55.0], "the last one would have fitted at once");
}

#[tokio::test(start_paused = true)]
async fn the_guess_is_put_right_by_what_the_reply_tells() {
    let limiter = RateLimiter::new().tokens_per_minute(600);
    let (dear, begin) = (limited(&limiter, 660), Instant::now());
    assert_eq!(over(&dear, begin, 100).await, 0.0);
    assert_eq!(
        over(&dear, begin, 100).await,
        16.0,
        "60 tokens of debt and its own 100, ten a second"
    );
}

#[tokio::test(start_paused = true)]
async fn an_estimate_that_was_too_high_helps_requests_that_wait_already() {
    let limiter = RateLimiter::new().tokens_per_minute(600);
    let slow = Script::new().wait(Duration::from_secs(5)).say("yes").usage(Usage::new(100, 0));
    let model = RateLimit::new(scripted("a/1", [slow.clone(), slow]), limiter);
    let begin = Instant::now();
    let times = join_all([over(&model, begin, 600), over(&model, begin, 500)]).await;
    assert_eq!(
        times,
        [5.0, 10.0],
        "the second one goes when the first is over, not after 50 seconds"
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_larger_than_the_limit_goes_when_the_bucket_is_full() {
    let (model, begin) = (limited(&RateLimiter::new().tokens_per_minute(60), 0), Instant::now());
    assert_eq!(over(&model, begin, 10).await, 0.0);
    assert_eq!(over(&model, begin, 6000).await, 10.0);
    assert_eq!(over(&model, begin, 1).await, 10.0 + 5941.0, "and is paid for by the next one");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_wait_gives_its_turn_up() {
    let (model, begin) = (limited(&RateLimiter::new().requests_per_minute(1), 0), Instant::now());
    assert_eq!(over(&model, begin, 1).await, 0.0);
    let mut first = Box::pin(over(&model, begin, 1));
    let mut second = Box::pin(over(&model, begin, 1));
    assert!(
        futures::poll!(first.as_mut()).is_pending() && futures::poll!(second.as_mut()).is_pending()
    );
    tokio::time::advance(Duration::from_secs(30)).await;
    drop(first);
    assert_eq!(second.await, 60.0, "the turn of the one that left");
    assert_eq!(over(&model, begin, 1).await, 120.0, "nothing was counted for it");
}

#[tokio::test(start_paused = true)]
async fn models_and_agents_share_a_limit_by_its_clones() {
    let limiter = RateLimiter::new().requests_per_minute(1);
    let (one, other, begin) = (limited(&limiter, 0), limited(&limiter.clone(), 0), Instant::now());
    let times =
        join_all([over(&one, begin, 1), over(&other, begin, 1), over(&one, begin, 1)]).await;
    assert_eq!(times, [0.0, 60.0, 120.0]);
    let alone = limited(&RateLimiter::new(), 0);
    assert_eq!(over(&alone, begin, 1 << 20).await, 120.0, "without limits no request waits");
}

#[tokio::test(start_paused = true)]
async fn each_attempt_counts_within_a_retry() {
    let broken = || Script::error(ModelErrorKind::Overloaded, "busy");
    let limiter = RateLimiter::new().requests_per_minute(1);
    let model =
        Retry::new(RateLimit::new(scripted("a/1", [broken(), Script::text("yes")]), limiter))
            .seed(7);
    let begin = Instant::now();
    assert_eq!(transcript(&model).await, "~+yes.$");
    assert_eq!(begin.elapsed().as_secs(), 60);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_before_its_turn() {
    let inner = scripted("a/1", [Script::text("yes"), Script::text("yes")]);
    let model = Arc::new(RateLimit::new(inner.clone(), RateLimiter::new().requests_per_minute(1)));
    transcript(&model).await;
    assert!(model.stream(request("Hello")).next().now_or_never().is_none());
    assert_eq!(inner.requests().len(), 1);
    assert_eq!(&*model.info().id, "a/1");
}
