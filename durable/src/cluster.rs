//! [`Cluster`]: one of the workers that share a store.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures::StreamExt;
use futures::stream::BoxStream;
use loopwright_core::SessionStore;
use loopwright_core::error::Failure;
use loopwright_core::event::Envelope;
use loopwright_core::log::{MemoryError, PendingPage, PendingQuery, Worker as WorkerInfo};

use crate::agents::Agents;
use crate::error::ClusterError;
use crate::host::Host;
use crate::hosting::Hosting;
use crate::peers::{self, Peers};
use crate::placement::{Leases, Placement};
use crate::session::ClusterSession;
use crate::worker::Worker;

/// Default time for which a session without work stays open.
const DEFAULT_IDLE_TIMEOUT: Duration = Duration::from_secs(2);
/// Default maximum of open sessions per worker.
const DEFAULT_MAX_SESSIONS: usize = 5_000;

/// One of the workers that share a store. Clones are the same worker.
///
/// See the [crate](crate) for an example. A dropped cluster continues until its process ends;
/// [`drain`](Cluster::drain) shuts it down.
#[derive(Clone)]
pub struct Cluster {
    worker: Arc<Worker>,
    token: Option<Arc<str>>,
}

/// The settings of a [`Cluster`].
pub struct ClusterBuilder {
    store: Arc<dyn SessionStore>,
    host: Opens,
    placement: Arc<dyn Placement>,
    address: Option<Arc<str>>,
    token: Option<Arc<str>>,
    idle_timeout: Duration,
    max_sessions: usize,
}

/// The opener of sessions.
enum Opens {
    Agents(Box<dyn Agents>),
    Host(Arc<dyn Host>),
}

impl Cluster {
    /// Returns a builder for a worker that opens sessions of this store with these agents.
    pub fn builder(store: impl SessionStore + 'static, agents: impl Agents) -> ClusterBuilder {
        ClusterBuilder::new(Arc::new(store), Opens::Agents(Box::new(agents)))
    }

    /// Returns a builder for a worker of an application that opens sessions of this store itself.
    pub fn with_host(store: Arc<dyn SessionStore>, host: Arc<dyn Host>) -> ClusterBuilder {
        ClusterBuilder::new(store, Opens::Host(host))
    }

    /// Returns a session, which may be missing. Neither reads nor opens anything.
    pub fn session(&self, id: impl Into<Arc<str>>) -> ClusterSession {
        ClusterSession::new(self.worker.clone(), id.into())
    }

    /// Returns a page of the pending actions of all sessions, oldest first.
    ///
    /// # Errors
    ///
    /// Fails if the store fails.
    pub async fn pending(&self, query: &PendingQuery) -> Result<PendingPage, ClusterError> {
        Ok(self.worker.store.pending(query).await?)
    }

    /// Returns the workers that share the store, including workers that died recently. The list is
    /// empty if the store does not know workers.
    ///
    /// # Errors
    ///
    /// Fails if the store fails.
    pub async fn workers(&self) -> Result<Vec<WorkerInfo>, ClusterError> {
        match self.worker.store.workers() {
            Some(workers) => Ok(workers.workers().await?),
            None => Ok(Vec::new()),
        }
    }

    /// Returns the route from which other workers read the events of sessions that are open here.
    /// It must be reachable under the worker's [address](ClusterBuilder::reachable_at), at
    /// [`EVENTS_PATH`](crate::EVENTS_PATH). Requests must have the [token](ClusterBuilder::token),
    /// if one is set.
    pub fn router(&self) -> Router {
        peers::router(self.worker.host.clone(), self.token.clone())
    }

    /// Causes a session to be hosted soon, by any worker, because an input was posted to it.
    ///
    /// # Errors
    ///
    /// Fails as [`Placement::wake`] does.
    pub async fn wake(&self, session: &str) -> Result<(), ClusterError> {
        Ok(self.worker.placement.wake(session).await?)
    }

    /// Causes a session to be hosted at a time, in milliseconds since 1970, by any worker, because
    /// a schedule was added to it. If this fails, a sweep finds the schedule.
    ///
    /// # Errors
    ///
    /// Fails as [`Placement::wake_at`] does.
    pub async fn wake_at(&self, session: &str, time: u64) -> Result<(), ClusterError> {
        Ok(self.worker.placement.wake_at(session, time).await?)
    }

    /// Returns the events of a session that another worker has open, and the length of its log
    /// before them. Returns `None` if no other worker has it open, or if that worker cannot be
    /// reached. With `tree`, the events include the events of sub-agents. The stream ends when the
    /// session moves; see [`ClusterSession::events`] for a stream that continues.
    ///
    /// # Errors
    ///
    /// Fails if the store fails.
    pub async fn join_peer(
        &self,
        session: &str,
        tree: bool,
    ) -> Result<Option<(u64, BoxStream<'static, Arc<Envelope>>)>, ClusterError> {
        let joined = self.worker.join_peer(session, tree).await?;
        Ok(joined.map(|(entries, events)| (entries, events.into_stream().boxed())))
    }

    /// Returns whether another worker with an address has a session open.
    ///
    /// # Errors
    ///
    /// Fails if the store fails.
    pub async fn is_open_at_peer(&self, session: &str) -> Result<bool, ClusterError> {
        Ok(self.worker.peer_address(session).await?.is_some())
    }

    /// Shuts the worker down: opens no further sessions, and hands over open ones, each between two
    /// turns. Resolves when all are closed, or after `grace`. Other workers take over the rest when
    /// this process has ended. Inputs can still be sent, and events read.
    pub async fn drain(&self, grace: Duration) {
        let drained = async {
            // Sessions that are handed over must not return to this worker.
            tokio::join!(self.worker.host.drain(), self.worker.placement.stop());
        };
        if tokio::time::timeout(grace, drained).await.is_err() {
            tracing::warn!("sessions are still open; other workers take them over");
        }
    }

    /// Returns the store.
    pub fn store(&self) -> &Arc<dyn SessionStore> {
        &self.worker.store
    }
}

impl ClusterBuilder {
    fn new(store: Arc<dyn SessionStore>, host: Opens) -> Self {
        ClusterBuilder {
            store,
            host,
            placement: Arc::new(Leases::new()),
            address: None,
            token: None,
            idle_timeout: DEFAULT_IDLE_TIMEOUT,
            max_sessions: DEFAULT_MAX_SESSIONS,
        }
    }

    /// Sets the placement, which decides the worker of a session. [`Leases`] by default.
    pub fn placement(mut self, placement: impl Placement) -> Self {
        self.placement = Arc::new(placement);
        self
    }

    /// Sets the URL under which other workers reach the [router](Cluster::router) of this one, such
    /// as `http://10.0.0.7:7777`. Without it, readers at other workers get no deltas of the
    /// sessions that are open here.
    pub fn reachable_at(mut self, url: impl Into<Arc<str>>) -> Self {
        self.address = Some(url.into());
        self
    }

    /// Sets the token with which workers authenticate to each other. All workers need the same one.
    pub fn token(mut self, token: impl Into<Arc<str>>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Sets the time for which a session without work stays open, 2 s by default. An application
    /// that [hosts](Cluster::with_host) sessions itself has its own rule.
    pub fn idle_timeout(mut self, idle_timeout: Duration) -> Self {
        self.idle_timeout = idle_timeout;
        self
    }

    /// Sets the maximum of open sessions of this worker, 5,000 by default. Other workers take the
    /// rest.
    pub fn max_sessions(mut self, sessions: usize) -> Self {
        self.max_sessions = sessions;
        self
    }

    /// Starts the worker, which hosts sessions from then on.
    ///
    /// # Errors
    ///
    /// Fails if the store cannot be written to, or the placement cannot be started.
    pub async fn start(self) -> Result<Cluster, ClusterError> {
        let ClusterBuilder { store, host, placement, address, token, idle_timeout, max_sessions } =
            self;
        let host = match host {
            Opens::Host(host) => host,
            Opens::Agents(agents) => {
                Arc::new(Hosting::new(store.clone(), agents, idle_timeout, max_sessions))
            }
        };
        let peers = Peers::new(token.clone()).map_err(|error| {
            let why = format!("the HTTP client of the cluster cannot be built: {error}");
            MemoryError::Failed(Failure::new(why).with_source(error))
        })?;
        if let (Some(workers), Some(address)) = (store.workers(), &address) {
            workers.announce(address).await?;
        }
        let worker = Arc::new(Worker { store, host, placement, peers, address });
        worker.placement.start(worker.clone()).await?;
        Ok(Cluster { worker, token })
    }
}
