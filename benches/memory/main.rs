//! The cost of the stores compared with plain SQLite: `cargo bench --bench memory`, or with
//! `-- --quick`.
//!
//! The floor of an append is an `INSERT` of the same bytes, prepared once, in a separate
//! transaction at the same `synchronous` level. The floor of opening a session is a `SELECT` of all
//! its rows and an `INSERT` that waits for the disk, like a real opening. Floor and store are
//! measured in turn on the same disk. The output is one table. The exit code is 1 if a ratio is
//! above its bound. The bounds:
//!
//! - A single append: 4 if it does not wait for the disk, since it passes through another thread
//!   and updates the session's row; 3 if it does.
//! - An append while 64 sessions append: 3, and 1 if `Sqlite` waits for the disk, since the
//!   sessions wait together.
//! - Opening: 20, since entries are checked, parsed and applied, while the floor copies bytes. Ten
//!   times the entries may take 15 times as long. `Sqlite`, which has snapshots, opens 30,000
//!   entries in at most 100 ms.
//!
//! With `--quick` the bounds are doubled, for busy machines.
//!
//! Words after `--` select parts: `append`, `crowd`, `open`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark that goes wrong should stop"
)]

mod floor;
mod log;
#[path = "../turns/table.rs"]
mod table;

use std::cell::RefCell;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use floor::Floor;
use loopwright_core::log::LogEntry;
use loopwright_core::testing::ScriptedModel;
use loopwright_core::{GenericAgent, Memory, SessionStore};
use loopwright_memory::{Durability, Jsonl, Sqlite};
use loopwright_patterns::GenericPattern;
use table::{Better, Row};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// The allocator of the binary `loopwright`, which the floor uses too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A part of the benchmark. It returns figures, each with the bound of its ratio.
type Part = fn(&Bench) -> Vec<(Row, f64)>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let parts: Vec<&str> =
        args.iter().map(String::as_str).filter(|arg| !arg.starts_with('-')).collect();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let bench = Bench { quick: args.iter().any(|arg| arg == "--quick"), runtime };
    let all: [(&str, Part); 3] =
        [("append", Bench::append), ("crowd", Bench::crowd), ("open", Bench::open)];
    let chosen = all.iter().filter(|(name, _)| parts.is_empty() || parts.contains(name));
    let (rows, bounds): (Vec<Row>, Vec<f64>) = chosen.flat_map(|(_, part)| part(&bench)).unzip();
    table::print(&rows);
    let mut exit = ExitCode::SUCCESS;
    let bounds = bounds.into_iter().map(|bound| if bench.quick { 2.0 * bound } else { bound });
    for (row, bound) in rows.iter().zip(bounds).filter(|(row, bound)| row.ratio() > *bound) {
        println!("{}: {:.2} times the floor, more than {bound}", row.figure, row.ratio());
        exit = ExitCode::FAILURE;
    }
    exit
}

struct Bench {
    quick: bool,
    runtime: Runtime,
}

/// The stores under test.
const STORES: [&str; 2] = ["Sqlite", "Jsonl"];

fn store(kind: &str, folder: &Path, durability: Durability) -> Arc<dyn SessionStore> {
    match kind {
        "Jsonl" => Arc::new(Jsonl::open(folder.join("sessions")).unwrap().durability(durability)),
        _ => Arc::new(Sqlite::open(folder.join("sessions.db")).unwrap().durability(durability)),
    }
}

fn is_full(durability: Durability) -> bool {
    durability == Durability::Every
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

impl Bench {
    fn choose(&self, quick: usize, thorough: usize) -> usize {
        if self.quick { quick } else { thorough }
    }

    /// Measures `floor` and `ours` in turn.
    fn both(&self, floor: impl Fn() -> f64, ours: impl Fn() -> f64) -> [Vec<f64>; 2] {
        let mut values = [Vec::new(), Vec::new()];
        for _ in 0..self.choose(3, 7) {
            values[0].push(floor());
            values[1].push(ours());
        }
        values
    }

    /// Returns the number of appends, which is small if each waits for the disk.
    fn count(&self, durability: Durability) -> usize {
        if is_full(durability) { self.choose(80, 600) } else { self.choose(2_000, 10_000) }
    }

    /// Measures appends of one session, one entry at a time.
    fn append(&self) -> Vec<(Row, f64)> {
        let mut rows = Vec::new();
        for kind in STORES {
            for (durability, level, bound) in
                [(Durability::Effects, "NORMAL", 4.0), (Durability::Every, "FULL", 3.0)]
            {
                let entries = log::replies(self.count(durability));
                let floor = || {
                    let folder = folder();
                    let mut floor =
                        Floor::new(&folder.path().join("floor.db"), is_full(durability));
                    micros(entries.len(), || floor.insert(&entries))
                };
                let ours = || {
                    let folder = folder();
                    let store = store(kind, folder.path(), durability);
                    let memory = self.runtime.block_on(store.open("s")).unwrap();
                    micros(entries.len(), || self.runtime.block_on(append_each(memory, &entries)))
                };
                let figure = format!("{kind}: µs per append, {durability:?} beside {level}");
                rows.push((Row::new(&figure, Better::Less, 1, self.both(floor, ours)), bound));
            }
        }
        rows
    }

    /// Measures appends of 64 sessions at once. The floor writes one entry after another.
    fn crowd(&self) -> Vec<(Row, f64)> {
        const SESSIONS: usize = 64;
        let mut rows = Vec::new();
        for kind in STORES {
            for (durability, level, bound) in
                [(Durability::Effects, "NORMAL", 3.0), (Durability::Every, "FULL", 1.0)]
            {
                let each = self.count(durability) / 16;
                let entries: Arc<[LogEntry]> = log::replies(each).into();
                let alone = log::replies(self.count(durability));
                let floor = || {
                    let folder = folder();
                    let mut floor =
                        Floor::new(&folder.path().join("floor.db"), is_full(durability));
                    micros(alone.len(), || floor.insert(&alone))
                };
                let ours = || {
                    let folder = folder();
                    let store = store(kind, folder.path(), durability);
                    let open =
                        |n: usize| self.runtime.block_on(store.open(&format!("s{n}"))).unwrap();
                    let open: Vec<_> = (0..SESSIONS).map(open).collect();
                    let work = async {
                        let tasks = open.into_iter().map(|memory| {
                            let entries = entries.clone();
                            tokio::spawn(async move { append_each(memory, &entries).await })
                        });
                        for task in tasks.collect::<Vec<_>>() {
                            task.await.unwrap();
                        }
                    };
                    micros(SESSIONS * each, || self.runtime.block_on(work))
                };
                let figure =
                    format!("{kind}: µs per append, 64 sessions, {durability:?} beside {level}");
                // `Jsonl` waits for each session's own file.
                let bound = if kind == "Jsonl" { 3.0 } else { bound };
                rows.push((Row::new(&figure, Better::Less, 1, self.both(floor, ours)), bound));
            }
        }
        rows
    }

    /// Measures the time that an agent takes to open an existing session.
    fn open(&self) -> Vec<(Row, f64)> {
        let mut rows = Vec::new();
        for kind in STORES {
            let mut took = Vec::new();
            for count in [1_000, 10_000, 30_000, 100_000] {
                let folder = folder();
                let entries = log::turns(count);
                let mut floor = Floor::new(&folder.path().join("floor.db"), true);
                floor.insert_together(&entries);
                let floor = RefCell::new(floor);
                let store = store(kind, folder.path(), Durability::Effects);
                self.runtime.block_on(async {
                    let memory = store.open("s").await.unwrap();
                    for (n, entries) in entries.chunks(10).enumerate() {
                        memory.append(10 * n as u64, entries.into()).await.unwrap();
                    }
                });
                let select = || {
                    micros(1_000, || {
                        floor.borrow_mut().insert(&[LogEntry::Opened {
                            epoch: 1,
                            time: 1,
                            parent: None,
                            owner: None,
                        }]);
                        assert!(floor.borrow().select() > count);
                    })
                };
                let open = || micros(1_000, || self.runtime.block_on(open(&store, count)));
                let both = self.both(select, open);
                took.push(both[1].clone());
                let figure = format!("{kind}: ms to open {count} entries");
                rows.push((Row::new(&figure, Better::Less, 2, both), 20.0));
            }
            let figure = format!("{kind}: ms to open 100000 entries, beside 10000");
            rows.push((
                Row::new(&figure, Better::Less, 2, [took[1].clone(), took[3].clone()]),
                15.0,
            ));
            if kind == "Sqlite" {
                let figure = "Sqlite: ms to open 30000 entries, beside 100 ms";
                rows.push((Row::new(figure, Better::Less, 2, [vec![100.0], took[2].clone()]), 1.0));
            }
        }
        rows
    }
}

/// Returns the time of `work`, in microseconds per unit.
fn micros(units: usize, work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64() * 1e6 / units as f64
}

async fn append_each(memory: Arc<dyn Memory>, entries: &[LogEntry]) {
    for (at, entry) in entries.iter().enumerate() {
        memory.append(at as u64, [entry.clone()].into()).await.unwrap();
    }
}

async fn open(store: &Arc<dyn SessionStore>, entries: usize) {
    let agent = GenericAgent::builder(ScriptedModel::new([]), GenericPattern).build().unwrap();
    let handle = agent.open(store, "s").await.unwrap();
    assert_eq!(handle.state().await.unwrap().messages.len(), entries / 10 * 4);
    handle.close().await;
}
