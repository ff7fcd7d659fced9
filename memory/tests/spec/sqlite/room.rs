//! No room for more.

use super::child::Other;
use super::*;

/// Fills what is left with items, until one does not fit; gives the error and how many are there.
fn fill(other: &mut Other) -> (String, usize) {
    for at in 1..1000 {
        let said = other.does(&format!("append-big s {at} 10000"));
        if said != "done" {
            return (said, at);
        }
    }
    panic!("there is room for everything")
}

async fn goes_on(other: &mut Other, path: &Path, full: (String, usize)) {
    let (why, items) = full;
    assert!(why.contains("sessions.db") && why.contains("room"), "{why}");
    assert!(why.contains("nothing was"), "{why}");
    let store = Sqlite::open(path).unwrap();
    assert_eq!(store.read("s", 0).await.unwrap().len(), items, "nothing has changed");
    assert_eq!(store.session("s").await.unwrap().items, items as u64);
    assert_eq!(other.does(&format!("append s {items} {}", items + 3)), "done");
    assert_eq!(
        store.read("s", items as u64).await.unwrap(),
        numbered(items as u64..items as u64 + 3)
    );
}

#[tokio::test]
async fn an_append_beyond_a_limit_fails_with_a_sentence_and_later_ones_work() {
    let (_folder, path) = place();
    let mut other = Other::start(&path);
    assert_eq!(other.does("open s"), "done");
    assert_eq!(other.does("append s 0 1"), "done");
    assert_eq!(other.does("limit 400000"), "done");
    let full = fill(&mut other);
    assert_eq!(other.does("limit"), "done");
    goes_on(&mut other, &path, full).await;
}

/// Where file systems may be mounted, on one that is full in truth.
#[tokio::test]
async fn an_append_on_a_full_disk_fails_with_a_sentence_and_later_ones_work() {
    let folder = tempfile::tempdir().unwrap();
    let run = |command: &str, args: &[&str]| {
        let status = std::process::Command::new(command).args(args).arg(folder.path()).status();
        status.is_ok_and(|status| status.success())
    };
    if !run("mount", &["-t", "tmpfs", "-o", "size=1m", "none"]) {
        return; // only root can, and the other test says most of it
    }
    let path = folder.path().join("sessions.db");
    let work = async {
        let ballast = folder.path().join("ballast");
        std::fs::write(&ballast, vec![0; 300_000]).unwrap();
        let mut other = Other::start(&path);
        assert_eq!(other.does("open s"), "done");
        assert_eq!(other.does("append s 0 1"), "done");
        let full = fill(&mut other);
        assert!(full.0.contains("the disk is full"), "{}", full.0);
        std::fs::remove_file(&ballast).unwrap();
        goes_on(&mut other, &path, full).await;
        other.kill();
    };
    let outcome = futures::FutureExt::catch_unwind(std::panic::AssertUnwindSafe(work)).await;
    assert!(run("umount", &["-l"]));
    outcome.unwrap();
}
