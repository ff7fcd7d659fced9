//! Power failures, replayed from the record of all writes.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::check::{Outcome, Promises, check};
use crate::child::{ACKNOWLEDGED, Kind, Work};
use crate::disk::{Cut, Disk};
use crate::for_each_case;
use crate::process::{Fault, Workspace};
use crate::random::Random;
use crate::record::{Change, Record};

/// The number of states of the disk for each store.
const STATES: usize = 1000;

/// `EIO`, an error of the device.
const EIO: i32 = 5;

const WORK: [Work; 3] = [Work::Begin, Work::Exit, Work::Close];

/// The record of the processes on a disk whose root has this inode.
struct Run {
    root: u64,
    record: Record,
    /// The numbers of the calls that flush, for each process.
    flushes: Vec<Vec<u64>>,
}

/// Runs all processes, one after another. A call of one process fails.
fn run(kind: Kind, fault: Option<(usize, Fault)>) -> Run {
    let workspace = Workspace::new(kind);
    let mut flushes = Vec::new();
    let mut known = 0;
    for (n, work) in WORK.into_iter().enumerate() {
        workspace.run(work, fault.filter(|(which, _)| *which == n).map(|(_, fault)| fault));
        let changes = workspace.record().changes;
        flushes.push(numbers_of_flushes(&changes, known));
        known = changes.len();
    }
    let root = workspace.root().metadata().expect("the root").ino();
    Run { root, record: workspace.record(), flushes }
}

/// Returns the numbers of the flushes among the changes from `start` on, counting the calls that
/// can fail.
fn numbers_of_flushes(changes: &[Change], start: usize) -> Vec<u64> {
    let acknowledged = file_with_acknowledgements(changes);
    let mut calls = 0;
    let mut flushes = Vec::new();
    for change in &changes[start..] {
        match change {
            Change::Write { file, .. } if *file == acknowledged => continue,
            Change::Flushed(_) | Change::FlushFailed(_) => flushes.push(calls + 1),
            Change::Write { .. } | Change::Truncate { .. } => {}
            Change::Rename { .. } | Change::Link { .. } => {}
            Change::Create { .. } | Change::Unlink { .. } | Change::Empty(_) => continue,
        }
        calls += 1;
    }
    flushes
}

fn file_with_acknowledgements(changes: &[Change]) -> u64 {
    let file = changes.iter().find_map(|change| match change {
        Change::Create { name, file, .. } if name == ACKNOWLEDGED => Some(*file),
        _ => None,
    });
    file.expect("a file with acknowledgements")
}

/// Cuts the power at that many times, and checks each state of the disk. Returns the count of each
/// outcome.
async fn cut_power(
    kind: Kind,
    run: &Run,
    states: usize,
    random: &mut Random,
    what: &str,
) -> HashMap<bool, usize> {
    let changes = &run.record.changes;
    let acknowledged = file_with_acknowledgements(changes);
    let mut times: Vec<usize> = (0..states).map(|_| random.below(changes.len()) + 1).collect();
    times.sort_unstable();
    let mut disk = Disk::new(run.root);
    let mut promises = Promises::default();
    let mut applied = 0;
    let mut outcomes = HashMap::new();
    for (n, time) in times.into_iter().enumerate() {
        for change in &changes[applied..time] {
            disk.apply(change);
            if let Change::Write { file, bytes, .. } = change
                && *file == acknowledged
            {
                promises.add(bytes);
            }
        }
        applied = time;
        let mut cut = match n % 4 {
            0 => Cut::Certain,
            1 => Cut::Before(random.below(time + 1)),
            _ => Cut::AnyOrder(random.clone()),
        };
        random.next();
        let workspace = Workspace::new(kind);
        disk.write_to(&workspace.root(), &mut cut);
        let outcome = check(kind, &workspace.root(), &promises).await;
        let outcome = outcome.unwrap_or_else(|why| {
            let kept = workspace.keep();
            panic!("{kind:?}, {what}, state {n}, time {time}: {why}; kept in {}", kept.display())
        });
        if let Outcome::Refused(why) = &outcome {
            println!("{what}, state {n}, time {time}: {why}");
        }
        *outcomes.entry(outcome == Outcome::Whole).or_insert(0) += 1;
    }
    outcomes
}

fn seed() -> u64 {
    let seed = match std::env::var("LOOPWRIGHT_SEED") {
        Ok(text) => text.parse().expect("LOOPWRIGHT_SEED is a number"),
        Err(_) => std::time::UNIX_EPOCH.elapsed().expect("a clock").as_nanos() as u64,
    };
    println!("LOOPWRIGHT_SEED={seed}");
    seed
}

/// Cuts the power while all calls succeed, and after each failed flush.
fn power_cuts(kind: Kind) {
    let seed = seed();
    let plain = run(kind, None);
    assert!(plain.record.changes.len() > 50);
    let flushes = plain.flushes.iter().enumerate();
    let faults: Vec<(usize, Fault)> = flushes
        .flat_map(|(process, calls)| calls.iter().map(move |n| (process, Fault(*n, EIO))))
        .collect();
    assert!(faults.len() > 10, "{faults:?}");
    let states = STATES / 2 / faults.len() + 1;
    let whole = AtomicUsize::new(0);
    let refused = AtomicUsize::new(0);
    let hits = AtomicUsize::new(0);
    let mut cases = faults.iter().map(|fault| Some(*fault)).chain([None]).enumerate();
    for_each_case(
        || cases.next(),
        async |(n, fault)| {
            let mut random = Random(seed ^ n as u64);
            let outcomes = match fault {
                None => cut_power(kind, &plain, STATES / 2, &mut random, "no fault").await,
                Some(fault) => {
                    let run = run(kind, Some(fault));
                    hits.fetch_add(run.record.has_failed.into(), Ordering::Relaxed);
                    let what = format!("{fault:?}");
                    cut_power(kind, &run, states, &mut random, &what).await
                }
            };
            whole.fetch_add(*outcomes.get(&true).unwrap_or(&0), Ordering::Relaxed);
            refused.fetch_add(*outcomes.get(&false).unwrap_or(&0), Ordering::Relaxed);
        },
    );
    let whole = whole.into_inner();
    let refused = refused.into_inner();
    // A process can have fewer calls than the one before it, if writes are combined.
    let hits = hits.into_inner();
    println!("{kind:?}: {whole} states are whole, {refused} refused; {hits} flushes failed");
    assert!(hits * 10 >= faults.len() * 9, "{hits} of {} faults", faults.len());
    assert!(whole + refused >= STATES);
    // An intact entry that must be durable may be on disk before its flush has begun.
    let few = if kind == Kind::Jsonl { STATES / 100 } else { 0 };
    assert!(refused <= few, "{refused} states are refused");
}

#[test]
fn power_cuts_lose_nothing_that_jsonl_has_acknowledged() {
    power_cuts(Kind::Jsonl);
}

#[test]
fn power_cuts_lose_nothing_that_sqlite_has_acknowledged() {
    power_cuts(Kind::Sqlite);
}
