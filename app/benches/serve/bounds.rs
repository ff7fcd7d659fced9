//! The bounds of the figures, and the check against them.

use std::time::Duration;

use crate::idle::IdleStreams;
use crate::list::List;
use crate::runs::Measured;

/// The sizes of the parts, and the bounds of their figures.
pub(crate) struct Bounds {
    pub(crate) runs: u64,
    pub(crate) time: Duration,
    /// The number of rounds in which the server and its reference are measured in turns.
    pub(crate) rounds: usize,
    pub(crate) delay_ms: f64,
    pub(crate) part_of_rate: f64,
    /// The CPU time per delta, in multiples of the relay's.
    pub(crate) relay_factor: f64,
    pub(crate) readers: u64,
    pub(crate) reader_delay_ms: f64,
    /// The CPU time per delta and reader, in multiples of the broadcast's.
    pub(crate) broadcast_factor: f64,
    pub(crate) streams: u64,
    pub(crate) heartbeats: u32,
    pub(crate) kib_per_stream: f64,
    pub(crate) sessions: u64,
    pub(crate) page_time: Duration,
    pub(crate) list_time: Duration,
}

pub(crate) const FULL: Bounds = Bounds {
    runs: 1_000,
    time: Duration::from_secs(10),
    rounds: 3,
    delay_ms: 50.0,
    part_of_rate: 0.95,
    relay_factor: 2.0,
    readers: 2_000,
    reader_delay_ms: 100.0,
    broadcast_factor: 1.3,
    streams: 10_000,
    heartbeats: 2,
    kib_per_stream: 16.0,
    sessions: 10_000,
    page_time: Duration::from_millis(20),
    list_time: Duration::from_secs(1),
};

pub(crate) const QUICK: Bounds = Bounds {
    runs: 250,
    time: Duration::from_secs(4),
    rounds: 1,
    delay_ms: 250.0,
    part_of_rate: 0.8,
    relay_factor: 3.0,
    readers: 500,
    reader_delay_ms: 250.0,
    broadcast_factor: 2.0,
    streams: 1_000,
    heartbeats: 1,
    kib_per_stream: 24.0,
    sessions: 1_000,
    page_time: Duration::from_millis(100),
    list_time: Duration::from_secs(1),
};

/// Maximum size of the first page of the list.
const MAX_PAGE_BYTES: usize = 64 * 1024;
/// Maximum size of all pages of the list, for each session.
const MAX_BYTES_PER_SESSION: usize = 512;

/// Returns the median.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

impl Bounds {
    /// Returns the bounds that these measurements exceed, with `delay_ms` as the bound of the
    /// latency.
    pub(crate) fn misses(&self, part: &str, rounds: &[Measured], delay_ms: f64) -> Vec<String> {
        let load = rounds[0].load;
        let p99 = median(rounds.iter().map(|measured| measured.delay(0.99)).collect());
        let rate = median(rounds.iter().map(|measured| measured.rate).collect());
        let failed = rounds.iter().map(|measured| measured.failed).max().unwrap_or_default();
        let wanted = load.rate * load.runs as f64;
        let mut misses = Vec::new();
        if failed > 0 {
            misses.push(format!("{part}: {failed} of {} failed.", load.runs));
        }
        if p99 > delay_ms {
            misses.push(format!(
                "{part}: 99 of 100 deltas came within {p99:.1} ms, which must be {delay_ms} at \
                 most."
            ));
        }
        if rate < wanted * self.part_of_rate {
            misses.push(format!("{part}: {rate:.0} deltas came per second of {wanted:.0}."));
        }
        misses
    }

    /// Returns the bounds that the idle streams exceed.
    pub(crate) fn idle_misses(&self, held: &IdleStreams) -> Vec<String> {
        let mut misses = Vec::new();
        for (count, what) in
            [(held.lost, "were refused or ended"), (held.silent, "lacked a heartbeat")]
        {
            if count > 0 {
                misses.push(format!("{count} of {} idle streams {what}.", self.streams));
            }
        }
        if held.kib_per_stream > self.kib_per_stream {
            misses.push(format!(
                "An idle stream takes {:.1} KiB, which must be {} at most.",
                held.kib_per_stream, self.kib_per_stream
            ));
        }
        misses
    }

    /// Returns the bounds that the list exceeds.
    pub(crate) fn list_misses(&self, list: &List) -> Vec<String> {
        let bytes = list.bytes / list.sessions.max(1);
        let mut misses = Vec::new();
        if list.sessions as u64 != self.sessions {
            misses.push(format!("The list has {} of {} sessions.", list.sessions, self.sessions));
        }
        if list.page_bytes > MAX_PAGE_BYTES || list.page_time > self.page_time {
            misses.push(format!(
                "The first page of the list has {} bytes and takes {:?}; the bounds are \
                 {MAX_PAGE_BYTES} bytes and {:?}.",
                list.page_bytes, list.page_time, self.page_time
            ));
        }
        if bytes > MAX_BYTES_PER_SESSION || list.time > self.list_time {
            misses.push(format!(
                "The list has {bytes} bytes per session and takes {:?}; the bounds are \
                 {MAX_BYTES_PER_SESSION} bytes and {:?}.",
                list.time, self.list_time
            ));
        }
        misses
    }
}
