//! Times of takeovers, steers and decisions.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use loopwright_core::SessionStore;
use loopwright_core::log::{Due, LogEntry, SessionInfo};
use loopwright_memory::Postgres;

use crate::client::History;
use crate::nemesis::{Done, Fault};
use crate::records::Record;

/// Prints the times of takeovers, steers and decisions, and the appends of a turn.
pub(crate) async fn print(
    store: &Postgres,
    faults: &[Done],
    histories: &[History],
    records: &[Record],
) {
    let mut takeovers = Vec::new();
    let (mut turns, mut appends, mut upgraded_runs) = (0, 0, 0);
    for history in histories {
        let log = store.read(&history.session, 0).await.unwrap_or_default();
        upgraded_runs += runs_of_several_versions(&log);
        turns += log.iter().filter(|entry| matches!(entry, LogEntry::Replied { .. })).count();
        let mut of_session: Vec<(u64, u64, u64, u32)> = records
            .iter()
            .filter_map(|record| match record {
                Record::Append { session, at, entries, time, worker, .. }
                    if *session == history.session =>
                {
                    Some((*at, *entries, *time, *worker))
                }
                _ => None,
            })
            .collect();
        of_session.sort_unstable();
        appends += of_session.len();
        for fault in faults.iter().filter(|fault| fault.fault == Fault::Kill) {
            let before = of_session.iter().rev().find(|append| append.2 <= fault.time);
            let Some((at, entries, _, worker)) = before else { continue };
            let end = (at + entries) as usize;
            let info = SessionInfo::of(history.session.as_str(), &log[..end.min(log.len())]);
            // The killed worker had a run in progress.
            if Some(*worker) != fault.process || info.due != Some(Due::Interrupted) {
                continue;
            }
            let next = of_session.iter().find(|append| append.0 >= *at + *entries);
            takeovers.extend(next.map(|next| Duration::from_millis(next.2 - fault.time)));
        }
    }
    println!("takeover after a kill: {}", summary(takeovers));
    let all = |times: fn(&History) -> &Vec<Duration>| -> Vec<Duration> {
        histories.iter().flat_map(times).copied().collect()
    };
    println!("steer to its receipt: {}", summary(all(|history| &history.steers)));
    println!("decision to its receipt: {}", summary(all(|history| &history.decisions)));
    let mut by_worker: BTreeMap<u32, usize> = BTreeMap::new();
    for record in records {
        if let Record::Append { worker, .. } = record {
            *by_worker.entry(*worker).or_default() += 1;
        }
    }
    println!("appends by worker: {:?}", by_worker.values().collect::<Vec<_>>());
    println!("runs that were begun by old code and ended by new code: {upgraded_runs}");
    if faults.iter().any(|fault| fault.fault == Fault::Upgrade) {
        assert_ne!(upgraded_runs, 0, "runs continue with new code");
    }
    println!("appends of a turn: {:.1}", appends as f64 / turns as f64);
}

/// Returns the number of runs with replies of several versions of the code.
fn runs_of_several_versions(log: &[LogEntry]) -> usize {
    let (mut count, mut versions) = (0, BTreeSet::new());
    for entry in log {
        match entry {
            LogEntry::RunStarted { .. } => versions.clear(),
            LogEntry::Replied { message, .. } => {
                let text = message.text();
                versions.extend(text.split_once("version ").map(|(_, version)| version.to_owned()));
            }
            LogEntry::RunEnded { .. } => count += usize::from(versions.len() > 1),
            _ => {}
        }
    }
    count
}

fn summary(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    match (times.get(times.len() / 2), times.last()) {
        (Some(half), Some(last)) => {
            let ms = |time: &Duration| time.as_millis();
            format!("{} times, p50 {} ms, longest {} ms", times.len(), ms(half), ms(last))
        }
        _ => "never".into(),
    }
}
