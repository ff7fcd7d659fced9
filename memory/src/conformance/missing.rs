//! [`Missing`], an optional feature that a store does not have.

use std::fmt;

use loopwright_core::SessionStore;
use loopwright_core::log::{MemoryError, PostedInput};

use super::expect::{broken, open_session};

/// An optional feature that a store does not have. Its text says what does not work therefore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Missing {
    /// [`SessionStore::post`] and [`Memory::mailbox`](loopwright_core::Memory::mailbox).
    Mailbox,
    /// [`SessionStore::in_use`].
    InUse,
    /// [`Memory::snapshots`](loopwright_core::Memory::snapshots).
    Snapshots,
    /// [`SessionStore::schedules`].
    Schedules,
    /// [`SessionStore::workers`].
    Workers,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Missing::Mailbox => "no mailbox: decisions and messages from other processes fail",
            Missing::InUse => "no `in_use`: others learn that a session is open by a failed `open`",
            Missing::Snapshots => "no snapshots: opening a session reads its whole log",
            Missing::Schedules => "no schedules: inputs cannot be posted for a later time",
            Missing::Workers => "no workers: several servers cannot share the sessions",
        })
    }
}

/// Returns the optional features that the store does not have.
pub(super) async fn of(store: &dyn SessionStore) -> Result<Vec<Missing>, String> {
    const SESSION: &str = "features";
    let memory = open_session(store, SESSION).await?;
    let steer = PostedInput::new("i", loopwright_core::event::InputEvent::Steer("x".into()))
        .map_err(|e| broken("a steer can be posted", e))?;
    let posted = store.post("missing", &steer).await;
    let in_use = store.in_use(SESSION).await.map_err(|e| broken("`in_use` succeeds", e))?;
    let missing = [
        (posted == Err(MemoryError::NoMailbox) || memory.mailbox().is_none(), Missing::Mailbox),
        (in_use.is_none(), Missing::InUse),
        (memory.snapshots().is_none(), Missing::Snapshots),
        (store.schedules().is_none(), Missing::Schedules),
        (store.workers().is_none(), Missing::Workers),
    ];
    memory.close().await;
    Ok(missing.into_iter().filter_map(|(is_missing, what)| is_missing.then_some(what)).collect())
}
