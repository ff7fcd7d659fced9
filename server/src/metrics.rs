//! [`Metrics`]: what the server has done, in Prometheus' text format.

mod text_format;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use loopwright_core::message::Usage;

use self::text_format::TextFormat;

/// The upper bounds of a histogram's buckets, in seconds.
const BUCKETS: [f64; 12] = [0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0];
/// The maximum number of time series of tool calls: models may call tools that do not exist, by any
/// name. Further names are counted as `other`.
const MAX_TOOL_SERIES: usize = 100;
/// The maximum number of pairs of an agent and a model: clients name models. Further pairs are
/// counted as `other`.
const MAX_RUN_SERIES: usize = 100;

/// Counts what happens.
#[derive(Default)]
pub(crate) struct Metrics {
    counters: Mutex<Counters>,
    event_streams: Arc<AtomicI64>,
}

#[derive(Default)]
struct Counters {
    runs_started: u64,
    turns: u64,
    by_source: BTreeMap<Source, RunCounters>,
    tool_calls: BTreeMap<(String, String), u64>,
    tool_seconds: Histogram,
    /// By status.
    requests: BTreeMap<u16, u64>,
    /// By kind.
    refusals: BTreeMap<String, u64>,
}

/// Who does the runs that are counted: an agent, and its model as `PROVIDER/NAME`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Source {
    pub(crate) agent: Arc<str>,
    pub(crate) model: Arc<str>,
}

#[derive(Default)]
struct RunCounters {
    /// By status.
    runs: BTreeMap<String, u64>,
    tokens: Usage,
    cost: f64,
    run_seconds: Histogram,
    reply_seconds: Histogram,
    first_token_seconds: Histogram,
}

impl Counters {
    fn of(&mut self, source: &Source) -> &mut RunCounters {
        let has_series =
            self.by_source.len() < MAX_RUN_SERIES || self.by_source.contains_key(source);
        let source = match has_series {
            true => source.clone(),
            false => Source { agent: "other".into(), model: "other".into() },
        };
        self.by_source.entry(source).or_default()
    }
}

#[derive(Default)]
struct Histogram {
    buckets: [u64; BUCKETS.len()],
    count: u64,
    sum: f64,
}

impl Histogram {
    fn observe(&mut self, time: Duration) {
        let seconds = time.as_secs_f64();
        self.count += 1;
        self.sum += seconds;
        for (bucket, bound) in self.buckets.iter_mut().zip(BUCKETS) {
            *bucket += u64::from(seconds <= bound);
        }
    }
}

/// Counts as an open stream of events until it is dropped.
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

    pub(crate) fn turn_started(&self) {
        self.counters().turns += 1;
    }

    /// Counts a reply of a model: the tokens that it used, and the time that it took.
    pub(crate) fn reply(&self, source: &Source, usage: &Usage, time: Duration) {
        let mut counters = self.counters();
        let counters = counters.of(source);
        counters.tokens += *usage;
        counters.reply_seconds.observe(time);
    }

    /// Counts the time from a request to a model to the first part of its reply.
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

    /// Counts a request or connection that was refused.
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
