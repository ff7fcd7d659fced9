//! Sessions in one SQLite file.

mod damage;
mod disk_full;
mod files;
mod listing;
mod mailbox;
mod other_process;
mod pending;
mod processes;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use loopwright_core::log::{LogEntry, MemoryError, SessionInfo, Snapshot, StateScope};
use loopwright_core::message::{AssistantMessage, ContentPart, MessageId};
use loopwright_core::{Memory, Message, SessionStore};
use loopwright_memory::conformance::{check, check_reopened};
use loopwright_memory::{Durability, Sqlite};
use rusqlite::Connection;
use serde_json::json;
use tempfile::TempDir;

use crate::kit::{directory, remembered};

/// Creates a temporary folder, and returns it with the path of a store in it.
fn temp_store_path() -> (TempDir, PathBuf) {
    let folder = directory();
    let path = folder.path().join("sessions.db");
    (folder, path)
}

fn numbered(range: std::ops::Range<u64>) -> Vec<LogEntry> {
    let entry = |n| LogEntry::State {
        scope: StateScope::Session,
        key: "n".into(),
        value: Arc::new(json!(format!("entry {n}"))),
    };
    range.map(entry).collect()
}

async fn begin(store: &Sqlite, session: &str, entries: &[LogEntry]) -> Arc<dyn Memory> {
    let memory = store.open(session).await.unwrap();
    memory.append(0, entries.into()).await.unwrap();
    memory
}

/// Opens a connection that bypasses the store.
fn raw_connection(path: &Path) -> Connection {
    Connection::open(path).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn it_conforms() {
    for durability in [Durability::Effects, Durability::Every] {
        let (_folder, path) = temp_store_path();
        check(&Sqlite::open(&path).unwrap().durability(durability)).await.unwrap();
        check_reopened(async || Ok(Sqlite::open(&path)?.durability(durability))).await.unwrap();
    }
}

#[cfg(unix)]
#[tokio::test]
async fn the_file_is_the_users_own_and_the_folders_above_it_are_made() {
    use std::os::unix::fs::PermissionsExt;
    let (folder, _) = temp_store_path();
    let path = folder.path().join("a/b/sessions.db");
    let store = Sqlite::open(&path).unwrap();
    begin(&store, "s", &numbered(0..3)).await;
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(&folder.path().join("a"))), (0o600, 0o700));
    assert_eq!(
        (
            mode(&path.with_file_name("sessions.db-wal")),
            mode(&path.with_file_name("sessions.db-owners"))
        ),
        (0o600, 0o700)
    );
    drop(store);
    let remaining: Vec<_> = path
        .parent()
        .unwrap()
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(remaining.len(), 2, "the file and the folder of owners: {remaining:?}");
    assert_eq!(path.with_file_name("sessions.db-owners").read_dir().unwrap().count(), 0);
}

#[tokio::test]
async fn a_file_of_a_newer_format_is_refused_and_left_untouched() {
    let (_folder, path) = temp_store_path();
    drop(Sqlite::open(&path).unwrap());
    raw_connection(&path).pragma_update(None, "user_version", 7).unwrap();
    let before = std::fs::read(&path).unwrap();
    let refused = Sqlite::open(&path).err().unwrap();
    assert!(matches!(&refused, MemoryError::Newer { found: 7, known: 6, .. }), "{refused}");
    assert!(
        refused.to_string().contains("sessions.db was written by a newer version"),
        "{refused}"
    );
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

/// C345: a damaged snapshot is ignored, and replaced by the next one.
#[tokio::test]
async fn a_damaged_snapshot_is_ignored() {
    let (_folder, path) = temp_store_path();
    let store = Sqlite::open(&path).unwrap();
    let memory = begin(&store, "s", &numbered(0..3)).await;
    let snapshots = memory.snapshots().unwrap();
    let snapshot = |data: &str| Snapshot::new(3, data.into());
    snapshots.store(snapshot("a")).await.unwrap();
    for damage in ["data = x'00'", "entries = 1000", "crc = crc + 1"] {
        raw_connection(&path).execute(&format!("UPDATE snapshot SET {damage}"), ()).unwrap();
        assert_eq!(snapshots.latest().await, Ok(None), "{damage}");
        snapshots.store(snapshot(damage)).await.unwrap();
        assert_eq!(snapshots.latest().await, Ok(Some(snapshot(damage))));
    }
    assert_eq!(memory.load(0).await.unwrap(), numbered(0..3));
}

#[tokio::test]
async fn a_file_that_is_not_a_store_is_refused_and_left_untouched() {
    let (folder, path) = temp_store_path();
    std::fs::write(&path, "a letter, and much more than a hundred bytes of it ".repeat(100))
        .unwrap();
    let others = folder.path().join("others.db");
    let other = raw_connection(&others);
    other.pragma_update(None, "journal_mode", "WAL").unwrap();
    other.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1)").unwrap();
    let empty = folder.path().join("empty.db");
    std::fs::write(&empty, "").unwrap();
    let all = || -> Vec<Vec<u8>> {
        [&path, &others, &empty, &folder.path().join("others.db-wal")]
            .map(|file| std::fs::read(file).unwrap())
            .into()
    };
    let before = all();
    for (file, why) in [
        (&path, "no SQLite database"),
        (&others, "no loopwright store"),
        (&empty, "no loopwright store"),
    ] {
        let refused = Sqlite::open(file).err().unwrap().to_string();
        assert!(refused.contains(why) && refused.contains("give another path"), "{refused}");
        assert!(refused.contains(file.to_str().unwrap()), "{refused}");
    }
    assert!(all() == before, "the files are unchanged");
    assert_eq!(other.query_row("SELECT a FROM t", (), |row| row.get::<_, i64>(0)).unwrap(), 1);
    let refused = Sqlite::open(folder.path()).err().unwrap().to_string();
    assert!(refused.contains("cannot be opened"), "{refused}");
}

/// C80: appends that arrive at the same time are written together, and a refused append fails
/// alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn appends_of_many_sessions_are_one_transaction() {
    let (_folder, path) = temp_store_path();
    let store = Sqlite::open(&path).unwrap().durability(Durability::Every);
    let sessions = 64;
    let appends = 200;
    let mut open = Vec::new();
    for n in 0..sessions {
        open.push(store.open(&format!("s{n}")).await.unwrap());
    }
    // SQLite does not restart its write-ahead log while an old snapshot is being read: it has every
    // commit since then.
    let reader = raw_connection(&path);
    let snapshot = reader.unchecked_transaction().unwrap();
    snapshot.query_row("SELECT count(*) FROM session", (), |_| Ok(())).unwrap();
    let before = commits(&path);
    let tasks = open.into_iter().enumerate().map(|(n, memory)| {
        tokio::spawn(async move {
            for at in 0..appends {
                if (at + n as u64).is_multiple_of(10) {
                    let refused = memory.append(at + 1, numbered(0..1).into()).await;
                    assert_eq!(refused, Err(MemoryError::Conflict { at: at + 1, end: at }));
                }
                memory.append(at, numbered(at..at + 1).into()).await.unwrap();
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let new_commits = commits(&path) - before;
    let all = sessions * appends;
    assert!(new_commits < all / 8, "{new_commits} commits of {all} appends");
    drop(snapshot);
    for n in 0..sessions {
        assert_eq!(store.read(&format!("s{n}"), 0).await.unwrap(), numbered(0..appends));
    }
}

/// Counts the commits in the write-ahead log: the frames that have the size of the database.
fn commits(path: &Path) -> u64 {
    let log = std::fs::read(path.with_file_name("sessions.db-wal")).unwrap();
    let frames = log[32..].chunks_exact(24 + 4096).filter(|frame| frame[8..16] == log[16..24]);
    frames.filter(|frame| frame[4..8] != [0; 4]).count() as u64
}

#[tokio::test]
async fn an_append_whose_future_is_dropped_takes_effect_as_a_whole() {
    let (_folder, path) = temp_store_path();
    let store = Sqlite::open(&path).unwrap();
    let memory = begin(&store, "s", &numbered(0..1)).await;
    let mut append = memory.append(1, numbered(1..4).into());
    let _ = futures::poll!(&mut append); // it may be ready already
    drop(append);
    memory.append(4, numbered(4..5).into()).await.unwrap();
    let mut last = memory.append(5, numbered(5..9).into());
    let _ = futures::poll!(&mut last);
    drop(last);
    drop((memory, store));
    assert_eq!(Sqlite::open(&path).unwrap().read("s", 0).await.unwrap(), numbered(0..9));
}

#[tokio::test]
async fn an_opening_whose_future_is_dropped_leaves_the_session_free() {
    let (_folder, path) = temp_store_path();
    let store = Sqlite::open(&path).unwrap();
    let mut open = store.open("s");
    let _ = futures::poll!(&mut open).map(|open| open.map(drop)); // it may be ready already
    drop(open);
    begin(&store, "s", &numbered(0..2)).await;
    assert_eq!(store.read("s", 1).await.unwrap(), numbered(1..2));
}

#[tokio::test]
async fn a_former_owner_cannot_write() {
    let (_folder, path) = temp_store_path();
    let store = Sqlite::open(&path).unwrap();
    let memory = begin(&store, "s", &numbered(0..1)).await;
    // Without its lock file, an owner counts as dead.
    std::fs::remove_dir_all(path.with_file_name("sessions.db-owners")).unwrap();
    let successor = Sqlite::open(&path).unwrap().open("s").await.unwrap();
    assert_eq!(
        memory.append(1, numbered(1..2).into()).await,
        Err(MemoryError::Conflict { at: 1, end: 1 })
    );
    successor.append(1, numbered(1..3).into()).await.unwrap();
    drop(memory);
    assert!(
        matches!(store.open("s").await.err().unwrap(), MemoryError::InUse(_)),
        "the successor still owns it"
    );
    assert_eq!(successor.load(0).await.unwrap(), numbered(0..3));
}

#[tokio::test]
async fn branches_of_branches_share_entries_without_copies() {
    let (_folder, path) = temp_store_path();
    let store = Sqlite::open(&path).unwrap();
    drop(begin(&store, "b0", &numbered(0..10)).await);
    for n in 1..300_u64 {
        let from = format!("b{}", n - 1);
        let to = format!("b{n}");
        assert_eq!(store.fork(&from, None, &to).await.unwrap(), 9 + n);
        store.open(&to).await.unwrap().append(9 + n, numbered(9 + n..10 + n).into()).await.unwrap();
    }
    for from in [0, 5, 9, 10, 200, 308, 309, 400] {
        assert_eq!(store.read("b299", from).await.unwrap(), numbered(from.min(309)..309));
    }
    assert_eq!(store.fork("b299", Some(4), "early").await.unwrap(), 4);
    assert_eq!(store.read("early", 1).await.unwrap(), numbered(1..4));
    let rows = raw_connection(&path)
        .query_row("SELECT count(*) FROM entry", (), |row| row.get::<_, i64>(0))
        .unwrap();
    assert_eq!(rows, 309, "no entry is stored twice");
    let refused = store.delete("b299").await.unwrap_err();
    assert_eq!(
        refused,
        MemoryError::HasBranches { session: "b299".into(), branches: vec!["early".into()] }
    );
}

#[tokio::test]
async fn costs_that_are_not_numbers_are_ignored() {
    let (_folder, path) = temp_store_path();
    let store = Sqlite::open(&path).unwrap();
    let reply =
        AssistantMessage::new(vec![ContentPart::Text { text: "hi".into(), signature: None }])
            .model("m");
    let message = Arc::new(Message::new(MessageId(2), reply));
    let costs = [Some(0.1), Some(f64::NAN), Some(0.2), Some(f64::INFINITY), None];
    let replies: Vec<LogEntry> =
        costs.map(|cost| LogEntry::Replied { message: message.clone(), cost }).into();
    begin(&store, "s", &replies).await;
    assert_eq!(store.session("s").await.unwrap().cost, 0.1 + 0.2);
    assert_eq!(SessionInfo::of("s", &store.read("s", 0).await.unwrap()).cost, 0.1 + 0.2);
}

#[tokio::test]
async fn deep_values_are_read_back() {
    let (_folder, path) = temp_store_path();
    let store = Sqlite::open(&path).unwrap();
    let value = (0..200).fold(json!(1), |value, _| json!([value]));
    let entry =
        LogEntry::State { scope: StateScope::Session, key: "k".into(), value: Arc::new(value) };
    begin(&store, "s", std::slice::from_ref(&entry)).await;
    assert_eq!(store.read("s", 0).await.unwrap(), [entry]);
}
