//! Full disks.

use super::other_process::OtherProcess;
use super::*;

/// Appends entries until one does not fit. Returns the error and the number of entries.
fn fill(other: &mut OtherProcess) -> (String, usize) {
    for at in 1..1000 {
        let result = other.run(&format!("append-big s {at} 10000"));
        if result != "done" {
            return (result, at);
        }
    }
    panic!("every entry fits")
}

async fn check_continues(other: &mut OtherProcess, path: &Path, full: (String, usize)) {
    let (why, count) = full;
    assert!(why.contains("sessions.db") && why.contains("room"), "{why}");
    assert!(why.contains("nothing was"), "{why}");
    let store = Sqlite::open(path).unwrap();
    assert_eq!(store.read("s", 0).await.unwrap().len(), count, "nothing has changed");
    assert_eq!(store.session("s").await.unwrap().entries, count as u64);
    assert_eq!(other.run(&format!("append s {count} {}", count + 3)), "done");
    assert_eq!(
        store.read("s", count as u64).await.unwrap(),
        numbered(count as u64..count as u64 + 3)
    );
}

#[tokio::test]
async fn an_append_beyond_the_size_limit_returns_an_error_and_later_ones_work() {
    let (_folder, path) = temp_store_path();
    let mut other = OtherProcess::start(&path);
    assert_eq!(other.run("open s"), "done");
    assert_eq!(other.run("append s 0 1"), "done");
    assert_eq!(other.run("limit 400000"), "done");
    let full = fill(&mut other);
    assert_eq!(other.run("limit"), "done");
    check_continues(&mut other, &path, full).await;
}

/// Uses a small file system, where the process may mount one.
#[tokio::test]
async fn an_append_on_a_full_disk_returns_an_error_and_later_ones_work() {
    let folder = tempfile::tempdir().unwrap();
    let run = |command: &str, args: &[&str]| {
        let status = std::process::Command::new(command).args(args).arg(folder.path()).status();
        status.is_ok_and(|status| status.success())
    };
    if !run("mount", &["-t", "tmpfs", "-o", "size=1m", "none"]) {
        return; // only root can mount; the other test covers most of this
    }
    let path = folder.path().join("sessions.db");
    let work = async {
        let ballast = folder.path().join("ballast");
        std::fs::write(&ballast, vec![0; 300_000]).unwrap();
        let mut other = OtherProcess::start(&path);
        assert_eq!(other.run("open s"), "done");
        assert_eq!(other.run("append s 0 1"), "done");
        let full = fill(&mut other);
        assert!(full.0.contains("the disk is full"), "{}", full.0);
        std::fs::remove_file(&ballast).unwrap();
        check_continues(&mut other, &path, full).await;
        other.kill();
    };
    let outcome = futures::FutureExt::catch_unwind(std::panic::AssertUnwindSafe(work)).await;
    assert!(run("umount", &["-l"]));
    outcome.unwrap();
}
