//! Operations whose cost must not grow with the log.

use std::sync::Arc;
use std::time::{Duration, Instant};

use loopwright_core::log::{LogEntry, StateScope};
use loopwright_core::{Memory, SessionStore};
use loopwright_memory::{Jsonl, Sqlite};
use serde_json::json;

/// Returns the time of the fastest of several batches of appends at the end of a log with `at`
/// entries. The fastest one is least affected by other work of the machine.
async fn batch(memory: &dyn Memory, at: &mut u64) -> Duration {
    let entry = LogEntry::State {
        scope: StateScope::Session,
        key: "k".into(),
        value: Arc::new(json!("a value of some length")),
    };
    let mut best = Duration::MAX;
    for _ in 0..15 {
        let start = Instant::now();
        for _ in 0..20 {
            memory.append(*at, [entry.clone()].into()).await.unwrap();
            *at += 1;
        }
        best = best.min(start.elapsed());
    }
    best
}

/// An append costs the same for every length of the log. If it read the log, it would take many
/// times as long after 50,000 entries.
#[tokio::test]
async fn an_append_to_a_long_log_is_as_fast_as_to_a_short_log() {
    let folder = tempfile::tempdir().unwrap();
    let stores: [(&str, Arc<dyn SessionStore>); 2] = [
        ("Jsonl", Arc::new(Jsonl::open(folder.path().join("lines")).unwrap())),
        ("Sqlite", Arc::new(Sqlite::open(folder.path().join("sessions.db")).unwrap())),
    ];
    for (name, store) in stores {
        let memory = store.open("s").await.unwrap();
        let mut at = 0;
        let short = batch(&*memory, &mut at).await;
        let many: Vec<LogEntry> = vec![
            LogEntry::State {
                scope: StateScope::Session,
                key: "k".into(),
                value: Arc::new(json!(1))
            };
            50_000
        ];
        memory.append(at, many.into()).await.unwrap();
        at += 50_000;
        let long = batch(&*memory, &mut at).await;
        assert!(long < 8 * short, "{name}: {short:?} in a short log, {long:?} in a long log");
    }
}
