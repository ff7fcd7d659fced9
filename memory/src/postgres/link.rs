//! The connection that keeps a store alive: it renews the lease, holds the advisory lock, frees
//! sessions, and carries the hints about posted inputs.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_postgres::{AsyncMessage, Client};

use super::config::Connections;
use super::error::StoreError;
use super::store::{LOCK_CLASS, Params, Store};

/// The number of renewals per lease.
const RENEWALS: u32 = 4;
/// Time for which hints are collected. Sending them is a commit that other senders wait for.
const HINT_INTERVAL: Duration = Duration::from_millis(10);
/// Maximum number of sessions in a hint, whose size PostgreSQL limits to 8,000 bytes.
const HINT_SESSIONS: usize = 350;
/// The pause before the store reconnects.
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);

/// Frees sessions, and removes sessions without entries. Locked rows are skipped: the connection
/// must not wait, and the next renewal frees them. The others are locked in the order of their
/// numbers, as in appends.
const RELEASE: &str = "\
WITH own AS (
    SELECT s.number, s.entries FROM session s
    JOIN unnest($1::bigint[], $2::bigint[]) AS job (number, epoch) ON job.number = s.number
    WHERE s.epoch = job.epoch AND s.worker IS NOT DISTINCT FROM $3
    ORDER BY s.number FOR NO KEY UPDATE OF s SKIP LOCKED
), removed AS (
    DELETE FROM session s USING own WHERE s.number = own.number AND own.entries = 0
)
UPDATE session s SET worker = NULL FROM own WHERE s.number = own.number AND own.entries > 0";

/// A task for the connection.
pub(super) enum Order {
    /// Free a session.
    Release { number: i64, epoch: i64, done: Option<oneshot::Sender<()>> },
    /// Hint that an input was posted to a session that is not open here.
    Posted(i64),
}

/// The state of the connection.
pub(super) struct Link {
    store: Arc<Store>,
    schema: String,
    lease: Duration,
    orders: UnboundedReceiver<Order>,
    /// The sessions to free, each with a channel for the caller that waits.
    releases: Vec<(i64, i64, Option<oneshot::Sender<()>>)>,
    hints: BTreeSet<i64>,
    has_lock: bool,
    /// The start of the last successful renewal.
    renewed: Instant,
}

/// The next task of the connection.
#[derive(Clone, Copy)]
enum Work {
    Renew,
    Release,
    Hint,
    Leave,
}

/// The reason why the link stops serving a connection.
enum End {
    Closed,
    Disconnected,
}

/// Returns a number for a new store among the owners of sessions.
pub(super) async fn register(client: &Client) -> Result<i32, StoreError> {
    // Rows of stores that ended long ago. A session without its owner's row is free.
    let old = "DELETE FROM worker WHERE expires < clock_timestamp() - interval '1 day'";
    client.execute(old, &[]).await?;
    let id = "SELECT nextval(pg_get_serial_sequence('worker', 'id'))::integer";
    Ok(client.query_one(id, &[]).await?.get(0))
}

impl Link {
    /// Prepares the link of a store.
    pub(super) fn new(
        store: Arc<Store>,
        schema: String,
        lease: Duration,
        orders: UnboundedReceiver<Order>,
    ) -> Self {
        Link {
            store,
            schema,
            lease,
            orders,
            releases: Vec::new(),
            hints: BTreeSet::new(),
            has_lock: false,
            renewed: Instant::now(),
        }
    }

    /// Serves the link and renews the lease until the store is dropped. [`connect`](Link::connect)
    /// made the first connection.
    pub(super) async fn run(mut self, first: (Client, JoinHandle<()>)) {
        let mut connected = Some(first);
        loop {
            if let Some((client, driver)) = connected.take() {
                match self.serve(&client, driver).await {
                    Ok(End::Closed) => return,
                    Ok(End::Disconnected) => {}
                    Err(error) => {
                        let error = self.store.error(error);
                        tracing::warn!(%error, "the lease on sessions could not be renewed");
                    }
                }
            }
            if self.orders.is_closed() && self.orders.is_empty() {
                return;
            }
            while let Ok(order) = self.orders.try_recv() {
                self.take(order);
            }
            self.check_lease();
            match timeout(self.store.connections.limit, self.connect()).await {
                Ok(Ok(new)) => connected = Some(new),
                Ok(Err(error)) => {
                    tracing::debug!(error = %self.store.error(error), "cannot connect");
                    sleep(RECONNECT_PAUSE).await;
                }
                Err(_) => {}
            }
        }
    }

    /// Notifies the sessions that they may have been taken over, if the lease has nearly ended.
    /// Callers that wait for a release stop waiting.
    fn check_lease(&mut self) {
        if self.renewed.elapsed() > self.lease * 4 / 5 {
            self.store.lose_all();
            self.releases.iter_mut().for_each(|(_, _, done)| *done = None);
        }
    }

    /// Connects, and takes the lock and the lease.
    pub(super) async fn connect(&mut self) -> Result<(Client, JoinHandle<()>), StoreError> {
        self.has_lock = false; // an earlier connection had it
        let Connections { config, tls, .. } = &self.store.connections;
        let (client, mut connection) = config.connect(tls.clone()).await?;
        let store = self.store.clone();
        let driver = tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
                if let AsyncMessage::Notification(hint) = message {
                    let sessions = hint.payload().split(',').filter_map(|text| text.parse().ok());
                    for number in sessions {
                        store.notify(number);
                    }
                }
            }
        });
        // A crash of the server frees the locks, and a renewal repeats the rest, so nothing need be
        // durable.
        client.batch_execute("SET synchronous_commit = off").await?;
        client.batch_execute(&format!("LISTEN \"{}\"", self.schema)).await?;
        self.renew(&client).await?;
        self.store.notify_all(); // hints may have been missed
        Ok((client, driver))
    }

    async fn serve(
        &mut self,
        client: &Client,
        mut driver: JoinHandle<()>,
    ) -> Result<End, StoreError> {
        let mut renewals = interval(self.lease / RENEWALS);
        renewals.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut hints = interval(HINT_INTERVAL);
        hints.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let work = tokio::select! {
                order = self.orders.recv() => match order {
                    Some(order) => {
                        self.take(order);
                        while let Ok(order) = self.orders.try_recv() {
                            self.take(order);
                        }
                        Work::Release
                    }
                    None => Work::Leave,
                },
                _ = renewals.tick() => Work::Renew,
                _ = hints.tick(), if !self.hints.is_empty() => Work::Hint,
                // The lock is free now: a new connection takes it again.
                _ = &mut driver => return Ok(End::Disconnected),
            };
            // A connection through a cut network never answers.
            match timeout(self.lease / 2, self.perform(client, work)).await {
                Ok(done) => done?,
                Err(_) => return Ok(End::Disconnected),
            }
            if matches!(work, Work::Leave) {
                return Ok(End::Closed);
            }
            if client.is_closed() {
                return Ok(End::Disconnected);
            }
        }
    }

    async fn perform(&mut self, client: &Client, work: Work) -> Result<(), StoreError> {
        match work {
            Work::Renew => {
                self.renew(client).await?;
                self.release(client).await
            }
            Work::Release => self.release(client).await,
            Work::Hint => self.hint(client).await,
            Work::Leave => {
                self.hint(client).await?;
                let leave = "DELETE FROM worker WHERE id = $1";
                client.execute(leave, &[&self.store.worker]).await?;
                Ok(())
            }
        }
    }

    fn take(&mut self, order: Order) {
        match order {
            Order::Release { number, epoch, done } => self.releases.push((number, epoch, done)),
            Order::Posted(number) => drop(self.hints.insert(number)),
        }
    }

    /// Renews the lease, and finds the sessions that other stores have taken over.
    async fn renew(&mut self, client: &Client) -> Result<(), StoreError> {
        let start = Instant::now();
        let worker = self.store.worker;
        if !self.has_lock {
            // An earlier connection may hold it until the server notices that it is closed.
            let lock = format!("SELECT pg_try_advisory_lock({LOCK_CLASS}, $1)");
            self.has_lock = client.query_one(&lock, &[&worker]).await?.get(0);
        }
        let lease = self.lease.as_secs_f64();
        // Without the lock, only the lease proves that this store is alive.
        let renew = "INSERT INTO worker (id, server, expires, address, takeovers) \
            OVERRIDING SYSTEM VALUE VALUES \
            ($1, CASE WHEN $3 THEN pg_postmaster_start_time() ELSE '-infinity' END, \
            clock_timestamp() + make_interval(secs => $2), $4, $5) \
            ON CONFLICT (id) DO UPDATE SET server = excluded.server, expires = excluded.expires, \
            address = excluded.address, takeovers = excluded.takeovers";
        self.check_lease();
        let address = self.store.address().clone();
        let takeovers = self.store.takeovers.load(Ordering::Relaxed);
        let values: Params<'_> = &[&worker, &lease, &self.has_lock, &address, &takeovers];
        client.execute(renew, values).await?;
        let before: Vec<(i64, i64)> = {
            let open = self.store.open();
            let opened = open.iter().filter(|(_, open)| open.is_opened);
            opened.map(|(number, open)| (*number, open.epoch)).collect()
        };
        let own = "SELECT number, epoch FROM session WHERE worker = $1";
        let own = client.query(own, &[&worker]).await?;
        let own: BTreeSet<(i64, i64)> = own.iter().map(|row| (row.get(0), row.get(1))).collect();
        for (number, epoch) in before.iter().filter(|session| !own.contains(session)) {
            self.store.lose(*number, *epoch);
        }
        // Sessions whose release was lost.
        let freed = own.into_iter().filter(|(number, epoch)| !self.store.has(*number, *epoch));
        self.releases.extend(freed.map(|(number, epoch)| (number, epoch, None)));
        self.renewed = start;
        Ok(())
    }

    /// Frees sessions. Sessions without entries are removed.
    async fn release(&mut self, client: &Client) -> Result<(), StoreError> {
        if self.releases.is_empty() {
            return Ok(());
        }
        let numbers: Vec<i64> = self.releases.iter().map(|release| release.0).collect();
        let epochs: Vec<i64> = self.releases.iter().map(|release| release.1).collect();
        client.execute(RELEASE, &[&numbers, &epochs, &self.store.worker]).await?;
        for (_, _, done) in self.releases.drain(..) {
            if let Some(done) = done {
                let _ = done.send(()); // unless nobody waits
            }
        }
        Ok(())
    }

    /// Notifies the other stores of sessions with new inputs.
    async fn hint(&mut self, client: &Client) -> Result<(), StoreError> {
        while !self.hints.is_empty() {
            let some: Vec<i64> = self.hints.iter().take(HINT_SESSIONS).copied().collect();
            let text = some.iter().map(i64::to_string).collect::<Vec<_>>().join(",");
            client.execute("SELECT pg_notify($1, $2)", &[&self.schema, &text]).await?;
            self.hints.retain(|number| !some.contains(number));
        }
        Ok(())
    }
}
