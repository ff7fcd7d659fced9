//! Whether a store does what the engine relies on: a suite to run on a store of your own.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), String> {
//! let store = loopwright_core::log::InMemoryStore::new(); // or your own, without a session
//! loopwright_memory::conformance::check(&store).await?;
//! # Ok(()) }
//! ```
//!
//! An error names the rule that the store breaks, and says what was seen. Both functions want a
//! store without a session and leave it so, unless they fail. They need nothing of the runtime but
//! what the store needs.

mod branches;
mod listing;
mod logs;
mod owners;
mod samples;

use std::fmt::{Debug, Display};
use std::sync::Arc;

use loopwright_core::log::{LogEntry, MemoryError};
use loopwright_core::{Memory, SessionStore};

/// What a check finds: nothing, or the rule that is broken.
type Checked = Result<(), String>;

/// Checks the rules that hold for one store in one process.
///
/// Give it a runtime with more than one thread to let the races be races.
pub async fn check(store: &dyn SessionStore) -> Result<(), String> {
    empty(store, "the store has no session before the checks").await?;
    logs::check(store).await?;
    owners::check(store).await?;
    listing::check(store).await?;
    branches::check(store).await?;
    clear(store).await
}

/// Checks what holds when the store is opened again, as another process would.
///
/// `open` opens the same store anew each time: the same file, the same directory, the same server.
pub async fn check_reopened<S: SessionStore>(
    open: impl AsyncFn() -> Result<S, MemoryError>,
) -> Result<(), String> {
    let again =
        async || open().await.map_err(|e| broken("the store can be opened, and opened again", e));
    let first = again().await?;
    empty(&first, "the store has no session before the checks").await?;
    let items = samples::every_item();
    let memory = opened(&first, "kept").await?;
    append_each(&*memory, &items).await?;

    let second = again().await?;
    read_is(&second, "kept", &items, "another opening of the store reads what one has written")
        .await?;
    in_use(
        second.open("kept").await,
        "a session that another opening of the store has open is in use",
    )?;
    in_use(
        second.delete("kept").await,
        "a session that another opening of the store has open is not deleted",
    )?;
    drop((memory, first));

    let memory = opened(&second, "kept").await?;
    same(&load(&*memory, 0).await?, &items, "a session that is opened again has all its items")?;
    refused(&*memory, 0, items.len() as u64).await?;
    let more = samples::said("afterwards");
    append(&*memory, items.len() as u64, std::slice::from_ref(&more)).await?;
    drop((memory, second));

    let third = again().await?;
    let all: Vec<LogEntry> = items.into_iter().chain([more]).collect();
    read_is(&third, "kept", &all, "a store that is opened again has all items").await?;
    let found = third
        .sessions()
        .await
        .map_err(|e| broken("a store that is opened again lists its sessions", e))?;
    same(
        &ids(found.iter().map(|info| &*info.id)),
        &ids(["kept"]),
        "a store that is opened again lists its sessions",
    )?;
    clear(&third).await?;
    drop(third);
    empty(&again().await?, "what was deleted is gone for the next opening of the store").await
}

/// The text of an error: the rule, and what was seen.
fn broken(rule: &str, seen: impl Display) -> String {
    format!("the store breaks a rule: {rule}. Seen: {seen}")
}

/// Both are the same.
fn same<T: PartialEq + Debug + ?Sized>(seen: &T, wanted: &T, rule: &str) -> Checked {
    if seen == wanted {
        return Ok(());
    }
    let brief = |value: &T| {
        let text = format!("{value:?}");
        let cut: String = text.chars().take(1000).collect();
        if cut.len() < text.len() { format!("{cut} … ({} bytes)", text.len()) } else { text }
    };
    Err(broken(rule, format_args!("{}, instead of {}", brief(seen), brief(wanted))))
}

/// Both logs are the same; tells the first item that differs.
fn same_items(seen: &[LogEntry], wanted: &[LogEntry], rule: &str) -> Checked {
    for (n, (seen, wanted)) in seen.iter().zip(wanted).enumerate() {
        same(seen, wanted, &format!("{rule} (item {n})"))?;
    }
    same(&seen.len(), &wanted.len(), &format!("{rule} (number of items)"))
}

fn ids<'a>(ids: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    ids.into_iter().map(str::to_owned).collect()
}

fn in_use<T>(result: Result<T, MemoryError>, rule: &str) -> Checked {
    match result {
        Err(MemoryError::InUse(_)) => Ok(()),
        Err(other) => Err(broken(rule, format_args!("the error `{other}` instead of InUse"))),
        Ok(_) => Err(broken(rule, "it worked, instead of InUse")),
    }
}

async fn opened(store: &dyn SessionStore, session: &str) -> Result<Arc<dyn Memory>, String> {
    let rule = "a session that nobody has open can be opened";
    store.open(session).await.map_err(|e| broken(rule, format_args!("for {session:?}: {e}")))
}

async fn load(memory: &dyn Memory, from: u64) -> Result<Vec<LogEntry>, String> {
    memory.load(from).await.map_err(|e| broken("an open session can be loaded", e))
}

async fn append(memory: &dyn Memory, at: u64, items: &[LogEntry]) -> Checked {
    let rule = "an append at the end of the log takes place";
    memory
        .append(at, items.into())
        .await
        .map_err(|e| broken(rule, format_args!("at item {at}: {e}")))
}

/// Appends the items one by one.
async fn append_each(memory: &dyn Memory, items: &[LogEntry]) -> Checked {
    for (at, item) in items.iter().enumerate() {
        append(memory, at as u64, std::slice::from_ref(item)).await?;
    }
    Ok(())
}

/// An append elsewhere than at the end conflicts.
async fn refused(memory: &dyn Memory, at: u64, end: u64) -> Checked {
    for items in [vec![], vec![samples::said("misplaced")]] {
        let seen = memory.append(at, items.into()).await;
        same(
            &seen,
            &Err(MemoryError::Conflict { at, end }),
            "an append elsewhere than at the end is a Conflict",
        )?;
    }
    Ok(())
}

/// Fills a new session and closes it.
async fn written(store: &dyn SessionStore, session: &str, items: &[LogEntry]) -> Checked {
    append(&*opened(store, session).await?, 0, items).await
}

async fn read_is(
    store: &dyn SessionStore,
    session: &str,
    items: &[LogEntry],
    rule: &str,
) -> Checked {
    let seen = store
        .read(session, 0)
        .await
        .map_err(|e| broken(rule, format_args!("for {session:?}: {e}")))?;
    same_items(&seen, items, rule)
}

/// There is no such session for readers.
async fn absent(store: &dyn SessionStore, session: &str, rule: &str) -> Checked {
    let none = MemoryError::NoSession(session.into());
    same(
        &store.read(session, 0).await,
        &Err(none.clone()),
        &format!("{rule}: `read` says NoSession"),
    )?;
    same(&store.session(session).await, &Err(none), &format!("{rule}: `session` says NoSession"))?;
    let listed = store.sessions().await.map_err(|e| broken("sessions can be listed", e))?;
    same(
        &listed.iter().any(|info| *info.id == *session),
        &false,
        &format!("{rule}: `sessions` does not list it"),
    )
}

async fn empty(store: &dyn SessionStore, rule: &str) -> Checked {
    let listed = store.sessions().await.map_err(|e| broken("sessions can be listed", e))?;
    same(&ids(listed.iter().map(|info| &*info.id)), &vec![], rule)
}

/// Deletes all sessions, branches first.
async fn clear(store: &dyn SessionStore) -> Checked {
    let rule = "sessions that nobody has open can be deleted, branches first";
    loop {
        let listed = store.sessions().await.map_err(|e| broken("sessions can be listed", e))?;
        let (before, mut left) = (listed.len(), Vec::new());
        for info in listed {
            match store.delete(&info.id).await {
                Ok(()) => absent(store, &info.id, "a deleted session is gone").await?,
                Err(MemoryError::HasBranches { .. }) => left.push(info.id),
                Err(other) => return Err(broken(rule, format_args!("for {:?}: {other}", info.id))),
            }
        }
        match left.len() {
            0 => return empty(store, "deleted sessions are gone").await,
            same if same == before => {
                return Err(broken(rule, format_args!("{left:?} have branches, and all is gone")));
            }
            _ => {}
        }
    }
}
