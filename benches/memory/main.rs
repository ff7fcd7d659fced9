//! What memory on disk costs beside plain SQLite: `cargo bench --bench memory`, or with `--
//! --quick`.
//!
//! The floor of an append is an `INSERT` of the same bytes, prepared once, in a transaction of its
//! own at the same `synchronous` level; the floor of opening a session is a `SELECT` of all its
//! rows and an `INSERT` that waits for the disk, as an opening does too. Both take turns with ours,
//! on the same disk. One table comes of it, and exit code 1 if a ratio is above its bound. The
//! bounds:
//!
//! - An append alone: 4 where it does not wait for the disk, since it goes to another thread and
//!   back, and brings the session's own row up to date as well; 3 where it does.
//! - An append while 64 sessions append at once: 3, and 1 where `Sqlite` waits for the disk, as
//!   many wait together.
//! - Opening: 20, since items are checked, parsed and folded, and the floor only copies their
//!   bytes; and ten times the items may take 15 times as long.
//!
//! With `--quick` it is twice as much, for busy machines.
//!
//! Words after `--` choose parts: `append`, `crowd`, `open`.
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
use loopwright_core::{GenericAgent, Memory, RunContext, SessionStore};
use loopwright_memory::{Durability, Jsonl, Sqlite};
use loopwright_patterns::GenericPattern;
use table::{Better, Row};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// The allocator of the binary `loopwright`; the floor has it too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures some figures; each with the most that its ratio may be.
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
    let bounds = bounds.into_iter().map(|most| if bench.quick { 2.0 * most } else { most });
    for (row, most) in rows.iter().zip(bounds).filter(|(row, most)| row.ratio() > *most) {
        println!("{}: {:.2} times the floor, more than {most}", row.figure, row.ratio());
        exit = ExitCode::FAILURE;
    }
    exit
}

struct Bench {
    quick: bool,
    runtime: Runtime,
}

/// The two stores.
const STORES: [&str; 2] = ["Sqlite", "Jsonl"];

fn store(kind: &str, folder: &Path, durability: Durability) -> Box<dyn SessionStore> {
    match kind {
        "Jsonl" => Box::new(Jsonl::open(folder.join("sessions")).unwrap().durability(durability)),
        _ => Box::new(Sqlite::open(folder.join("sessions.db")).unwrap().durability(durability)),
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

    /// `floor` and `ours`, taking turns.
    fn both(&self, floor: impl Fn() -> f64, ours: impl Fn() -> f64) -> [Vec<f64>; 2] {
        let mut values = [Vec::new(), Vec::new()];
        for _ in 0..self.choose(3, 7) {
            values[0].push(floor());
            values[1].push(ours());
        }
        values
    }

    /// How many appends: few where each waits for the disk.
    fn count(&self, durability: Durability) -> usize {
        if is_full(durability) { self.choose(80, 600) } else { self.choose(2_000, 10_000) }
    }

    /// One session, one item at a time.
    fn append(&self) -> Vec<(Row, f64)> {
        let mut rows = Vec::new();
        for kind in STORES {
            for (durability, level, most) in
                [(Durability::Effects, "NORMAL", 4.0), (Durability::Every, "FULL", 3.0)]
            {
                let items = log::replies(self.count(durability));
                let floor = || {
                    let folder = folder();
                    let mut floor =
                        Floor::new(&folder.path().join("floor.db"), is_full(durability));
                    micros(items.len(), || floor.insert(&items))
                };
                let ours = || {
                    let folder = folder();
                    let store = store(kind, folder.path(), durability);
                    let memory = self.runtime.block_on(store.open("s")).unwrap();
                    micros(items.len(), || self.runtime.block_on(append_each(memory, &items)))
                };
                let figure = format!("{kind}: µs per append, {durability:?} beside {level}");
                rows.push((Row::new(&figure, Better::Less, 1, self.both(floor, ours)), most));
            }
        }
        rows
    }

    /// 64 sessions at once; the floor writes one after the other.
    fn crowd(&self) -> Vec<(Row, f64)> {
        const SESSIONS: usize = 64;
        let mut rows = Vec::new();
        for kind in STORES {
            for (durability, level, most) in
                [(Durability::Effects, "NORMAL", 3.0), (Durability::Every, "FULL", 1.0)]
            {
                let each = self.count(durability) / 16;
                let items: Arc<[LogEntry]> = log::replies(each).into();
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
                            let items = items.clone();
                            tokio::spawn(async move { append_each(memory, &items).await })
                        });
                        for task in tasks.collect::<Vec<_>>() {
                            task.await.unwrap();
                        }
                    };
                    micros(SESSIONS * each, || self.runtime.block_on(work))
                };
                let figure =
                    format!("{kind}: µs per append, 64 sessions, {durability:?} beside {level}");
                // What Jsonl waits for is a file a session: nothing is shared.
                let most = if kind == "Jsonl" { 3.0 } else { most };
                rows.push((Row::new(&figure, Better::Less, 1, self.both(floor, ours)), most));
            }
        }
        rows
    }

    /// A session that is there is opened by an agent.
    fn open(&self) -> Vec<(Row, f64)> {
        let mut rows = Vec::new();
        for kind in STORES {
            let mut took = Vec::new();
            for count in [1_000, 10_000, 100_000] {
                let (folder, items) = (folder(), log::turns(count));
                let mut floor = Floor::new(&folder.path().join("floor.db"), true);
                floor.insert_together(&items);
                let floor = RefCell::new(floor);
                let store = store(kind, folder.path(), Durability::Effects);
                self.runtime.block_on(async {
                    let memory = store.open("s").await.unwrap();
                    for (n, items) in items.chunks(10).enumerate() {
                        memory.append(10 * n as u64, items.into()).await.unwrap();
                    }
                });
                let select = || {
                    micros(1_000, || {
                        floor.borrow_mut().insert(&[LogEntry::Opened { epoch: 1, time: 1 }]);
                        assert!(floor.borrow().select() > count);
                    })
                };
                let open = || micros(1_000, || self.runtime.block_on(open(&*store, count)));
                let both = self.both(select, open);
                took.push(both[1].clone());
                let figure = format!("{kind}: ms to open {count} items");
                rows.push((Row::new(&figure, Better::Less, 2, both), 20.0));
            }
            let figure = format!("{kind}: ms to open 100000 items, beside 10000");
            rows.push((
                Row::new(&figure, Better::Less, 2, [took[1].clone(), took[2].clone()]),
                15.0,
            ));
        }
        rows
    }
}

/// Microseconds per piece of this work.
fn micros(pieces: usize, work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    began.elapsed().as_secs_f64() * 1e6 / pieces as f64
}

async fn append_each(memory: Arc<dyn Memory>, items: &[LogEntry]) {
    for (at, item) in items.iter().enumerate() {
        memory.append(at as u64, [item.clone()].into()).await.unwrap();
    }
}

async fn open(store: &dyn SessionStore, items: usize) {
    let agent = GenericAgent::builder(ScriptedModel::new([]), GenericPattern).build().unwrap();
    let (handle, mut events) =
        agent.run(RunContext::new().stored(store, "s").await.unwrap()).await.unwrap();
    assert_eq!(handle.state().await.unwrap().messages.len(), items / 10 * 4);
    drop(handle);
    while events.next().await.is_some() {} // then the session is free
}
