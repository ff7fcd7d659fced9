//! [`RateLimit`]: delays requests so that a provider's limits are not exceeded.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::stream::{BoxStream, StreamExt};
use loopwright_core::message::{Content, ContentPart, MessageKind};
use loopwright_core::model::{ChatRequest, ModelEvent, ModelInfo};
use loopwright_core::{ChatModel, Message};
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

/// The assumed number of text bytes per token.
const BYTES_PER_TOKEN: u64 = 4;
/// The assumed size of an image, in bytes of text.
const IMAGE_BYTES: u64 = 1_500 * BYTES_PER_TOKEN;
/// Shortages below this amount are rounding errors.
const ROUNDING_ERROR: f64 = 1e-6;

/// A model whose requests wait until its limits allow them.
///
/// The [`RateLimiter`] defines the limits. Its clones share them between models and agents. A
/// request is queued when its stream is first polled, and sent when the limits allow it. Dropping
/// the stream removes the request from the queue. Put it inside [`Retry`](crate::Retry), so that
/// each attempt counts.
///
/// ```
/// use loopwright_providers::{Offline, RateLimit, RateLimiter, Retry};
///
/// let limiter = RateLimiter::new().requests_per_minute(50).tokens_per_minute(40_000);
/// let writer = Retry::new(RateLimit::new(Offline::new(), limiter.clone()));
/// let critic = Retry::new(RateLimit::new(Offline::new(), limiter));
/// ```
#[derive(Debug)]
pub struct RateLimit<M> {
    model: M,
    limiter: RateLimiter,
}

impl<M: ChatModel> RateLimit<M> {
    /// Wraps `model` with this limiter.
    pub fn new(model: M, limiter: RateLimiter) -> Self {
        RateLimit { model, limiter }
    }
}

impl<M: ChatModel> ChatModel for RateLimit<M> {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    fn stream<'a>(&'a self, request: ChatRequest) -> BoxStream<'a, ModelEvent> {
        let guess = estimate(&request) as f64;
        let sent = async move {
            self.limiter.turn(guess).await;
            self.model.stream(request)
        };
        let reply = sent.flatten_stream().inspect(move |event| match event {
            ModelEvent::Done { usage, .. } if usage.total() > 0 => {
                self.limiter.correct(usage.total() as f64 - guess)
            }
            _ => {}
        });
        reply.boxed()
    }
}

/// The limits of requests and tokens per minute. Clones share the limits.
///
/// Each limit is a token bucket with one minute's quota, as at most providers. It starts full and
/// fills evenly, so a whole quota may be used at once. Requests are sent in order of arrival, even
/// if a later, smaller one could be sent sooner.
///
/// The tokens of a request are estimated before it is sent: the usage of the last reply in its
/// conversation, plus a quarter of the bytes since. The estimate is corrected when the reply
/// reports its usage, including output and cached tokens. If the usage is higher, later requests
/// wait for the difference. A request larger than the whole quota is sent when the bucket is full.
#[derive(Debug, Clone, Default)]
pub struct RateLimiter(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    buckets: Mutex<Buckets>,
    /// The right to wait for the buckets, held by the first waiting request. The others queue for
    /// it.
    front: Semaphore,
    /// A signal to the first waiting request: the level has been corrected upwards.
    more: Notify,
}

impl Default for Shared {
    fn default() -> Self {
        Shared { buckets: Mutex::default(), front: Semaphore::new(1), more: Notify::new() }
    }
}

impl RateLimiter {
    /// Returns a limiter without limits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the maximum number of requests per minute; 0 counts as 1.
    pub fn requests_per_minute(self, requests: u32) -> Self {
        self.buckets().requests = Some(Bucket::new(f64::from(requests)));
        self
    }

    /// Sets the maximum number of estimated tokens per minute, input plus output; 0 counts as 1.
    pub fn tokens_per_minute(self, tokens: u64) -> Self {
        self.buckets().tokens = Some(Bucket::new(tokens as f64));
        self
    }

    /// Waits until a request of `tokens` tokens may be sent, and counts it.
    async fn turn(&self, tokens: f64) {
        let _front = self.0.front.acquire().await; // fails only if closed, which never happens
        loop {
            let more = self.0.more.notified();
            let taken = self.buckets().take(tokens, Instant::now());
            let Err(wait) = taken else { return };
            tracing::debug!(?wait, tokens, "a request waits for its turn");
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = more => {}
            }
        }
    }

    /// Corrects the level by the tokens that a request used beyond its estimate. The number is
    /// negative if the request used fewer.
    fn correct(&self, tokens: f64) {
        if let Some(bucket) = &mut self.buckets().tokens {
            bucket.level -= tokens;
        }
        if tokens < 0.0 {
            self.0.more.notify_one();
        }
    }

    /// Locks the buckets. The lock is only held during a calculation.
    fn buckets(&self) -> MutexGuard<'_, Buckets> {
        self.0.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Default)]
struct Buckets {
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
}

impl Buckets {
    /// Takes one request of `tokens` tokens, or returns the wait before the next attempt.
    fn take(&mut self, tokens: f64, now: Instant) -> Result<(), Duration> {
        let mut wants = [(&mut self.requests, 1.0), (&mut self.tokens, tokens)];
        let buckets =
            wants.iter_mut().filter_map(|(bucket, amount)| Some((bucket.as_mut()?, *amount)));
        if let Some(wait) = buckets.filter_map(|(bucket, amount)| bucket.wait(amount, now)).max() {
            return Err(wait);
        }
        for (bucket, amount) in wants {
            if let Some(bucket) = bucket {
                bucket.level -= amount;
            }
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Bucket {
    per_minute: f64,
    /// The available quota; negative after a request that used more than its estimate.
    level: f64,
    /// The time of the last update; `None` until the first use.
    at: Option<Instant>,
}

impl Bucket {
    fn new(per_minute: f64) -> Self {
        let per_minute = per_minute.max(1.0);
        Bucket { per_minute, level: per_minute, at: None }
    }

    /// Returns the time until `amount` is available or the bucket is full. Returns `None` if that
    /// is now.
    fn wait(&mut self, amount: f64, now: Instant) -> Option<Duration> {
        let per_second = self.per_minute / 60.0;
        let passed = now.saturating_duration_since(self.at.replace(now).unwrap_or(now));
        self.level = (self.level + passed.as_secs_f64() * per_second).min(self.per_minute);
        let missing = amount.min(self.per_minute) - self.level;
        (missing > ROUNDING_ERROR)
            .then(|| Duration::try_from_secs_f64(missing / per_second).unwrap_or(Duration::MAX))
    }
}

/// Estimates the tokens of a request. Starts at the last reply with a token count, which covers
/// everything before it.
fn estimate(request: &ChatRequest) -> u64 {
    let mut bytes = 0;
    for message in request.messages.iter().rev() {
        let counted = message.as_assistant().map_or(0, |reply| reply.usage.total());
        if counted > 0 {
            return counted + bytes / BYTES_PER_TOKEN;
        }
        bytes += length(message);
    }
    bytes += request.system.len() as u64;
    for tool in request.tools.iter() {
        let mut schema = ByteCounter(0);
        let _ = serde_json::to_writer(&mut schema, &tool.schema); // counting cannot fail
        bytes += (tool.name.len() + tool.description.len()) as u64 + schema.0;
    }
    bytes / BYTES_PER_TOKEN
}

fn length(message: &Message) -> u64 {
    let content = |content: &[Content]| {
        let bytes = content.iter().map(|part| match part {
            Content::Text { text } => text.len() as u64,
            _ => IMAGE_BYTES,
        });
        bytes.sum()
    };
    match &message.body {
        MessageKind::User(user) => content(&user.content),
        MessageKind::ToolResult(result) => content(&result.content),
        MessageKind::Assistant(reply) => {
            let bytes = reply.parts.iter().map(|part| match part {
                ContentPart::Text { text, .. } | ContentPart::Thinking { text, .. } => text.len(),
                ContentPart::ToolCall(call) => call.name.len() + call.arguments.len(),
                _ => 0,
            });
            bytes.sum::<usize>() as u64
        }
        _ => 0,
    }
}

/// A writer that only counts bytes.
struct ByteCounter(u64);

impl io::Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use loopwright_core::message::{AssistantMessage, MessageId, Usage, UserMessage};
    use loopwright_core::tool::{ToolList, ToolSpec};
    use serde_json::json;

    use super::*;

    fn user(bytes: usize) -> Arc<Message> {
        Arc::new(Message::new(MessageId(1), UserMessage::from("x".repeat(bytes))))
    }

    fn reply(usage: Usage) -> Arc<Message> {
        let part = ContentPart::Text { text: "x".repeat(800), signature: None };
        Arc::new(Message::new(MessageId(2), AssistantMessage::new(vec![part]).usage(usage)))
    }

    fn request(messages: Vec<Arc<Message>>) -> ChatRequest {
        let mut request = ChatRequest::default();
        request.messages = Arc::new(messages);
        request.system = "x".repeat(400).into();
        request
    }

    #[test]
    fn a_first_request_is_guessed_by_its_bytes() {
        let mut first = request(vec![user(4000)]);
        assert_eq!(estimate(&first), 1100);
        let spec = ToolSpec::with_schema("tool", "x".repeat(394), json!({}));
        first.tools = Arc::new(ToolList::new(vec![Arc::new(spec)]));
        assert_eq!(estimate(&first), 1200);
        let image = UserMessage::new(vec![Content::image("image/png", "x".repeat(1 << 20))]);
        first.messages = Arc::new(vec![Arc::new(Message::new(MessageId(1), image))]);
        assert_eq!(estimate(&first), 200 + 1500);
    }

    #[test]
    fn a_later_one_by_what_the_last_reply_counted_and_what_came_since() {
        let counted = Usage::new(40, 10).cache(900, 50).reasoning(5);
        assert_eq!(estimate(&request(vec![user(1 << 20), reply(counted), user(400)])), 1000 + 100);
        let uncounted = reply(Usage::default());
        assert_eq!(
            estimate(&request(vec![user(1 << 20), reply(counted), user(400), uncounted, user(40)])),
            1310
        );
    }
}
