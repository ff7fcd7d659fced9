//! Disks with too little room for a store.

use std::process::Command;

use crate::child::{Kind, ORDERS, Orders, Work};

/// The process mounts a small disk that only it sees, makes a store there, enlarges the disk, and
/// works on the store.
const SCRIPT: &str = r#"
set -e
mount -t tmpfs -o "size=$SIZE" none "$DISK"
env ORDERS="$BEGIN" "$0" "$@"
mount -o remount,size=4m "$DISK"
exec env ORDERS="$CLOSE" "$0" "$@"
"#;

/// A store that was being made when the disk was full is made when there is room.
fn is_made_when_there_is_room(kind: Kind) {
    let is_root = rustix::process::geteuid().is_root();
    let mut full = 0;
    for kilobytes in (40..=80).step_by(4) {
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path().join("sessions");
        std::fs::create_dir(&disk).unwrap();
        let orders = |work| {
            let orders = Orders { kind, root: folder.path().to_owned(), work };
            serde_json::to_string(&orders).unwrap()
        };
        let output = Command::new("unshare")
            .args(if is_root { &["--mount"][..] } else { &["--mount", "--map-root-user"] })
            .args(["sh", "-c", &SCRIPT.replace("ORDERS", ORDERS)])
            .arg(std::env::current_exe().unwrap())
            .args(["child", "--exact", "--ignored", "--nocapture", "--test-threads=1"])
            .env("SIZE", format!("{kilobytes}k"))
            .env("DISK", disk)
            .env("BEGIN", orders(Work::Begin))
            .env("CLOSE", orders(Work::Close))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{kilobytes} KB: {text}\n{errors}");
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
