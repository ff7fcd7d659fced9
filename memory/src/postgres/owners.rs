//! Owners of sessions. A session is owned from its opening until its owner frees it or dies.

use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use loopwright_core::log::{MemoryError, SessionInfo};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;
use tokio_postgres::Client;

use super::error::{StoreError, not_understood};
use super::link::Order;
use super::store::{LOCK_CLASS, Open, Params, Signals, Store};
use super::text::to_text;
use crate::codec;

/// Insertion of a session whose log has only its own entries.
const INSERT: &str = "WITH new AS (INSERT INTO session (name, info) VALUES ($1, $2) \
    ON CONFLICT (name) DO NOTHING RETURNING number) \
    INSERT INTO span (session, source, first, until) \
    SELECT number, number, 0, 9223372036854775807 FROM new";
const FIND: &str = "SELECT number, worker, epoch FROM session WHERE name = $1";
const CLAIM: &str = "UPDATE session SET worker = $2, epoch = epoch + 1 \
    WHERE number = $1 AND epoch = $3 AND worker IS NOT DISTINCT FROM $4 RETURNING info";
/// Maximum number of changes of a session's row while it is being opened.
const MAX_ATTEMPTS: usize = 20;

/// The owner of a session, from its row.
#[derive(Clone, Copy)]
pub(super) struct Owner {
    pub(super) number: i64,
    pub(super) worker: Option<i32>,
    pub(super) epoch: i64,
}

/// A session that this store owns. It is released on drop.
pub(super) struct Claim {
    pub(super) number: i64,
    pub(super) epoch: i64,
    store: Arc<Store>,
    orders: UnboundedSender<Order>,
}

impl Claim {
    /// Releases the session, unless it was released before. `done` receives a message when other
    /// stores can open the session; it is dropped if the session was released before.
    pub(super) fn release(&self, done: Option<oneshot::Sender<()>>) {
        let (number, epoch) = (self.number, self.epoch);
        if self.store.forget(number, epoch) {
            let _ = self.orders.send(Order::Release { number, epoch, done }); // or the lease ends
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.release(None);
    }
}

/// A session reserved among the open ones until it is claimed. A failed claim must not be released:
/// the next claim has the same epoch. If the server has made the claim despite the failure, the
/// next renewal of the lease releases it.
struct Reserved<'s> {
    number: i64,
    epoch: i64,
    store: &'s Store,
    is_claimed: bool,
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        if !self.is_claimed {
            self.store.forget(self.number, self.epoch);
        }
    }
}

/// Returns the SQL condition that the `worker` row belongs to a live worker.
pub(super) fn is_alive() -> String {
    format!(
        "(expires > clock_timestamp() AND NOT (server = pg_postmaster_start_time() \
         AND pg_try_advisory_xact_lock_shared({LOCK_CLASS}, id)))"
    )
}

/// Returns the row of a session, or `None` if the session does not exist.
pub(super) async fn find(client: &Client, name: &str) -> Result<Option<Owner>, StoreError> {
    let row = client.query_opt(FIND, &[&to_text(name)]).await?;
    Ok(row.map(|row| Owner { number: row.get(0), worker: row.get(1), epoch: row.get(2) }))
}

impl Store {
    /// Returns whether a session has a live owner.
    ///
    /// An owner is alive while its lease runs. It is dead before that if its advisory lock is free:
    /// its process has ended. A free lock counts only at the server start at which the owner took
    /// it: after a restart or a fail-over, the owner may not have reconnected yet.
    pub(super) async fn is_owned(&self, client: &Client, owner: Owner) -> Result<bool, StoreError> {
        let Some(worker) = owner.worker else {
            return Ok(false);
        };
        if worker == self.worker {
            return Ok(self.has(owner.number, owner.epoch));
        }
        let alive = format!("SELECT count(*) FROM worker WHERE id = $1 AND {}", is_alive());
        Ok(client.query_one(&alive, &[&worker]).await?.get::<_, i64>(0) > 0)
    }

    /// Returns whether the session of this name has a live owner.
    pub(super) async fn in_use(&self, name: &str) -> Result<bool, StoreError> {
        let attempt = || async {
            let client = self.client().await?;
            match find(&client, name).await? {
                Some(owner) => self.is_owned(&client, owner).await,
                None => Ok(false),
            }
        };
        self.repeat(attempt).await
    }

    /// Fails with [`MemoryError::InUse`] if a session has a live owner.
    pub(super) async fn ensure_free(
        &self,
        client: &Client,
        owner: Owner,
        name: &str,
    ) -> Result<(), StoreError> {
        match self.is_owned(client, owner).await? {
            true => Err(MemoryError::InUse(name.into()).into()),
            false => Ok(()),
        }
    }
}

/// Makes a store the owner of a session, which is created if it is missing.
pub(super) async fn open(
    store: &Arc<Store>,
    orders: &UnboundedSender<Order>,
    name: &str,
    signals: &Signals,
) -> Result<(Claim, SessionInfo), StoreError> {
    let attempt = || async {
        let client = store.client().await?;
        claim(store, orders, &client, name, signals).await
    };
    store.repeat(attempt).await
}

async fn claim(
    store: &Arc<Store>,
    orders: &UnboundedSender<Order>,
    client: &Client,
    name: &str,
    signals: &Signals,
) -> Result<(Claim, SessionInfo), StoreError> {
    let in_use = || StoreError::Refused(MemoryError::InUse(name.into()));
    let empty = codec::encode(&SessionInfo::new(name))?;
    for _ in 0..MAX_ATTEMPTS {
        let Some(owner) = find(client, name).await? else {
            client.execute(INSERT, &[&to_text(name), &empty]).await?;
            continue;
        };
        store.ensure_free(client, owner, name).await?;
        let (number, epoch) = (owner.number, owner.epoch + 1);
        match store.open().entry(number) {
            Entry::Occupied(_) => return Err(in_use()),
            Entry::Vacant(entry) => {
                entry.insert(Open { epoch, is_opened: false, signals: signals.clone() });
            }
        }
        let mut reserved = Reserved { number, epoch, store, is_claimed: false };
        let seen: Params<'_> = &[&number, &store.worker, &owner.epoch, &owner.worker];
        let Some(row) = client.query_opt(CLAIM, seen).await? else {
            continue; // another process was faster
        };
        if let Some(open) = store.open().get_mut(&number).filter(|open| open.epoch == epoch) {
            open.is_opened = true;
        }
        if owner.worker.is_some_and(|worker| worker != store.worker) {
            store.takeovers.fetch_add(1, Ordering::Relaxed);
        }
        let info = codec::decode(row.get::<_, &str>(0).as_bytes());
        let what = || format!("the description of the session `{name}`");
        let info: SessionInfo = info.map_err(|why| not_understood(&what(), &why))?;
        reserved.is_claimed = true;
        let claim = Claim { number, epoch, store: store.clone(), orders: orders.clone() };
        return Ok((claim, info));
    }
    Err(in_use())
}
