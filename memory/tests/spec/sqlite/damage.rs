//! Flipped bits and truncated files: reads return an error or the same data, never less and never
//! different data.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use loopwright_core::Principal;
use loopwright_core::event::RunStatus;
use loopwright_core::log::SessionQuery;
use loopwright_core::message::RunId;

use super::*;

const NAMES: [&str; 3] = ["alpha", "beta", "branch"];

/// The index of the session that gets more appends.
const CONTINUED: usize = 1;

/// An undamaged store, and the result of every read.
struct Intact {
    bytes: Vec<u8>,
    entries: Vec<Vec<LogEntry>>,
    infos: Vec<SessionInfo>,
}

/// Creates a store with rows of every kind. Its pages are small, so that few bytes contain all
/// kinds of pages: each byte is damaged once.
async fn intact() -> Intact {
    let (_folder, path) = temp_store_path();
    let store = Sqlite::open(&path).unwrap();
    let ended = |n| LogEntry::RunEnded {
        run: RunId(n),
        end: RunStatus::Done,
        time: n,
        error: None,
        model_error: None,
        limit: None,
        value: None,
        handed_back: vec![],
    };
    let owner = Some(Principal::new("ann"));
    let opened = vec![LogEntry::Opened { epoch: 1, time: 1, parent: None, owner }];
    drop(begin(&store, "alpha", &[opened.clone(), numbered(1..8), vec![ended(3)]].concat()).await);
    drop(begin(&store, "gamma", &opened).await);
    drop(begin(&store, "beta", &[remembered(&"long ".repeat(130)), ended(2)]).await);
    store.fork("alpha", Some(5), "branch").await.unwrap();
    store.open("branch").await.unwrap().append(5, numbered(5..8).into()).await.unwrap();
    drop(store);
    let raw = raw_connection(&path);
    let to = |mode: &str| raw.pragma_update(None, "journal_mode", mode).unwrap();
    to("DELETE");
    raw.pragma_update(None, "page_size", 512).unwrap();
    raw.execute_batch("VACUUM").unwrap();
    to("WAL");
    drop(raw);
    let store = Sqlite::open(&path).unwrap();
    let mut entries = Vec::new();
    for name in NAMES {
        entries.push(store.read(name, 0).await.unwrap());
    }
    let infos = store.sessions().await.unwrap();
    drop(store);
    assert!(!path.with_file_name("sessions.db-wal").exists(), "all data is in the file");
    Intact { bytes: std::fs::read(&path).unwrap(), entries, infos }
}

/// Counters of the results of reads of damaged stores.
#[derive(Default)]
struct Reads {
    errors: AtomicUsize,
    same: AtomicUsize,
}

impl Reads {
    fn count(&self, same: bool) {
        if same { &self.same } else { &self.errors }.fetch_add(1, Ordering::Relaxed);
    }
}

/// Reads and writes a damaged store. Returns an error if a read returned wrong data.
async fn check_damaged(path: &Path, intact: &Intact, reads: &Reads) -> Result<(), String> {
    let store = match Sqlite::open(path) {
        Ok(store) => store,
        Err(why) => {
            reads.count(false);
            return names_file(&why, path);
        }
    };
    for round in ["before writes", "after writes"] {
        for (name, entries) in NAMES.iter().zip(&intact.entries) {
            if round != "before writes" && *name == NAMES[CONTINUED] {
                continue; // it has more entries now
            }
            match store.read(name, 0).await {
                Ok(read) if read == *entries => reads.count(true),
                Ok(read) => {
                    let count = read.len();
                    return Err(format!("{round}, `{name}` has other entries, or {count}"));
                }
                Err(why) => {
                    reads.count(false);
                    names_file(&why, path)?;
                }
            }
        }
        if round == "before writes" {
            match store.sessions().await {
                Ok(read) if read == intact.infos => reads.count(true),
                Ok(read) => return Err(format!("other sessions are listed: {read:?}")),
                Err(why) => {
                    reads.count(false);
                    names_file(&why, path)?;
                }
            }
            for (owner, brief) in [(None, true), (Some("ann"), true), (Some("ann"), false)] {
                let mut query = SessionQuery::new(1);
                (query.owner, query.brief) = (owner.map(Principal::new), brief);
                match same_pages(&store, query, &intact.infos).await {
                    Ok(true) => reads.count(true),
                    Ok(false) => return Err("other sessions are listed in pages".into()),
                    Err(why) => {
                        reads.count(false);
                        names_file(&why, path)?;
                    }
                }
            }
            write(&store, intact).await?;
        }
    }
    Ok(())
}

/// Returns whether the pages of a list have these sessions.
async fn same_pages(
    store: &Sqlite,
    query: SessionQuery,
    infos: &[SessionInfo],
) -> Result<bool, MemoryError> {
    let expected = infos.iter().filter(|info| query.has_owner(info.owner.as_ref()));
    let mut next = Some(query.clone());
    for info in expected {
        let Some(query) = next.take() else { return Ok(false) };
        let page = store.sessions_page(&query).await?;
        let expected = if query.brief { info.brief() } else { info.clone() };
        if page.sessions != [expected] {
            return Ok(false);
        }
        next = page.next.map(|cursor| query.after(cursor));
    }
    Ok(next.is_none())
}

/// Continues one session, and creates another.
async fn write(store: &Sqlite, intact: &Intact) -> Result<(), String> {
    let name = NAMES[CONTINUED];
    let entries = &intact.entries[CONTINUED];
    let more = numbered(0..2);
    if let Ok(memory) = store.open(name).await {
        match memory.load(0).await {
            Ok(read) if read == *entries => {}
            Ok(read) => {
                return Err(format!("`{name}` was created again, with {} entries", read.len()));
            }
            Err(_) => return Ok(()),
        }
        if memory.append(entries.len() as u64, more.clone().into()).await.is_ok() {
            match memory.load(0).await {
                Ok(read) if read != [&entries[..], &more[..]].concat() => {
                    return Err(format!("`{name}` has other entries"));
                }
                _ => {}
            }
        }
    }
    if let Ok(memory) = store.open("delta").await {
        let _ = memory.append(0, numbered(0..2).into()).await;
    }
    Ok(())
}

/// Checks that the error names the file, and does not claim that the session is missing.
fn names_file(why: &MemoryError, path: &Path) -> Result<(), String> {
    match why {
        MemoryError::NoSession(_) => Err(format!("the error is: {why}")),
        why if why.to_string().contains(path.to_str().unwrap()) => Ok(()),
        why => Err(format!("the file is not named: {why}")),
    }
}

/// Checks each of these stores, twice as many at once as the machine has processors, since each
/// check waits for threads of its store.
fn check_all(intact: &Intact, count: usize, damage: impl Fn(usize, &mut Vec<u8>) + Sync) -> Reads {
    let next = AtomicUsize::new(0);
    let reads = Reads::default();
    std::thread::scope(|scope| {
        for _ in 0..2 * std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                let (folder, path) = temp_store_path();
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= count {
                        break;
                    }
                    let mut bytes = intact.bytes.clone();
                    damage(n, &mut bytes);
                    std::fs::write(&path, bytes).unwrap();
                    if let Err(why) = runtime.block_on(check_damaged(&path, intact, &reads)) {
                        panic!("damage {n}: {why}");
                    }
                    for suffix in ["-wal", "-shm"] {
                        let _ = std::fs::remove_file(
                            folder.path().join(format!("sessions.db{suffix}")),
                        );
                    }
                }
            });
        }
    });
    reads
}

/// C82: a flipped bit is reported as an error or changes nothing; no session appears shorter,
/// different or new.
#[tokio::test]
async fn a_flipped_bit_anywhere_is_an_error_or_changes_nothing() {
    let intact = intact().await;
    assert!(intact.bytes.len() >= 10 * 512, "there are pages of all kinds");
    let (empty, used): (Vec<_>, Vec<_>) =
        flips(&intact.bytes).into_iter().partition(|range| range.len() > 1);
    let flip = |range: &Range<usize>, bytes: &mut Vec<u8>| {
        range.clone().for_each(|at| bytes[at] ^= 1 << (at % 8))
    };
    let reads = check_all(&intact, empty.len(), |n, bytes| flip(&empty[n], bytes));
    assert_eq!(reads.errors.into_inner(), 0, "the unused bytes {empty:?} matter");
    let reads = check_all(&intact, used.len(), |n, bytes| flip(&used[n], bytes));
    let errors = reads.errors.into_inner();
    let same = reads.same.into_inner();
    assert!(errors > used.len() / 2 && same > used.len() / 2, "{errors} errors, {same} the same");
}

/// Returns the bytes in which a bit is flipped at once: each byte alone, except for unused parts of
/// a page, which are zeros. If flipping a bit in every byte of such a part changes nothing, no
/// single flip does.
fn flips(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    for (page, bytes) in (0..).step_by(512).zip(bytes.chunks(512)) {
        let mut at = 0;
        while at < bytes.len() {
            let zeros = bytes[at..].iter().take_while(|byte| **byte == 0).count();
            let end = at + if zeros >= 32 { zeros } else { 1 };
            ranges.push(page + at..page + end);
            at = end;
        }
    }
    ranges
}

#[tokio::test]
async fn a_truncated_file_is_an_error_or_is_read_in_full() {
    let intact = intact().await;
    let length = intact.bytes.len();
    let cuts = length.min(4096) + 1;
    let reads = check_all(&intact, cuts + 1, |n, bytes| {
        bytes.truncate(if n == cuts { 0 } else { length - n })
    });
    let errors = reads.errors.into_inner();
    // Pages are not read from the end, so the end of the last one may be unused.
    assert!(errors > cuts - 512, "{errors} errors");
}

#[tokio::test]
async fn a_damaged_entry_is_named_and_its_session_can_be_deleted() {
    let (_folder, path) = temp_store_path();
    let store = Sqlite::open(&path).unwrap();
    drop(begin(&store, "s", &numbered(0..5)).await);
    drop(begin(&store, "t", &numbered(0..5)).await);
    drop(store);
    raw_connection(&path)
        .execute(
            "UPDATE entry SET json = replace(json, 'entry 3', 'entry 4') WHERE session = 1",
            (),
        )
        .unwrap();
    let store = Sqlite::open(&path).unwrap();
    let why = store.read("s", 0).await.unwrap_err();
    assert!(matches!(why, MemoryError::Damaged(_)));
    let why = why.to_string();
    assert!(why.contains("entry 3 of session `s`") && why.contains("sessions.db"), "{why}");
    assert!(why.contains("restore the file from a backup"), "{why}");
    assert_eq!(store.read("s", 4).await.unwrap(), numbered(4..5));
    assert_eq!(store.read("t", 0).await.unwrap(), numbered(0..5));
    store.delete("s").await.unwrap();
    assert_eq!(store.sessions().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_session_whose_name_is_damaged_is_not_created_a_second_time() {
    let (_folder, path) = temp_store_path();
    let store = Sqlite::open(&path).unwrap();
    drop(begin(&store, "session", &numbered(0..5)).await);
    drop(store);
    raw_connection(&path).execute("UPDATE session SET name = 'sessioo'", ()).unwrap();
    let store = Sqlite::open(&path).unwrap();
    for name in ["session", "sessioo"] {
        for why in [store.open(name).await.err().unwrap(), store.read(name, 0).await.unwrap_err()] {
            assert!(
                matches!(&why, MemoryError::Damaged(why) if why.message().contains("sessioo")),
                "{why}"
            );
        }
    }
    raw_connection(&path).execute("DELETE FROM session", ()).unwrap();
    let why = store.open("session").await.err().unwrap();
    assert!(
        matches!(&why, MemoryError::Damaged(why) if why.message().contains("the list of sessions")),
        "{why}"
    );
}
