//! Bits that flip, and files that are cut: an error or the very same, never less and never
//! something else.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use loopwright_core::event::RunStatus;
use loopwright_core::message::RunId;

use super::*;

const NAMES: [&str; 3] = ["alpha", "beta", "branch"];

/// The one of them that is gone on with.
const MORE: usize = 1;

/// What a whole store says.
struct Whole {
    bytes: Vec<u8>,
    items: Vec<Vec<LogEntry>>,
    infos: Vec<SessionInfo>,
}

/// A store with some of everything, in small pages, so that there are all kinds of them in few
/// bytes: each byte costs a look.
async fn whole() -> Whole {
    let (_folder, path) = place();
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
    drop(begin(&store, "alpha", &[numbered(0..8), vec![ended(3)]].concat()).await);
    drop(begin(&store, "beta", &[said(&"long ".repeat(130)), ended(2)]).await);
    store.fork("alpha", Some(5), "branch").await.unwrap();
    store.open("branch").await.unwrap().append(5, numbered(5..8).into()).await.unwrap();
    drop(store);
    let rough = beside(&path);
    let to = |mode: &str| rough.pragma_update(None, "journal_mode", mode).unwrap();
    to("DELETE");
    rough.pragma_update(None, "page_size", 512).unwrap();
    rough.execute_batch("VACUUM").unwrap();
    to("WAL");
    drop(rough);
    let store = Sqlite::open(&path).unwrap();
    let mut items = Vec::new();
    for name in NAMES {
        items.push(store.read(name, 0).await.unwrap());
    }
    let infos = store.sessions().await.unwrap();
    drop(store);
    assert!(!path.with_file_name("sessions.db-wal").exists(), "all is in the file");
    Whole { bytes: std::fs::read(&path).unwrap(), items, infos }
}

/// How much of a damaged store is found to be so.
#[derive(Default)]
struct Found {
    errors: AtomicUsize,
    same: AtomicUsize,
}

impl Found {
    fn is(&self, same: bool) {
        if same { &self.same } else { &self.errors }.fetch_add(1, Ordering::Relaxed);
    }
}

/// Looks at a store that is not as it was. Gives what is wrong with what it says.
async fn look(path: &Path, whole: &Whole, found: &Found) -> Result<(), String> {
    let store = match Sqlite::open(path) {
        Ok(store) => store,
        Err(why) => {
            found.is(false);
            return tells(&why, path);
        }
    };
    for round in ["at first", "after more was written"] {
        for (name, items) in NAMES.iter().zip(&whole.items) {
            if round != "at first" && *name == NAMES[MORE] {
                continue; // it has more now
            }
            match store.read(name, 0).await {
                Ok(read) if read == *items => found.is(true),
                Ok(read) => {
                    return Err(format!(
                        "{round}, `{name}` has {} items, or other ones",
                        read.len()
                    ));
                }
                Err(why) => {
                    found.is(false);
                    tells(&why, path)?;
                }
            }
        }
        if round == "at first" {
            match store.sessions().await {
                Ok(read) if read == whole.infos => found.is(true),
                Ok(read) => return Err(format!("other sessions are listed: {read:?}")),
                Err(why) => {
                    found.is(false);
                    tells(&why, path)?;
                }
            }
            write(&store, whole).await?;
        }
    }
    Ok(())
}

/// Goes on with a session, and begins one.
async fn write(store: &Sqlite, whole: &Whole) -> Result<(), String> {
    let (name, items, more) = (NAMES[MORE], &whole.items[MORE], numbered(0..2));
    if let Ok(memory) = store.open(name).await {
        match memory.load(0).await {
            Ok(read) if read == *items => {}
            Ok(read) => return Err(format!("`{name}` is begun anew, with {} items", read.len())),
            Err(_) => return Ok(()),
        }
        if memory.append(items.len() as u64, more.clone().into()).await.is_ok() {
            match memory.load(0).await {
                Ok(read) if read != [&items[..], &more[..]].concat() => {
                    return Err(format!("`{name}` has other items"));
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

/// It says where, and does not say that nothing is there.
fn tells(why: &MemoryError, path: &Path) -> Result<(), String> {
    match why {
        MemoryError::NoSession(_) => Err(format!("it says: {why}")),
        why if why.to_string().contains(path.to_str().unwrap()) => Ok(()),
        why => Err(format!("the file is not named: {why}")),
    }
}

/// Looks at each of these stores, twice as many at once as the machine has processors: a look waits
/// for its own threads.
fn look_at_all(whole: &Whole, count: usize, damage: impl Fn(usize, &mut Vec<u8>) + Sync) -> Found {
    let (next, found) = (AtomicUsize::new(0), Found::default());
    std::thread::scope(|scope| {
        for _ in 0..2 * std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                let (folder, path) = place();
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= count {
                        break;
                    }
                    let mut bytes = whole.bytes.clone();
                    damage(n, &mut bytes);
                    std::fs::write(&path, bytes).unwrap();
                    if let Err(why) = runtime.block_on(look(&path, whole, &found)) {
                        panic!("damage {n}: {why}");
                    }
                    for left in ["-wal", "-shm"] {
                        let _ =
                            std::fs::remove_file(folder.path().join(format!("sessions.db{left}")));
                    }
                }
            });
        }
    });
    found
}

/// C79: a store with a flipped bit says so, or it does not matter; no session looks shorter,
/// different or new.
#[tokio::test]
async fn a_flipped_bit_anywhere_is_an_error_or_changes_nothing() {
    let whole = whole().await;
    assert!(whole.bytes.len() >= 10 * 512, "there are pages of all kinds");
    let (empty, used): (Vec<_>, Vec<_>) =
        places(&whole.bytes).into_iter().partition(|place| place.len() > 1);
    let flip = |place: &Range<usize>, bytes: &mut Vec<u8>| {
        place.clone().for_each(|at| bytes[at] ^= 1 << (at % 8))
    };
    let found = look_at_all(&whole, empty.len(), |n, bytes| flip(&empty[n], bytes));
    assert_eq!(found.errors.into_inner(), 0, "nothing is in {empty:?}");
    let found = look_at_all(&whole, used.len(), |n, bytes| flip(&used[n], bytes));
    let (errors, same) = (found.errors.into_inner(), found.same.into_inner());
    assert!(errors > used.len() / 2 && same > used.len() / 2, "{errors} errors, {same} the same");
}

/// Where bits are flipped: in each byte alone, but for the stretches of a page that nothing is in,
/// which are zeros. If no bit of such a stretch matters where one of each byte is flipped, none
/// matters alone.
fn places(bytes: &[u8]) -> Vec<Range<usize>> {
    let mut places = Vec::new();
    for (page, bytes) in (0..).step_by(512).zip(bytes.chunks(512)) {
        let mut at = 0;
        while at < bytes.len() {
            let zeros = bytes[at..].iter().take_while(|byte| **byte == 0).count();
            let end = at + if zeros >= 32 { zeros } else { 1 };
            places.push(page + at..page + end);
            at = end;
        }
    }
    places
}

#[tokio::test]
async fn a_file_that_is_cut_is_an_error_or_has_all() {
    let whole = whole().await;
    let length = whole.bytes.len();
    let cuts = length.min(4096) + 1;
    let found = look_at_all(&whole, cuts + 1, |n, bytes| {
        bytes.truncate(if n == cuts { 0 } else { length - n })
    });
    let errors = found.errors.into_inner();
    assert!(errors > cuts, "{errors} errors");
}

#[tokio::test]
async fn a_damaged_item_is_named_and_its_session_can_be_deleted() {
    let (_folder, path) = place();
    let store = Sqlite::open(&path).unwrap();
    drop(begin(&store, "s", &numbered(0..5)).await);
    drop(begin(&store, "t", &numbered(0..5)).await);
    drop(store);
    beside(&path)
        .execute("UPDATE item SET json = replace(json, 'item 3', 'item 4') WHERE session = 1", ())
        .unwrap();
    let store = Sqlite::open(&path).unwrap();
    let why = store.read("s", 0).await.unwrap_err();
    assert!(matches!(why, MemoryError::Damaged(_)));
    let why = why.to_string();
    assert!(why.contains("item 3 of session `s`") && why.contains("sessions.db"), "{why}");
    assert!(why.contains("restore the file from a backup"), "{why}");
    assert_eq!(store.read("s", 4).await.unwrap(), numbered(4..5));
    assert_eq!(store.read("t", 0).await.unwrap(), numbered(0..5));
    store.delete("s").await.unwrap();
    assert_eq!(store.sessions().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_session_whose_name_is_damaged_is_not_begun_anew() {
    let (_folder, path) = place();
    let store = Sqlite::open(&path).unwrap();
    drop(begin(&store, "session", &numbered(0..5)).await);
    drop(store);
    beside(&path).execute("UPDATE session SET name = 'sessioo'", ()).unwrap();
    let store = Sqlite::open(&path).unwrap();
    for name in ["session", "sessioo"] {
        for why in [store.open(name).await.err().unwrap(), store.read(name, 0).await.unwrap_err()] {
            assert!(matches!(&why, MemoryError::Damaged(why) if why.contains("sessioo")), "{why}");
        }
    }
    beside(&path).execute("DELETE FROM session", ()).unwrap();
    let why = store.open("session").await.err().unwrap();
    assert!(
        matches!(&why, MemoryError::Damaged(why) if why.contains("the list of sessions")),
        "{why}"
    );
}
