//! The counters of [`Metrics`](super::Metrics).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use loopwright_core::message::Usage;

/// The upper bounds of a histogram's buckets, in seconds.
pub(super) const BUCKETS: [f64; 12] =
    [0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0];
/// Maximum number of pairs of an agent and a model. Clients name models, so further pairs are
/// counted as `other`.
const MAX_RUN_SERIES: usize = 100;

/// All counters.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) runs_started: u64,
    pub(super) turns: u64,
    pub(super) by_source: BTreeMap<Source, RunCounters>,
    pub(super) tool_calls: BTreeMap<(String, String), u64>,
    pub(super) tool_seconds: Histogram,
    /// The number of responses by status.
    pub(super) requests: BTreeMap<u16, u64>,
    /// The number of refusals by kind.
    pub(super) refusals: BTreeMap<String, u64>,
}

/// The origin of counted runs: an agent, and its model as `PROVIDER/NAME`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Source {
    pub(crate) agent: Arc<str>,
    pub(crate) model: Arc<str>,
}

/// The counters of one agent's runs with one model.
#[derive(Default)]
pub(super) struct RunCounters {
    /// The number of runs by status.
    pub(super) runs: BTreeMap<String, u64>,
    /// The number of times that a session was held for a person.
    pub(super) held: u64,
    pub(super) tokens: Usage,
    pub(super) cost: f64,
    pub(super) run_seconds: Histogram,
    pub(super) reply_seconds: Histogram,
    pub(super) first_token_seconds: Histogram,
}

impl Counters {
    /// Returns the counters of the runs of an agent with a model.
    pub(super) fn of(&mut self, source: &Source) -> &mut RunCounters {
        let has_series =
            self.by_source.len() < MAX_RUN_SERIES || self.by_source.contains_key(source);
        let source = match has_series {
            true => source.clone(),
            false => Source { agent: "other".into(), model: "other".into() },
        };
        self.by_source.entry(source).or_default()
    }
}

/// A cumulative histogram of durations: the number of durations up to each bound.
#[derive(Default)]
pub(super) struct Histogram {
    pub(super) buckets: [u64; BUCKETS.len()],
    pub(super) count: u64,
    pub(super) sum: f64,
}

impl Histogram {
    /// Counts a duration.
    pub(super) fn observe(&mut self, time: Duration) {
        let seconds = time.as_secs_f64();
        self.count += 1;
        self.sum += seconds;
        for (bucket, bound) in self.buckets.iter_mut().zip(BUCKETS) {
            *bucket += u64::from(seconds <= bound);
        }
    }
}
