//! [`Metrics`]: what the server has done, in Prometheus' text format.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use loopwright_core::message::Usage;

/// The upper bounds of a histogram's buckets, in seconds.
const BUCKETS: [f64; 12] = [0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0];
/// The maximum number of time series of tool calls: models may call tools that do not exist, by any
/// name. Further names are counted as `other`.
const MAX_TOOL_SERIES: usize = 100;

/// Counts what happens.
#[derive(Default)]
pub(crate) struct Metrics {
    counters: Mutex<Counters>,
    event_streams: Arc<AtomicI64>,
}

#[derive(Default)]
struct Counters {
    runs_started: u64,
    runs_ended: BTreeMap<String, u64>,
    turns: u64,
    tokens: Usage,
    cost: f64,
    tool_calls: BTreeMap<(String, String), u64>,
    run_seconds: Histogram,
    reply_seconds: Histogram,
    tool_seconds: Histogram,
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

    pub(crate) fn run_ended(&self, end: &str, time: Duration) {
        let mut counters = self.counters();
        *counters.runs_ended.entry(end.to_owned()).or_default() += 1;
        counters.run_seconds.observe(time);
    }

    pub(crate) fn turn_started(&self) {
        self.counters().turns += 1;
    }

    /// Counts a reply of a model: the tokens that it used, and the time that it took.
    pub(crate) fn reply(&self, usage: &Usage, time: Duration) {
        let mut counters = self.counters();
        counters.tokens += *usage;
        counters.reply_seconds.observe(time);
    }

    /// Counts costs, in US dollars.
    pub(crate) fn cost(&self, dollars: f64) {
        self.counters().cost += dollars;
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
        let mut text = TextFormat(String::new());
        text.runs(&counters);
        text.usage(&counters);
        text.head("tool_calls_total", "counter", "Tool calls that have a result.");
        for ((tool, status), count) in &counters.tool_calls {
            text.sample("tool_calls_total", &[("tool", tool), ("status", status)], count);
        }
        text.histogram("run_seconds", "How long runs took.", &counters.run_seconds);
        text.histogram("reply_seconds", "How long model replies took.", &counters.reply_seconds);
        text.histogram("tool_seconds", "How long tool calls took.", &counters.tool_seconds);
        text.head("event_streams", "gauge", "Streams of events that are open.");
        text.sample("event_streams", &[], self.event_streams.load(Ordering::Relaxed));
        text.head("live_sessions", "gauge", "Sessions that are open in this process.");
        text.sample("live_sessions", &[], live_sessions);
        text.0
    }
}

/// Prometheus' text format, while it is written.
struct TextFormat(String);

impl TextFormat {
    fn runs(&mut self, counters: &Counters) {
        self.head("runs_started_total", "counter", "Runs that were started.");
        self.sample("runs_started_total", &[], counters.runs_started);
        self.head("runs_total", "counter", "Runs that have ended, by status.");
        for (end, count) in &counters.runs_ended {
            self.sample("runs_total", &[("end", end)], count);
        }
        let ended = counters.runs_ended.values().sum();
        self.head("runs_active", "gauge", "Runs in progress.");
        self.sample("runs_active", &[], counters.runs_started.saturating_sub(ended));
        let help = "Turns that were started: model replies and their tool calls.";
        self.head("turns_total", "counter", help);
        self.sample("turns_total", &[], counters.turns);
    }

    fn usage(&mut self, counters: &Counters) {
        self.head("tokens_total", "counter", "Tokens, by kind; reasoning is a part of output.");
        let tokens = counters.tokens;
        let kinds = [
            ("input", tokens.input),
            ("output", tokens.output),
            ("cache_read", tokens.cache_read),
            ("cache_write", tokens.cache_write),
            ("reasoning", tokens.reasoning),
        ];
        for (kind, count) in kinds {
            self.sample("tokens_total", &[("kind", kind)], count);
        }
        let help = "US dollars spent, as far as prices are known.";
        self.head("cost_dollars_total", "counter", help);
        self.sample("cost_dollars_total", &[], counters.cost);
    }

    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.head(name, "histogram", help);
        let bucket = format!("{name}_bucket");
        for (bound, count) in BUCKETS.iter().zip(histogram.buckets) {
            self.sample(&bucket, &[("le", &bound.to_string())], count);
        }
        self.sample(&bucket, &[("le", "+Inf")], histogram.count);
        self.sample(&format!("{name}_sum"), &[], histogram.sum);
        self.sample(&format!("{name}_count"), &[], histogram.count);
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ =
            writeln!(self.0, "# HELP loopwright_{name} {help}\n# TYPE loopwright_{name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let labels: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let labels =
            if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.0, "loopwright_{name}{labels} {value}");
    }
}

fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
