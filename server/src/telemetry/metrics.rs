//! [`Metrics`]: statistics of the server, in Prometheus' text format.

mod counters;
mod text_format;

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use loopwright_core::message::Usage;

use self::counters::Counters;
pub(crate) use self::counters::Source;
use self::text_format::TextFormat;

/// Maximum number of time series of tool calls. Models may call tools that do not exist, by any
/// name, so further names are counted as `other`.
const MAX_TOOL_SERIES: usize = 100;

/// The statistics of a server.
#[derive(Default)]
pub(crate) struct Metrics {
    counters: Mutex<Counters>,
    event_streams: Arc<AtomicI64>,
}

/// A guard that counts as an open stream of events until it is dropped.
pub(crate) struct OpenStream(Arc<AtomicI64>);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Metrics {
    fn counters(&self) -> MutexGuard<'_, Counters> {
        self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn run_started(&self) {
        self.counters().runs_started += 1;
    }

    pub(crate) fn run_ended(&self, source: &Source, status: &str, time: Duration) {
        let mut counters = self.counters();
        let counters = counters.of(source);
        *counters.runs.entry(status.to_owned()).or_default() += 1;
        counters.run_seconds.observe(time);
    }

    /// Counts a session that waits for a person, because processes died while they worked on it.
    pub(crate) fn session_held(&self, source: &Source) {
        self.counters().of(source).held += 1;
    }

    pub(crate) fn turn_started(&self) {
        self.counters().turns += 1;
    }

    /// Counts a reply of a model: its tokens and its duration.
    pub(crate) fn reply(&self, source: &Source, usage: &Usage, time: Duration) {
        let mut counters = self.counters();
        let counters = counters.of(source);
        counters.tokens += *usage;
        counters.reply_seconds.observe(time);
    }

    /// Counts the time from a model request to the first part of the reply.
    pub(crate) fn first_token(&self, source: &Source, time: Duration) {
        self.counters().of(source).first_token_seconds.observe(time);
    }

    /// Counts costs, in US dollars.
    pub(crate) fn cost(&self, source: &Source, dollars: f64) {
        self.counters().of(source).cost += dollars;
    }

    /// Counts a response.
    pub(crate) fn response(&self, status: u16) {
        *self.counters().requests.entry(status).or_default() += 1;
    }

    /// Counts a refused request or connection.
    pub(crate) fn refusal(&self, kind: &str) {
        *self.counters().refusals.entry(kind.to_owned()).or_default() += 1;
    }

    /// Counts a tool call that has a result. `time` is `None` if the tool did not run.
    pub(crate) fn tool_call(&self, tool: &str, status: &str, time: Option<Duration>) {
        let mut counters = self.counters();
        let has_series = counters.tool_calls.len() < MAX_TOOL_SERIES
            || counters.tool_calls.keys().any(|(name, _)| name == tool);
        let tool = if has_series { tool } else { "other" };
        *counters.tool_calls.entry((tool.to_owned(), status.to_owned())).or_default() += 1;
        if let Some(time) = time {
            counters.tool_seconds.observe(time);
        }
    }

    /// Counts a stream of events until the returned guard is dropped.
    pub(crate) fn open_stream(&self) -> OpenStream {
        self.event_streams.fetch_add(1, Ordering::Relaxed);
        OpenStream(self.event_streams.clone())
    }

    /// Returns all metrics in Prometheus' text format, version 0.0.4.
    pub(crate) fn text(&self, live_sessions: usize) -> String {
        let counters = self.counters();
        let mut text = TextFormat::default();
        text.runs(&counters);
        text.usage(&counters);
        text.times(&counters);
        text.requests(&counters);
        text.head("tool_calls_total", "counter", "Tool calls that have a result.");
        for ((tool, status), count) in &counters.tool_calls {
            text.sample("tool_calls_total", &[("tool", tool), ("status", status)], count);
        }
        text.head("tool_seconds", "histogram", "How long tool calls took.");
        text.histogram("tool_seconds", &[], &counters.tool_seconds);
        text.head("event_streams", "gauge", "Streams of events that are open.");
        text.sample("event_streams", &[], self.event_streams.load(Ordering::Relaxed));
        text.head("live_sessions", "gauge", "Sessions that are open in this process.");
        text.sample("live_sessions", &[], live_sessions);
        text.finish()
    }
}
