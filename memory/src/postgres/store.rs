//! The state of a store, and the repetition of operations.

use std::collections::HashMap;
use std::sync::atomic::AtomicI64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use deadpool_postgres::Client;
use futures::future::join_all;
use loopwright_core::error::MemoryError;
use tokio::sync::{Notify, watch};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::config::Connections;
use super::error::StoreError;

/// Time for which an operation is repeated while the server cannot be reached.
const RETRY_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause after the first failure; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const MAX_PAUSE: Duration = Duration::from_millis(500);

/// The first half of the keys of advisory locks, unique to this schema. The second half is the
/// number of a worker.
pub(super) const LOCK_CLASS: &str = "('worker'::regclass::oid::bigint - 2147483648)::integer";

/// The parameters of a statement.
pub(super) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// The state of an open store.
pub(super) struct Store {
    pub(super) connections: Connections,
    /// The number of this store among the owners of sessions.
    pub(super) worker: i32,
    /// The sessions that are open here, by their numbers.
    open: Mutex<HashMap<i64, Open>>,
    /// The address for other workers; empty if this one has not set it.
    address: Mutex<String>,
    /// The number of sessions taken over from dead workers.
    pub(super) takeovers: AtomicI64,
}

/// A session that this store has open.
pub(super) struct Open {
    pub(super) epoch: i64,
    /// `false` while the store has not yet read that it owns the session.
    pub(super) is_opened: bool,
    pub(super) signals: Signals,
}

/// The signals for an open session.
#[derive(Clone, Default)]
pub(super) struct Signals {
    /// Notified when an input may have been posted.
    pub(super) posted: Arc<Notify>,
    /// `true` when the session belongs to another owner.
    pub(super) lost: Arc<watch::Sender<bool>>,
}

impl Store {
    pub(super) fn new(connections: Connections, worker: i32) -> Self {
        Store {
            connections,
            worker,
            open: Mutex::default(),
            address: Mutex::default(),
            takeovers: AtomicI64::new(0),
        }
    }

    /// Returns the address of this worker.
    pub(super) fn address(&self) -> MutexGuard<'_, String> {
        self.address.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the sessions that are open.
    pub(super) fn open(&self) -> MutexGuard<'_, HashMap<i64, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a session is open here with this epoch.
    pub(super) fn has(&self, number: i64, epoch: i64) -> bool {
        self.open().get(&number).is_some_and(|open| open.epoch == epoch)
    }

    /// Removes a session that is no longer open here. Returns `false` if it was not open.
    pub(super) fn forget(&self, number: i64, epoch: i64) -> bool {
        let mut open = self.open();
        let is_it = open.get(&number).is_some_and(|open| open.epoch == epoch);
        is_it && open.remove(&number).is_some()
    }

    /// Notifies a session that it belongs to another owner.
    pub(super) fn lose(&self, number: i64, epoch: i64) {
        let mut open = self.open();
        if open.get(&number).is_some_and(|open| open.epoch == epoch)
            && let Some(lost) = open.remove(&number)
        {
            lost.signals.lost.send_replace(true);
        }
    }

    /// Notifies all sessions that they may belong to other owners.
    pub(super) fn lose_all(&self) {
        for (_, open) in self.open().drain() {
            open.signals.lost.send_replace(true);
        }
    }

    /// Notifies a session of a posted input. Returns `false` if it is not open here.
    pub(super) fn notify(&self, number: i64) -> bool {
        let posted = self.open().get(&number).map(|open| open.signals.posted.clone());
        posted.is_some_and(|posted| {
            posted.notify_one();
            true
        })
    }

    /// Notifies all sessions that inputs may have been posted.
    pub(super) fn notify_all(&self) {
        self.open().values().for_each(|open| open.signals.posted.notify_one());
    }

    /// Returns a connection.
    pub(super) async fn client(&self) -> Result<Client, StoreError> {
        Ok(self.connections.pool.get().await?)
    }

    /// Runs a statement, and repeats it while the server cannot be reached.
    pub(super) async fn query(
        &self,
        sql: &str,
        params: Params<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        self.query_with(sql, params, true).await
    }

    /// Runs a statement, and repeats it while the server cannot be reached. Without `is_cached` it
    /// is planned for these parameters.
    pub(super) async fn query_with(
        &self,
        sql: &str,
        params: Params<'_>,
        is_cached: bool,
    ) -> Result<Vec<Row>, StoreError> {
        let attempt = || async {
            let client = self.client().await?;
            let statement = match is_cached {
                true => client.prepare_cached(sql).await?,
                false => client.prepare(sql).await?,
            };
            Ok(client.query(&statement, params).await?)
        };
        self.repeat(attempt).await
    }

    /// Runs statements in one transaction, and repeats it while the server cannot be reached.
    /// Returns the rows of the last statement. They are sent without waiting for each other.
    pub(super) async fn transact(
        &self,
        begin: &str,
        statements: &[(&str, Params<'_>)],
    ) -> Result<Vec<Row>, StoreError> {
        let attempt = || async {
            let client = self.client().await?;
            let mut prepared = Vec::with_capacity(statements.len());
            for (sql, params) in statements {
                prepared.push((client.prepare_cached(sql).await?, *params));
            }
            let queries = prepared.iter().map(|(sql, params)| client.query(sql, params));
            let (started, results, committed) = futures::join!(
                client.batch_execute(begin),
                join_all(queries),
                client.batch_execute("COMMIT"),
            );
            started?;
            // The first error causes the others.
            let mut results = results.into_iter().collect::<Result<Vec<_>, _>>()?;
            committed?;
            Ok(results.pop().unwrap_or_default())
        };
        self.repeat(attempt).await
    }

    /// Runs an operation, and repeats it while the server cannot be reached.
    pub(super) async fn repeat<T, F>(&self, attempt: impl Fn() -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let mut retries = Retries::default();
        loop {
            match attempt().await {
                Err(error) if error.is_transient() => {
                    // The cause of one broken connection has probably broken the others too.
                    self.connections.pool.retain(|_, _| false);
                    if !retries.pause().await {
                        return Err(error);
                    }
                }
                result => return result,
            }
        }
    }

    /// Returns the error for a caller.
    pub(super) fn error(&self, error: StoreError) -> MemoryError {
        error.into_memory_error(&self.connections.server)
    }
}

/// Pauses between attempts, for ten seconds.
pub(super) struct Retries {
    end: Instant,
    next: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Retries { end: Instant::now() + RETRY_TIMEOUT, next: FIRST_PAUSE }
    }
}

impl Retries {
    /// Pauses before the next attempt. Returns `false` if no time remains for it.
    pub(super) async fn pause(&mut self) -> bool {
        if Instant::now() + self.next > self.end {
            return false;
        }
        tokio::time::sleep(self.next).await;
        self.next = (self.next * 2).min(MAX_PAUSE);
        true
    }
}
