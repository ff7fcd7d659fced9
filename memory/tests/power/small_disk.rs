//! Disks with too little room for a store.

use std::process::Command;

use crate::child::{Kind, ORDERS, Orders, Work};

/// Script of a process that mounts a private small disk, creates a store there, enlarges the disk,
/// and works on the store.
const SCRIPT: &str = r#"
set -e
mount -t tmpfs -o "size=$SIZE" none "$DISK"
env ORDERS="$BEGIN" "$0" "$@"
mount -o remount,size=4m "$DISK"
exec env ORDERS="$CLOSE" "$0" "$@"
"#;

/// Script of a process that creates a store on a private small disk, while another one fills that
/// disk.
const CHECK_SCRIPT: &str = r#"
set -e
mount -t tmpfs -o "size=$SIZE" none "$DISK"
env ORDERS="$BEGIN" "$0" "$@"
env ORDERS="$CHECK" "$0" "$@"
echo "files: $(find "$DISK" -name '.room*' | wc -l)"
"#;

/// Runs a script that gives these orders to processes, with a disk for their store. Returns its
/// output.
fn run(script: &str, kind: Kind, size: &str) -> String {
    let is_root = rustix::process::geteuid().is_root();
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("sessions");
    std::fs::create_dir(&disk).unwrap();
    let orders = |work| {
        let orders = Orders { kind, root: folder.path().to_owned(), work };
        serde_json::to_string(&orders).unwrap()
    };
    let output = Command::new("unshare")
        .args(if is_root { &["--mount"][..] } else { &["--mount", "--map-root-user"] })
        .args(["sh", "-c", &script.replace("ORDERS", ORDERS)])
        .arg(std::env::current_exe().unwrap())
        .args(["child", "--exact", "--ignored", "--nocapture", "--test-threads=1"])
        .env("SIZE", size)
        .env("DISK", disk)
        .env("BEGIN", orders(Work::Begin))
        .env("CHECK", orders(Work::Check))
        .env("CLOSE", orders(Work::Close))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{size}: {text}\n{errors}");
    text
}

/// C200: a store reports that it is not writable while its disk is full, which is when appends
/// fail, and leaves nothing behind.
fn says_whether_there_is_room(kind: Kind) {
    let text = run(CHECK_SCRIPT, kind, "4m");
    let parts: Vec<&str> = text.split("\nthe disk ").collect();
    let [started, room, full, later] = parts[..] else { panic!("{text}") };
    for part in [started, room, later] {
        assert!(!part.contains("ERROR"), "{text}");
    }
    assert!(room.contains("writable") && later.contains("writable"), "{text}");
    assert!(
        full.contains("ERROR write: ") && full.contains("sessions cannot be written to: No space"),
        "{text}"
    );
    assert_eq!(full.matches("ERROR ").count(), 2, "the append fails too: {text}");
    assert!(later.contains("files: 0"), "{text}");
}

#[test]
fn a_jsonl_store_says_that_its_disk_is_full() {
    says_whether_there_is_room(Kind::Jsonl);
}

#[test]
fn a_sqlite_store_says_that_its_disk_is_full() {
    says_whether_there_is_room(Kind::Sqlite);
}

/// A store whose creation met a full disk is created once the disk has room.
fn is_made_when_there_is_room(kind: Kind) {
    let mut full = 0;
    for kilobytes in (40..=80).step_by(4) {
        let text = run(SCRIPT, kind, &format!("{kilobytes}k"));
        let (small, large) = text.rsplit_once("running 1 test").unwrap();
        full += usize::from(small.contains("ERROR"));
        assert!(!large.contains("ERROR"), "{kilobytes} KB: {small}\nthen: {large}");
    }
    assert!(full > 0, "no disk was too small");
}

#[test]
fn a_jsonl_store_on_a_full_disk_works_when_there_is_room() {
    is_made_when_there_is_room(Kind::Jsonl);
}

#[test]
fn a_sqlite_store_on_a_full_disk_works_when_there_is_room() {
    is_made_when_there_is_room(Kind::Sqlite);
}
