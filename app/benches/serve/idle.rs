//! Idle event streams.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::client::Lines;
use crate::process::{Process, cpu};
use crate::sessions::create;

/// The number of streams of each session, like several readers of one session.
const READERS: u64 = 10;
/// The number of streams that are opened at the same time.
const OPENING: u64 = 200;

#[derive(Debug)]
pub(crate) struct IdleStreams {
    pub(crate) streams: usize,
    /// The number of streams that were refused, or closed before the end.
    pub(crate) lost: usize,
    /// The number of streams with fewer heartbeats than expected.
    pub(crate) silent: usize,
    pub(crate) heartbeats: u64,
    pub(crate) kib_per_session: f64,
    pub(crate) kib_per_stream: f64,
    /// The number of cores that the server used meanwhile.
    pub(crate) cores: f64,
    /// The number of cores that the client used.
    pub(crate) client: f64,
    /// The time in which all streams were opened.
    pub(crate) opened_in: Duration,
}

/// Opens `streams` streams and holds them for the time of `beats` heartbeats.
pub(crate) async fn hold(server: &Process, streams: u64, beats: u32) -> IdleStreams {
    let sessions = streams.div_ceil(READERS);
    let empty = server.rss_kib();
    let ids = create(server, sessions).await;
    let with_sessions = server.rss_kib();
    let started = Instant::now();
    let mut open = Vec::new();
    for first in (0..streams).step_by(OPENING as usize) {
        let mut opening = JoinSet::new();
        for number in first..streams.min(first + OPENING) {
            let (to, path) = (
                server.address,
                format!("/api/sessions/{}/events", ids[(number / READERS) as usize]),
            );
            opening.spawn(async move {
                let mut lines = Lines::ask(to, "GET", &path, "").await?;
                lines.accepted().await.then_some(lines)
            });
        }
        open.extend(opening.join_all().await.into_iter().flatten());
    }
    let opened_in = started.elapsed();
    let (opened, used, used_here) = (open.len(), server.cpu(), cpu("self"));
    let held = Duration::from_secs(15) * beats + Duration::from_secs(2);
    let until = Instant::now() + held;
    let mut reading = JoinSet::new();
    for lines in open {
        reading.spawn(listen(lines, until));
    }
    // At the end, when the threads that opened the sessions' logs have exited.
    tokio::time::sleep_until(until - Duration::from_millis(500)).await;
    let with_streams = server.rss_kib();
    let ends = reading.join_all().await;
    let seconds = held.as_secs_f64();
    IdleStreams {
        streams: opened,
        lost: streams as usize - ends.iter().flatten().count(),
        silent: ends.iter().flatten().filter(|heartbeats_seen| **heartbeats_seen < beats).count(),
        heartbeats: ends.iter().flatten().map(|heartbeats_seen| u64::from(*heartbeats_seen)).sum(),
        kib_per_session: with_sessions.saturating_sub(empty) as f64 / sessions as f64,
        kib_per_stream: with_streams.saturating_sub(with_sessions) as f64 / opened.max(1) as f64,
        cores: (server.cpu() - used) / seconds,
        client: (cpu("self") - used_here) / seconds,
        opened_in,
    }
}

/// Returns the number of heartbeats until then, or `None` if the stream ended.
async fn listen(mut lines: Lines, until: Instant) -> Option<u32> {
    let mut heartbeats_seen = 0;
    while let Ok(line) = timeout_at(until, lines.next()).await {
        heartbeats_seen += u32::from(line?.starts_with(':'));
    }
    Some(heartbeats_seen)
}
