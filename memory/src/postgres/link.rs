//! The connection that says that a store is alive: it renews the lease, holds the advisory lock,
//! frees sessions, and carries the hints about posted inputs.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_postgres::{AsyncMessage, Client};

use super::config::Connections;
use super::error::StoreError;
use super::store::{LOCK_CLASS, Store};

/// The parts of a lease between renewals.
const RENEWALS: u32 = 4;
/// How long hints are collected. Each is a commit that all others wait for.
const HINT_INTERVAL: Duration = Duration::from_millis(10);
/// The most sessions in a hint, which has at most 8,000 bytes.
const HINT_SESSIONS: usize = 350;
/// The pause before the store connects again.
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);

/// What the connection is asked for.
pub(super) enum Order {
    /// Frees a session.
    Release { number: i64, epoch: i64, done: Option<oneshot::Sender<()>> },
    /// Hints that an input was posted to a session that is not open here.
    Posted(i64),
}

/// The state of the connection.
pub(super) struct Link {
    store: Arc<Store>,
    schema: String,
    lease: Duration,
    orders: UnboundedReceiver<Order>,
    /// The sessions to free, each with who waits for it.
    releases: Vec<(i64, i64, Option<oneshot::Sender<()>>)>,
    hints: BTreeSet<i64>,
    has_lock: bool,
    /// The start of the last renewal that succeeded.
    renewed: Instant,
}

/// Whether the store is still open.
enum End {
    Closed,
    Disconnected,
}

/// Returns a number for a new store among the owners of sessions.
pub(super) async fn register(client: &Client) -> Result<i32, StoreError> {
    // The rows of stores that ended long ago. A session of one is free without its row.
    let old = "DELETE FROM worker WHERE expires < clock_timestamp() - interval '1 day'";
    client.execute(old, &[]).await?;
    let id = "SELECT nextval(pg_get_serial_sequence('worker', 'id'))::integer";
    Ok(client.query_one(id, &[]).await?.get(0))
}

impl Link {
    /// Prepares the link of a store, which connects when it runs.
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

    /// Connects and renews the lease until the store is dropped. The first connection was made
    /// by [`connect`](Link::connect).
    pub(super) async fn run(mut self, first: Client) {
        let mut client = Some(first);
        loop {
            if let Some(client) = client.take() {
                match self.serve(&client).await {
                    Ok(End::Closed) => return,
                    Ok(End::Disconnected) => {}
                    Err(error) => {
                        let error = self.store.error(error);
                        tracing::warn!(%error, "the lease on sessions could not be renewed");
                    }
                }
                self.has_lock = false;
            }
            if self.orders.is_closed() && self.orders.is_empty() {
                return;
            }
            self.check_lease();
            match timeout(self.lease / RENEWALS, self.connect()).await {
                Ok(Ok(connected)) => client = Some(connected),
                Ok(Err(error)) => {
                    tracing::debug!(error = %self.store.error(error), "cannot connect");
                    sleep(RECONNECT_PAUSE).await;
                }
                Err(_) => {}
            }
        }
    }

    /// Tells the sessions that they may have been taken over, if the lease has ended.
    fn check_lease(&self) {
        // Earlier than others see it: their clock is the server's, and this one's may be slower.
        if self.renewed.elapsed() > self.lease * 4 / 5 {
            self.store.lose_all();
        }
    }

    /// Connects, takes the lock and the lease.
    pub(super) async fn connect(&mut self) -> Result<Client, StoreError> {
        let Connections { config, tls, .. } = &self.store.connections;
        let (client, mut connection) = config.connect(tls.clone()).await?;
        let store = self.store.clone();
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
                if let AsyncMessage::Notification(hint) = message {
                    let sessions = hint.payload().split(',').filter_map(|text| text.parse().ok());
                    for number in sessions {
                        store.notify(number);
                    }
                }
            }
        });
        // Nothing that it writes is missed after a crash of the server.
        client.batch_execute("SET synchronous_commit = off").await?;
        client.batch_execute(&format!("LISTEN {}", self.schema)).await?;
        self.renew(&client).await?;
        self.store.notify_all(); // hints may have been missed
        Ok(client)
    }

    async fn serve(&mut self, client: &Client) -> Result<End, StoreError> {
        let mut renewals = interval(self.lease / RENEWALS);
        renewals.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut hints = interval(HINT_INTERVAL);
        hints.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.release(client).await?;
        loop {
            tokio::select! {
                order = self.orders.recv() => match order {
                    Some(order) => {
                        self.take(order);
                        while let Ok(order) = self.orders.try_recv() {
                            self.take(order);
                        }
                        self.release(client).await?;
                    }
                    None => {
                        self.hint(client).await?;
                        let leave = "DELETE FROM worker WHERE id = $1";
                        client.execute(leave, &[&self.store.worker]).await?;
                        return Ok(End::Closed);
                    }
                },
                _ = renewals.tick() => {
                    match timeout(self.lease / 2, self.renew(client)).await {
                        Ok(renewed) => renewed?,
                        Err(_) => return Ok(End::Disconnected),
                    }
                }
                _ = hints.tick(), if !self.hints.is_empty() => self.hint(client).await?,
            }
            if client.is_closed() {
                return Ok(End::Disconnected);
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
            // An earlier connection may have it, until the server learns that it is closed.
            let lock = format!("SELECT pg_try_advisory_lock({LOCK_CLASS}, $1)");
            self.has_lock = client.query_one(&lock, &[&worker]).await?.get(0);
        }
        let lease = self.lease.as_secs_f64();
        let renew = "INSERT INTO worker (id, server, expires) OVERRIDING SYSTEM VALUE VALUES \
            ($1, pg_postmaster_start_time(), clock_timestamp() + make_interval(secs => $2)) \
            ON CONFLICT (id) DO UPDATE SET server = excluded.server, expires = excluded.expires";
        self.check_lease();
        client.execute(renew, &[&worker, &lease]).await?;
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

    /// Frees sessions. One without entries is removed.
    async fn release(&mut self, client: &Client) -> Result<(), StoreError> {
        if self.releases.is_empty() {
            return Ok(());
        }
        let numbers: Vec<i64> = self.releases.iter().map(|release| release.0).collect();
        let epochs: Vec<i64> = self.releases.iter().map(|release| release.1).collect();
        let own = "FROM unnest($1::bigint[], $2::bigint[]) AS job (number, epoch) \
            WHERE session.number = job.number AND session.epoch = job.epoch AND worker = $3";
        let from = own.replacen("FROM", "USING", 1);
        let remove = format!("DELETE FROM session {from} AND entries = 0");
        client.execute(&remove, &[&numbers, &epochs, &self.store.worker]).await?;
        let free = format!("UPDATE session SET worker = NULL {own}");
        client.execute(&free, &[&numbers, &epochs, &self.store.worker]).await?;
        for (_, _, done) in self.releases.drain(..) {
            if let Some(done) = done {
                let _ = done.send(()); // unless nobody waits
            }
        }
        Ok(())
    }

    /// Tells the other stores which sessions have new inputs.
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
