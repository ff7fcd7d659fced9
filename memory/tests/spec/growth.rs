//! Operations whose cost must not grow with the log.

use std::sync::Arc;
use std::time::{Duration, Instant};

use loopwright_core::log::{LogEntry, StateScope};
use loopwright_core::{Memory, SessionStore};
use loopwright_memory::{Jsonl, Sqlite};
use serde_json::json;

/// Maximum number of measurements. Other work of the machine delays most of them at times, but
/// never the fastest one of so many.
const MAX_MEASUREMENTS: u32 = 2_000;

/// A session and the length of its log.
struct Session {
    memory: Arc<dyn Memory>,
    entries: u64,
    /// Duration of the fastest batch of appends.
    fastest: Duration,
}

impl Session {
    async fn with(store: &dyn SessionStore, name: &str, entries: u64) -> Self {
        let memory = store.open(name).await.unwrap();
        let log = vec![entry(); entries as usize];
        memory.append(0, log.into()).await.unwrap();
        Session { memory, entries, fastest: Duration::MAX }
    }

    async fn measure(&mut self) {
        let start = Instant::now();
        for _ in 0..5 {
            self.memory.append(self.entries, [entry()].into()).await.unwrap();
            self.entries += 1;
        }
        self.fastest = self.fastest.min(start.elapsed());
    }
}

fn entry() -> LogEntry {
    let value = Arc::new(json!("a value of some length"));
    LogEntry::State { scope: StateScope::Session, key: "k".into(), value }
}

/// An append costs the same for every length of the log. If it read the log, it would always take
/// many times as long after 50,000 entries.
#[tokio::test]
async fn an_append_to_a_long_log_is_as_fast_as_to_a_short_log() {
    let folder = tempfile::tempdir().unwrap();
    let stores: [(&str, Arc<dyn SessionStore>); 2] = [
        ("Jsonl", Arc::new(Jsonl::open(folder.path().join("lines")).unwrap())),
        ("Sqlite", Arc::new(Sqlite::open(folder.path().join("sessions.db")).unwrap())),
    ];
    for (name, store) in stores {
        let mut short = Session::with(&*store, "short", 1).await;
        let mut long = Session::with(&*store, "long", 50_000).await;
        let mut measurements = 0;
        while measurements < 15 || long.fastest >= 8 * short.fastest {
            assert!(
                measurements < MAX_MEASUREMENTS,
                "{name}: {:?} in a short log, {:?} in a long log",
                short.fastest,
                long.fastest
            );
            short.measure().await;
            long.measure().await;
            measurements += 1;
        }
    }
}
