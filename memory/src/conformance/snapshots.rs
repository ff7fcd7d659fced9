//! Checks of snapshots, of stores that keep them.

use loopwright_core::event::RunStatus;
use loopwright_core::log::{LogEntry, Snapshot};
use loopwright_core::{Memory, SessionStore};

use super::expect::{Checked, append, broken, expect_eq, open_session};
use super::samples;

const SESSION: &str = "long";

pub(super) async fn check(store: &dyn SessionStore) -> Checked {
    let memory = open_session(store, SESSION).await?;
    if memory.snapshots().is_none() {
        return Ok(());
    }
    let run = samples::run(1, 1000, "one").into_iter();
    let log: Vec<LogEntry> = run.chain([samples::ended(1, 2000, RunStatus::Done)]).collect();
    append(&*memory, 0, &log).await?;
    let of = |entries: u64| Snapshot::new(entries, vec![0, 255, entries as u8]);
    expect_latest(&*memory, None, "a session has no snapshot before one is stored").await?;
    put(&*memory, of(2)).await?;
    expect_latest(&*memory, Some(of(2)), "a snapshot is returned unchanged").await?;
    put(&*memory, of(1)).await?;
    let rule = "a snapshot does not replace one of more entries";
    expect_latest(&*memory, Some(of(2)), rule).await?;
    put(&*memory, of(3)).await?;
    expect_latest(&*memory, Some(of(3)), "a snapshot replaces one of fewer entries").await?;
    memory.close().await;
    drop(memory);
    let memory = open_session(store, SESSION).await?;
    expect_latest(&*memory, Some(of(3)), "the next owner gets the snapshot").await?;
    memory.close().await;
    drop(memory);
    let fork = store.fork(SESSION, None, "fork of long").await;
    fork.map_err(|error| broken("a session with a snapshot can be forked", error))?;
    let memory = open_session(store, "fork of long").await?;
    expect_latest(&*memory, None, "a fork does not have the snapshot").await?;
    memory.close().await;
    drop(memory);
    for session in ["fork of long", SESSION] {
        let deleted = store.delete(session).await;
        deleted.map_err(|error| broken("a session with a snapshot can be deleted", error))?;
    }
    let memory = open_session(store, SESSION).await?;
    append(&*memory, 0, &[samples::remembered("d")]).await?;
    expect_latest(&*memory, None, "a session is deleted with its snapshot").await?;
    memory.close().await;
    Ok(())
}

async fn put(memory: &dyn Memory, snapshot: Snapshot) -> Checked {
    let Some(snapshots) = memory.snapshots() else { return Ok(()) };
    let stored = snapshots.store(snapshot).await;
    stored.map_err(|error| broken("a snapshot is stored", error))
}

async fn expect_latest(memory: &dyn Memory, expected: Option<Snapshot>, rule: &str) -> Checked {
    let Some(snapshots) = memory.snapshots() else {
        return Err(broken("a memory keeps snapshots as long as it is open", "`None`"));
    };
    let latest = snapshots.latest().await.map_err(|error| broken(rule, error))?;
    expect_eq(&latest, &expected, rule)
}
