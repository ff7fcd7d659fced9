//! Calls that fail, one after another.

use crate::check::{Outcome, Promises, check};
use crate::child::{ACKNOWLEDGED, Kind, Work};
use crate::for_each_case;
use crate::process::{Fault, Workspace};

const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// Makes each call of a process fail, once with an error of the device and once because the disk is
/// full. Nothing acknowledged is missing afterwards, and the errors name a file.
async fn fail(kind: Kind, fault: Fault) -> bool {
    let workspace = Workspace::new(kind);
    let output = workspace.run(Work::Begin, Some(fault));
    if !workspace.record().has_failed {
        return false;
    }
    let root = workspace.root();
    for error in output.lines().filter(|line| line.starts_with("ERROR")) {
        let names_file = error.contains(root.to_str().unwrap());
        assert!(names_file || error.contains("there is no session"), "{fault:?}: {error}");
    }
    let mut promises = Promises::default();
    promises.add(&std::fs::read(root.join(ACKNOWLEDGED)).unwrap());
    let outcome = check(kind, &root, &promises).await;
    assert_eq!(outcome, Ok(Outcome::Whole), "{kind:?} {fault:?}\n{output}");
    true
}

fn each_call_fails(kind: Kind) {
    let calls = std::sync::atomic::AtomicU64::new(u64::MAX);
    let mut numbers = (1..).flat_map(|n| [(n, EIO), (n, ENOSPC)]);
    let order = std::sync::atomic::Ordering::Relaxed;
    for_each_case(
        || numbers.next().filter(|(n, _)| *n <= calls.load(order)),
        async |(n, errno)| {
            if !fail(kind, Fault(n, errno)).await {
                calls.fetch_min(n, order);
            }
        },
    );
    let calls = calls.into_inner() - 1;
    println!("{kind:?}: each of {calls} calls has failed twice");
    assert!(calls > 40);
}

#[test]
fn a_call_of_jsonl_that_fails_loses_nothing() {
    each_call_fails(Kind::Jsonl);
}

#[test]
fn a_call_of_sqlite_that_fails_loses_nothing() {
    each_call_fails(Kind::Sqlite);
}
