//! `GET /metrics`: what the server has done, for Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;
use loopwright_core::message::Usage;

use crate::config::Server;

/// The upper bounds of a histogram's buckets, in seconds.
const BUCKETS: [f64; 12] = [0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0];
/// A model may call tools that do not exist, by any name: of more names than this the rest is
/// `other`.
const MOST_TOOLS: usize = 100;

/// What is counted.
#[derive(Default)]
pub(crate) struct Metrics {
    counted: Mutex<Counted>,
    streams: Arc<AtomicI64>,
}

#[derive(Default)]
struct Counted {
    started: u64,
    ended: BTreeMap<String, u64>,
    turns: u64,
    tokens: Usage,
    cost: f64,
    calls: BTreeMap<(String, String), u64>,
    runs: Histogram,
    replies: Histogram,
    tools: Histogram,
}

#[derive(Default)]
struct Histogram {
    buckets: [u64; BUCKETS.len()],
    count: u64,
    sum: f64,
}

impl Histogram {
    fn add(&mut self, time: Duration) {
        let seconds = time.as_secs_f64();
        (self.count, self.sum) = (self.count + 1, self.sum + seconds);
        for (bucket, bound) in self.buckets.iter_mut().zip(BUCKETS) {
            *bucket += u64::from(seconds <= bound);
        }
    }
}

/// A stream of events that is open.
pub(crate) struct OpenStream(Arc<AtomicI64>);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Metrics {
    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn run_started(&self) {
        self.counted().started += 1;
    }

    pub(crate) fn run_ended(&self, end: &str, time: Duration) {
        let mut counted = self.counted();
        *counted.ended.entry(end.to_owned()).or_default() += 1;
        counted.runs.add(time);
    }

    pub(crate) fn turn(&self) {
        self.counted().turns += 1;
    }

    /// A reply of a model, with what it used and how long it took.
    pub(crate) fn reply(&self, usage: &Usage, time: Duration) {
        let mut counted = self.counted();
        counted.tokens += *usage;
        counted.replies.add(time);
    }

    /// US dollars.
    pub(crate) fn spent(&self, cost: f64) {
        self.counted().cost += cost;
    }

    /// A call that has its result; one that never ran has no time.
    pub(crate) fn call(&self, tool: &str, status: &str, time: Option<Duration>) {
        let mut counted = self.counted();
        let known =
            counted.calls.len() < MOST_TOOLS || counted.calls.keys().any(|(name, _)| name == tool);
        let tool = if known { tool } else { "other" };
        *counted.calls.entry((tool.to_owned(), status.to_owned())).or_default() += 1;
        if let Some(time) = time {
            counted.tools.add(time);
        }
    }

    /// Counts a stream of events while what is given lives.
    pub(crate) fn open_stream(&self) -> OpenStream {
        self.streams.fetch_add(1, Ordering::Relaxed);
        OpenStream(self.streams.clone())
    }

    /// All of it, in Prometheus' text format.
    fn text(&self, live: usize) -> String {
        let counted = self.counted();
        let mut page = Page(String::new());
        page.head("runs_started_total", "counter", "Runs that began.");
        page.line("runs_started_total", &[], counted.started);
        page.head("runs_total", "counter", "Runs that ended, by how they did.");
        for (end, count) in &counted.ended {
            page.line("runs_total", &[("end", end)], count);
        }
        page.head("runs_active", "gauge", "Runs that go on.");
        page.line("runs_active", &[], counted.started.saturating_sub(counted.ended.values().sum()));
        page.head(
            "turns_total",
            "counter",
            "Turns that began: replies of models and their tool calls.",
        );
        page.line("turns_total", &[], counted.turns);
        page.head("tokens_total", "counter", "Tokens, by kind; reasoning is a part of output.");
        let Usage { input, output, cache_read, cache_write, reasoning } = counted.tokens;
        let kinds = [
            ("input", input),
            ("output", output),
            ("cache_read", cache_read),
            ("cache_write", cache_write),
            ("reasoning", reasoning),
        ];
        for (kind, count) in kinds {
            page.line("tokens_total", &[("kind", kind)], count);
        }
        page.head("cost_dollars_total", "counter", "US dollars spent, as far as prices are known.");
        page.line("cost_dollars_total", &[], counted.cost);
        page.head("tool_calls_total", "counter", "Tool calls that have their result.");
        for ((tool, status), count) in &counted.calls {
            page.line("tool_calls_total", &[("tool", tool), ("status", status)], count);
        }
        page.histogram("run_seconds", "How long runs took.", &counted.runs);
        page.histogram("reply_seconds", "How long replies of models took.", &counted.replies);
        page.histogram("tool_seconds", "How long tool calls took.", &counted.tools);
        page.head("event_streams", "gauge", "Streams of events that are open.");
        page.line("event_streams", &[], self.streams.load(Ordering::Relaxed));
        page.head("live_sessions", "gauge", "Sessions that are open in this process.");
        page.line("live_sessions", &[], live);
        page.0
    }
}

struct Page(String);

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ =
            writeln!(self.0, "# HELP loopwright_{name} {help}\n# TYPE loopwright_{name} {kind}");
    }

    fn line(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let labels: Vec<String> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let labels =
            if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.0, "loopwright_{name}{labels} {value}");
    }

    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.head(name, "histogram", help);
        let bucket = format!("{name}_bucket");
        for (bound, count) in BUCKETS.iter().zip(histogram.buckets) {
            self.line(&bucket, &[("le", &bound.to_string())], count);
        }
        self.line(&bucket, &[("le", "+Inf")], histogram.count);
        self.line(&format!("{name}_sum"), &[], histogram.sum);
        self.line(&format!("{name}_count"), &[], histogram.count);
    }
}

fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

pub(crate) fn routes() -> Router<Server> {
    Router::new().route("/metrics", get(metrics))
}

async fn metrics(State(server): State<Server>) -> impl IntoResponse {
    let shared = server.shared();
    (
        [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")],
        shared.metrics.text(shared.live.count()),
    )
}
