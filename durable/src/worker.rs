//! A worker: the state shared by the parts of a cluster, and the driving of sessions.

use std::sync::Arc;

use async_trait::async_trait;
use loopwright_core::log::{
    CarriedOut, DueSession, Interrupted, MemoryError, SessionQuery, post_due_schedules,
};
use loopwright_core::{Environment, SessionStore, SystemEnvironment};

use crate::driver::{Drive, Driver};
use crate::error::ClusterError;
use crate::host::{Host, Hosted};
use crate::peers::{PeerEvents, Peers};
use crate::placement::Placement;

/// The parts of a worker.
pub(crate) struct Worker {
    pub(crate) store: Arc<dyn SessionStore>,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) placement: Arc<dyn Placement>,
    pub(crate) peers: Peers,
    /// The address for other workers.
    pub(crate) address: Option<Arc<str>>,
}

impl Worker {
    /// Returns the address of another worker that has a session open.
    pub(crate) async fn peer_address(
        &self,
        session: &str,
    ) -> Result<Option<Arc<str>>, MemoryError> {
        let Some(workers) = self.store.workers() else { return Ok(None) };
        let address = workers.address(session).await?;
        let is_usable = |address: &Arc<str>| {
            self.address.as_ref() != Some(address) && !self.peers.has_failed(address)
        };
        Ok(address.filter(is_usable))
    }

    /// Returns the events of a session that another worker has open, and the length of its log
    /// before them.
    pub(crate) async fn join_peer(
        &self,
        session: &str,
        tree: bool,
    ) -> Result<Option<(u64, PeerEvents)>, MemoryError> {
        let Some(address) = self.peer_address(session).await? else { return Ok(None) };
        Ok(self.peers.join(&address, session, tree).await)
    }
}

#[async_trait]
impl Driver for Worker {
    async fn drive(&self, session: &str) -> Result<Drive, ClusterError> {
        match self.host.host(session).await? {
            Hosted::InUse => return Ok(Drive::InUse),
            Hosted::HandedOver => return Ok(Drive::HandedOver),
            Hosted::Closed => {}
        }
        let info = match self.store.session(session).await {
            Err(MemoryError::NoSession(_)) => return Ok(Drive::Closed { next: None }),
            info => info?,
        };
        Ok(Drive::Closed { next: info.wakes_at() })
    }

    async fn post_schedules(&self, session: Option<&str>) -> Result<(), ClusterError> {
        // The input is durable. Without a wake, sweeps find it and the next time.
        let note = |done: CarriedOut| async move {
            let session = done.session;
            if done.is_posted
                && let Err(error) = self.placement.wake(&session).await
            {
                tracing::warn!(session = &*session, %error, "it could not be woken");
            }
            if let Some(next) = done.due_at
                && let Err(error) = self.placement.wake_at(&session, next).await
            {
                tracing::warn!(session = &*session, %error, "no timer could be set for it");
            }
        };
        post_due_schedules(&*self.store, session, Interrupted::Left, note).await?;
        Ok(())
    }

    async fn due(&self, limit: usize) -> Result<Vec<DueSession>, ClusterError> {
        if let Some(workers) = self.store.workers() {
            return Ok(workers.due(limit).await?);
        }
        // A store that does not know workers is shared by few, and its list is short.
        let now = SystemEnvironment.now();
        let query = SessionQuery::new(usize::MAX).brief();
        let mut due = Vec::new();
        for info in self.store.sessions_page(&query).await?.sessions {
            if due.len() < limit
                && info.due_at(now).is_some()
                && self.store.in_use(&info.id).await? != Some(true)
            {
                due.push(DueSession::new(info.id, info.entries));
            }
        }
        Ok(due)
    }

    fn store(&self) -> &Arc<dyn SessionStore> {
        &self.store
    }
}
