//! Any bytes as a file of a store, or as an exported session.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use loopwright_core::SessionStore;
use loopwright_core::log::{InMemoryStore, LogEntry, MemoryError, StateScope};
use loopwright_memory::{Jsonl, Sqlite, import};
use tokio::sync::OnceCell;

use crate::random::Random;

/// Uses the sessions of a store whose file is damaged, or imports a session.
///
/// An input that begins with the header of a `Jsonl` log is such a file. Its checksums are
/// sometimes corrected, to reach the code behind them. An input that begins with `S` is a list of
/// changes to a SQLite file. Any other input is an exported session.
pub fn check_store(bytes: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime").block_on(async {
        if let Some(changes) = bytes.strip_prefix(b"S") {
            sqlite(changes).await;
        } else if bytes.starts_with(br#"{"loopwright":"session""#) {
            jsonl(bytes).await;
        } else {
            let store = InMemoryStore::new();
            if import(&store, "s", &String::from_utf8_lossy(bytes)).await.is_ok() {
                use_sessions(&store).await.expect("what was imported can be used");
            }
        }
    });
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    folder.expect("a temporary directory")
}

async fn jsonl(bytes: &[u8]) {
    let folder = folder();
    let mut bytes = bytes.to_vec();
    if Random::of(&bytes).below(2) == 0 {
        bytes = bytes.split_inclusive(|byte| *byte == b'\n').flat_map(with_checksum).collect();
    }
    fs::write(folder.path().join("s.jsonl"), &bytes).expect("a file");
    let store = Jsonl::open(folder.path()).expect("a directory can be opened");
    check(&store, &folder.path().join("s.jsonl")).await;
}

/// Opens a SQLite file with changes of four bytes each: three for the position and one for the
/// value.
async fn sqlite(changes: &[u8]) {
    static INTACT: OnceCell<Vec<u8>> = OnceCell::const_new();
    let mut bytes = INTACT.get_or_init(intact).await.clone();
    for [a, b, c, value] in changes.as_chunks().0 {
        let position = u32::from_le_bytes([*a, *b, *c, 0]) as usize % bytes.len();
        bytes[position] = *value;
    }
    let folder = folder();
    let path = folder.path().join("s.db");
    fs::write(&path, bytes).expect("a file");
    match Sqlite::open(&path) {
        Ok(store) => check(&store, &path).await,
        Err(error) => check_error(&error, &path),
    }
}

/// Makes a SQLite file with a session and a branch of it.
async fn intact() -> Vec<u8> {
    let folder = folder();
    let path = folder.path().join("s.db");
    let store = Sqlite::open(&path).expect("a new store");
    let memory = store.open("s").await.expect("a new session");
    for at in 0..8 {
        let value = Arc::new(serde_json::json!("the value ".repeat(1 + 60 * at)));
        let entry = LogEntry::State { scope: StateScope::Session, key: "k".into(), value };
        memory.append(at as u64, [entry].into()).await.expect("room");
    }
    drop(memory);
    store.fork("s", None, "branch").await.expect("a branch");
    drop(store);
    fs::read(path).expect("the file")
}

async fn check(store: &dyn SessionStore, file: &Path) {
    if let Err(error) = use_sessions(store).await {
        check_error(&error, file);
    }
}

/// Checks that an error names the file, unless it is about a session's name or state.
fn check_error(error: &MemoryError, file: &Path) {
    let text = error.to_string();
    let is_damage = matches!(error, MemoryError::Damaged(_) | MemoryError::Newer { .. });
    assert!(!is_damage || text.contains(file.to_str().expect("a path in UTF-8")), "{text}");
}

/// Reads, continues, forks and deletes every session, and `s`.
async fn use_sessions(store: &dyn SessionStore) -> Result<(), MemoryError> {
    let mut names: Vec<String> =
        store.sessions().await?.iter().map(|info| info.id.to_string()).collect();
    names.push("s".into());
    for name in names.iter().take(4) {
        let memory = store.open(name).await?;
        let mut entries = memory.load(0).await?;
        memory.append(entries.len() as u64, [LogEntry::Reset].into()).await?;
        drop(memory);
        entries.push(LogEntry::Reset);
        assert_eq!(store.read(name, 0).await?, entries, "what was appended is read");
        assert_eq!(store.session(name).await?.entries, entries.len() as u64);
        store.search("the", 3).await?;
        match store.fork(name, None, "the fork").await {
            Ok(_) | Err(MemoryError::Exists(_)) => {}
            Err(error) => return Err(error),
        }
        match store.delete(name).await {
            Ok(()) | Err(MemoryError::HasBranches { .. } | MemoryError::NoSession(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns a line of a `Jsonl` log with the checksum of its entries.
fn with_checksum(line: &[u8]) -> Vec<u8> {
    const MARK: &[u8] = br#"","entries":"#;
    let mut line = line.to_vec();
    let mark = line.windows(MARK.len()).position(|window| window == MARK);
    if let Some(at) = mark.filter(|at| *at >= 8) {
        let entries = line[at + MARK.len()..].trim_ascii_end();
        let crc = crc32fast::hash(entries.strip_suffix(b"}").unwrap_or(entries));
        line[at - 8..at].copy_from_slice(format!("{crc:08x}").as_bytes());
    }
    line
}
