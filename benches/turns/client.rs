//! Shared parts of both clients: rounds of agents that start at once, and their cost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

/// The work of a client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work {
    /// The number of agents that run at the same time.
    pub(crate) agents: u64,
    /// The number of consecutive conversations of each agent.
    pub(crate) rounds: u64,
    /// The number of unmeasured rounds before them.
    pub(crate) warm: u64,
}

/// The results and the cost of a client.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Done {
    pub(crate) turns: u64,
    pub(crate) deltas: u64,
    pub(crate) chars: u64,
    /// The user and system time of the process in the measured rounds, in nanoseconds.
    pub(crate) measured_cpu_ns: u64,
    pub(crate) measured_wall_ns: u64,
    /// The peak memory of the process, in KiB.
    pub(crate) peak_kib: u64,
}

/// Counts of all agents of a process.
#[derive(Default)]
pub(crate) struct Tally {
    turns: AtomicU64,
    deltas: AtomicU64,
    chars: AtomicU64,
}

impl Tally {
    pub(crate) fn turn(&self, deltas: u64, chars: u64) {
        self.turns.fetch_add(1, Relaxed);
        self.deltas.fetch_add(deltas, Relaxed);
        self.chars.fetch_add(chars, Relaxed);
    }
}

/// Returns the user and system time of this process, in nanoseconds. Returns 0 if
/// `LOOPWRIGHT_NO_CPU_TIME` is set, for versions of valgrind that cannot read the clock.
fn cpu_ns() -> u64 {
    if std::env::var_os("LOOPWRIGHT_NO_CPU_TIME").is_some() {
        return 0;
    }
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    spent.tv_sec as u64 * 1_000_000_000 + spent.tv_nsec as u64
}

fn peak_kib() -> u64 {
    status_kib("VmHWM:")
}

/// Returns the resident memory of this process, in KiB.
pub(crate) fn resident_kib() -> u64 {
    status_kib("VmRSS:")
}

fn status_kib(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Does the work on a runtime like the one of `#[tokio::main]`. `agent` runs one conversation and
/// returns a value for the next one, such as a connection.
pub(crate) fn run<K, Fut>(work: Work, agent: impl Fn(Arc<Tally>, Option<K>) -> Fut) -> Done
where
    K: Send + 'static,
    Fut: Future<Output = K> + Send + 'static,
{
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let tally = Arc::new(Tally::default());
        let mut kept: Vec<K> = Vec::new();
        let mut from = (cpu_ns(), Instant::now());
        for round in 0..work.warm + work.rounds {
            if round == work.warm {
                from = (cpu_ns(), Instant::now());
            }
            let mut agents: JoinSet<K> =
                (0..work.agents).map(|_| agent(tally.clone(), kept.pop())).collect();
            while let Some(ended) = agents.join_next().await {
                kept.push(ended.expect("an agent"));
            }
        }
        Done {
            measured_cpu_ns: cpu_ns() - from.0,
            measured_wall_ns: from.1.elapsed().as_nanos() as u64,
            turns: tally.turns.load(Relaxed),
            deltas: tally.deltas.load(Relaxed),
            chars: tally.chars.load(Relaxed),
            peak_kib: peak_kib(),
        }
    })
}
