//! A test suite that checks whether a session store keeps the contract of [`SessionStore`].
//!
//! ```
//! use loopwright_core::log::InMemoryStore;
//! use loopwright_memory::conformance;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), String> {
//! let store = InMemoryStore::new(); // or your own store, without sessions
//! for missing in conformance::check(&store).await? {
//!     println!("{missing}"); // such as "no mailbox: decisions … from other processes fail"
//! }
//! # Ok(()) }
//! ```
//!
//! An error names the broken rule and what was observed. Both functions require a store without
//! sessions, and delete all sessions unless a check fails. They work with any runtime that the
//! store works with.

mod actions;
mod branches;
mod expect;
mod listing;
mod logs;
mod mailbox;
mod missing;
mod owners;
mod samples;
mod schedules;
mod snapshots;
mod sub_agents;

use std::slice;

use loopwright_core::SessionStore;
use loopwright_core::log::{LogEntry, MemoryError};

pub use missing::Missing;

use expect::{
    append, append_each, broken, clear, expect_conflict, expect_empty, expect_eq,
    expect_eq_entries, expect_in_use, expect_reads, ids, load, open_session,
};

/// Checks the rules for one store in one process. Returns the optional features that the store does
/// not have, which the checks leave out.
///
/// It does not check what survives a crash of the process or of the machine in the middle of a
/// write, nor whether another process is kept out of an open session; for that see
/// [`check_reopened`].
///
/// Use a runtime with several threads, so that the checks for races are effective.
///
/// # Errors
///
/// Returns the rule that the store breaks, and what was observed.
///
/// ```
/// use loopwright_memory::{Sqlite, conformance};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let folder = tempfile::tempdir()?;
/// let store = Sqlite::open(folder.path().join("sessions.db"))?;
/// let missing = conformance::check(&store).await?;
/// assert!(!missing.contains(&conformance::Missing::Mailbox));
/// # Ok(()) }
/// ```
pub async fn check(store: &dyn SessionStore) -> Result<Vec<Missing>, String> {
    expect_empty(store, "the store has no session before the checks").await?;
    logs::check(store).await?;
    owners::check(store).await?;
    listing::check(store).await?;
    actions::check(store).await?;
    branches::check(store).await?;
    sub_agents::check(store).await?;
    mailbox::check(store).await?;
    schedules::check(store).await?;
    snapshots::check(store).await?;
    let missing = missing::of(store).await?;
    clear(store).await?;
    Ok(missing)
}

/// Checks the rules that hold when the store is reopened, as by another process.
///
/// `reopen` must open the same store each time: the same file, directory or server.
///
/// # Errors
///
/// Returns the rule that the store breaks, and what was observed.
///
/// ```
/// use loopwright_memory::{Jsonl, conformance};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let folder = tempfile::tempdir()?;
/// conformance::check_reopened(async || Jsonl::open(folder.path())).await?;
/// # Ok(()) }
/// ```
pub async fn check_reopened<S: SessionStore>(
    reopen: impl AsyncFn() -> Result<S, MemoryError>,
) -> Result<(), String> {
    let reopen =
        async || reopen().await.map_err(|e| broken("the store can be opened several times", e));
    let first = reopen().await?;
    expect_empty(&first, "the store has no session before the checks").await?;
    let entries = samples::every_entry();
    let memory = open_session(&first, "kept").await?;
    append_each(&*memory, &entries).await?;

    let second = reopen().await?;
    let rule = "another opening of the store reads what one has written";
    expect_reads(&second, "kept", &entries, rule).await?;
    expect_in_use(
        second.open("kept").await,
        "a session that another opening of the store has open is in use",
    )?;
    expect_in_use(
        second.delete("kept").await,
        "a session that another opening of the store has open is not deleted",
    )?;
    drop(memory);
    drop(first);

    let memory = open_session(&second, "kept").await?;
    let rule = "a session that is opened again has all its entries";
    expect_eq_entries(&load(&*memory, 0).await?, &entries, rule)?;
    expect_conflict(&*memory, 0, entries.len() as u64).await?;
    let more = samples::remembered("afterwards");
    append(&*memory, entries.len() as u64, slice::from_ref(&more)).await?;
    drop(memory);
    drop(second);

    let third = reopen().await?;
    let all: Vec<LogEntry> = entries.into_iter().chain([more]).collect();
    expect_reads(&third, "kept", &all, "a store that is opened again has all entries").await?;
    let rule = "a store that is opened again lists its sessions";
    let listed = third.sessions().await.map_err(|e| broken(rule, e))?;
    expect_eq(&ids(listed.iter().map(|info| &*info.id)), &ids(["kept"]), rule)?;
    clear(&third).await?;
    drop(third);
    expect_empty(&reopen().await?, "a deleted session is gone for the next opening of the store")
        .await?;
    mailbox::check_reopened(reopen).await
}
