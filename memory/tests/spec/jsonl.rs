//! Sessions in JSON Lines files: the format, permissions, errors and speed.

mod damage;
mod disk;
mod mailbox;
mod processes;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use loopwright_core::log::{LogEntry, MemoryError};
use loopwright_core::testing::FaultyMemory;
use loopwright_core::{Memory, SessionStore};
use loopwright_memory::{Durability, Jsonl};
use tempfile::TempDir;

use crate::kit::{directory, remembered};

async fn append(memory: &dyn Memory, at: u64, entries: &[LogEntry]) {
    memory.append(at, entries.into()).await.unwrap();
}

/// Creates a store whose session `s` has these appends. Returns the store and the file.
async fn store(appends: &[&[LogEntry]]) -> (TempDir, Jsonl, PathBuf) {
    let directory = directory();
    let store = Jsonl::open(directory.path()).unwrap();
    let memory = store.open("s").await.unwrap();
    let mut at = 0;
    for entries in appends {
        append(&*memory, at, entries).await;
        at += entries.len() as u64;
    }
    let file = directory.path().join("s.jsonl");
    (directory, store, file)
}

#[tokio::test]
async fn the_file_is_as_documented() {
    let (_directory, store, file) = store(&[
        &[LogEntry::Opened { epoch: 1, time: 5, parent: None, owner: None }],
        &[LogEntry::Reset, LogEntry::Opened { epoch: 2, time: 6, parent: None, owner: None }],
    ])
    .await;
    store.fork("s", None, "Branch/1").await.unwrap();
    let crc = |text: &str| format!("{:08x}", crc32fast::hash(text.as_bytes()));
    let one = r#"[{"type":"opened","epoch":1,"time":5}]"#;
    let two = r#"[{"type":"reset"},{"type":"opened","epoch":2,"time":6}]"#;
    let head = |fields: &str| {
        format!(r#"{{"loopwright":"session","version":1,"crc":"{}",{fields}"#, crc(fields))
    };
    let wanted = [
        head(r#""session":"s"}"#),
        format!(r#"{{"at":0,"crc":"{}","entries":{one}}}"#, crc(one)),
        format!(r#"{{"at":1,"crc":"{}","entries":{two}}}"#, crc(two)),
    ];
    assert_eq!(fs::read_to_string(&file).unwrap(), wanted.join("\n") + "\n");
    let branch = fs::read_to_string(file.with_file_name("%42ranch%2f1.jsonl")).unwrap();
    assert_eq!(
        branch,
        head(r#""session":"Branch/1","parent":{"session":"s","entries":3}}"#) + "\n"
    );
    assert_eq!(store.session("Branch/1").await.unwrap().parent, Some(("s".into(), 3)));
}

#[cfg(unix)]
#[tokio::test]
async fn all_files_are_the_users_own() {
    use std::os::unix::fs::PermissionsExt;
    let directory = directory();
    let folder = directory.path().join("a/b");
    let store = Jsonl::open(&folder).unwrap();
    append(&*store.open("s").await.unwrap(), 0, &[remembered("one"), LogEntry::Reset]).await;
    store.fork("s", None, "b").await.unwrap();
    fs::write(folder.join("torn.jsonl"), r#"{"loopwright":"ses"#).unwrap();
    fs::set_permissions(folder.join("torn.jsonl"), fs::Permissions::from_mode(0o600)).unwrap();
    drop(store.open("torn").await.unwrap());
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&folder), mode(&directory.path().join("a"))), (0o700, 0o700));
    let files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= 5, "two sessions, a torn one, its torn line, the lock: {files:?}");
    for file in files {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

#[tokio::test]
async fn a_log_that_another_program_changes_is_left_untouched() {
    for durability in [Durability::Effects, Durability::Every] {
        let directory = directory();
        let store = Jsonl::open(directory.path()).unwrap().durability(durability);
        let memory = store.open("s").await.unwrap();
        append(&*memory, 0, &[remembered("one")]).await;
        let file = directory.path().join("s.jsonl");
        let changed = fs::read_to_string(&file).unwrap() + "by hand\n";
        fs::write(&file, &changed).unwrap();
        for _ in 0..2 {
            let refused =
                memory.append(1, [remembered("two")].into()).await.unwrap_err().to_string();
            assert!(
                refused.contains("something else has changed it")
                    && refused.contains("opened again"),
                "{refused}"
            );
        }
        assert_eq!(
            memory.load(0).await.unwrap(),
            [remembered("one")],
            "our own entries can be read"
        );
        assert_eq!(fs::read_to_string(&file).unwrap(), changed);
    }
}

/// A slow append does not delay other sessions.
#[tokio::test(start_paused = true)]
async fn a_slow_append_delays_no_other_session() {
    struct Forwarding(Arc<dyn Memory>);
    #[async_trait::async_trait]
    impl Memory for Forwarding {
        async fn append(&self, at: u64, entries: Arc<[LogEntry]>) -> Result<(), MemoryError> {
            self.0.append(at, entries).await
        }

        async fn load(&self, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
            self.0.load(from).await
        }
    }
    let (directory, store, _) = store(&[]).await;
    let slow = FaultyMemory::new(Forwarding(store.open("slow").await.unwrap()))
        .slow(Duration::from_millis(500));
    let quick = store.open("quick").await.unwrap();
    let start = tokio::time::Instant::now();
    let slow = tokio::spawn(async move { slow.append(0, [remembered("slow")].into()).await });
    for at in 0..100 {
        append(&*quick, at, &[remembered("quick")]).await;
    }
    assert!(!slow.is_finished() && start.elapsed() < Duration::from_millis(500));
    slow.await.unwrap().unwrap();
    assert_eq!(store.read("slow", 0).await.unwrap(), [remembered("slow")]);

    // An opening that waits for the file system, here for the lock of another process, blocks no
    // thread of the runtime.
    let lock = fs::File::open(directory.path().join(".lock")).unwrap();
    lock.lock().unwrap();
    let opening = {
        tokio::spawn({
            let store = store.clone();
            async move { store.open("later").await.map(drop) }
        })
    };
    for at in 100..200 {
        append(&*quick, at, &[remembered("quick")]).await;
    }
    assert!(!opening.is_finished());
    lock.unlock().unwrap();
    opening.await.unwrap().unwrap();
    assert_eq!(store.read("quick", 0).await.unwrap().len(), 200);
}

/// Opening a session takes linear time: it reads the log once.
#[tokio::test]
async fn opening_is_linear() {
    let directory = directory();
    let store = Jsonl::open(directory.path()).unwrap();
    const NAMES: [&str; 2] = ["short", "long"];
    const LENGTHS: [u64; 2] = [10_000, 100_000];
    let mut fastest = [Duration::MAX; 2];
    for (n, length) in LENGTHS.into_iter().enumerate() {
        let memory = store.open(NAMES[n]).await.unwrap();
        let batch: Vec<LogEntry> = (0..10)
            .map(|n| remembered(&format!("message {n} with a text of some length")))
            .collect();
        for at in (0..length).step_by(10) {
            append(&*memory, at, &batch).await;
        }
    }
    // Linear is 10, quadratic 100. Other work of the machine delays most readings, but not all.
    let ratio = |fastest: &[Duration; 2]| fastest[1].as_secs_f64() / fastest[0].as_secs_f64();
    let mut readings = 0;
    while readings < 3 || ratio(&fastest) > 30.0 {
        assert!(readings < 100, "10,000 and 100,000 entries took {fastest:?}");
        for (n, length) in LENGTHS.into_iter().enumerate() {
            let start = Instant::now();
            let memory = store.open(NAMES[n]).await.unwrap();
            assert_eq!(memory.load(0).await.unwrap().len() as u64, length);
            fastest[n] = fastest[n].min(start.elapsed());
        }
        readings += 1;
    }
}

/// The owner of a session writes to the file that others read, even if the session is deleted
/// concurrently.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sessions_can_be_deleted_and_opened_concurrently() {
    let (_directory, store, _) = store(&[&[remembered("one")]]).await;
    let opener = |store: Jsonl| async move {
        let mut opened = 0;
        for _ in 0..200 {
            match store.open("s").await {
                Ok(memory) => {
                    let at = memory.load(0).await.unwrap().len() as u64;
                    append(&*memory, at, &[remembered("mine")]).await;
                    assert_eq!(store.read("s", at).await.unwrap(), [remembered("mine")]);
                    opened += 1;
                }
                Err(MemoryError::InUse(_)) => {}
                Err(other) => panic!("{other}"),
            }
        }
        opened
    };
    let deleter = |store: Jsonl| async move {
        let mut deleted = 0;
        for _ in 0..400 {
            match store.delete("s").await {
                Ok(()) => deleted += 1,
                Err(MemoryError::InUse(_) | MemoryError::NoSession(_)) => {}
                Err(other) => panic!("{other}"),
            }
        }
        deleted
    };
    let openers = [tokio::spawn(opener(store.clone())), tokio::spawn(opener(store.clone()))];
    let deleted = tokio::spawn(deleter(store.clone())).await.unwrap();
    for opener in openers {
        assert!(opener.await.unwrap() > 0);
    }
    assert!(deleted > 0);
}
