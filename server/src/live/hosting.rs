//! A worker's side of a cluster: opening the sessions that a placement assigns to it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;
use loopwright_core::AgentHandle;
use loopwright_core::log::MemoryError;
use loopwright_durable::{ClusterError, Host, Hosted};
use tokio::time::sleep;

use super::slots::Slots;
use super::{LiveSessions, Parts};
use crate::error::{ApiError, ErrorKind};

/// The time that a session assigned by a placement stays open without work or readers.
const IDLE_TIMEOUT: Duration = Duration::from_secs(2);
/// The interval of attempts to close a session.
const CLOSE_INTERVAL: Duration = Duration::from_millis(250);
/// The interval of attempts to close a session while the server shuts down.
const DRAIN_INTERVAL: Duration = Duration::from_millis(20);

/// The cluster's access to the sessions of this worker.
pub(crate) struct SessionHost(Weak<Slots>);

impl LiveSessions {
    /// Returns the host of sessions for a cluster.
    pub(crate) fn host(&self) -> Arc<SessionHost> {
        Arc::new(SessionHost(Arc::downgrade(&self.0)))
    }

    /// Returns the length of a session's log, or 0 if it cannot be read.
    async fn entries(&self, id: &str) -> u64 {
        self.0.parts.store.session(id).await.map_or(0, |info| info.entries)
    }

    /// Empties the slot of a session that is no longer open, and returns how the session ended.
    async fn end_of(&self, id: &str) -> Hosted {
        let mut slot = self.0.lock(id).await;
        let ended = slot.take();
        let has_moved = ended.is_some() || self.0.parts.cluster.hand_over().has_started();
        if let Some(ended) = ended {
            ended.close().await;
        }
        // An empty slot means that the session was idle and was closed to make room.
        if has_moved { Hosted::HandedOver } else { Hosted::Closed }
    }

    /// Closes an idle session, even if it has readers. Returns whether it is closed.
    async fn close_idle(&self, id: &str) -> bool {
        let mut slot = self.0.lock(id).await;
        if let Some(session) = slot.session()
            && !session.has_ended()
            && session.is_running().await
        {
            return false;
        }
        if let Some(session) = slot.take() {
            session.close().await;
        }
        true
    }
}

impl SessionHost {
    fn sessions(&self) -> Result<LiveSessions, ClusterError> {
        self.0.upgrade().map(LiveSessions).ok_or(ClusterError::Draining)
    }
}

#[async_trait]
impl Host for SessionHost {
    async fn host(&self, session: &str) -> Result<Hosted, ClusterError> {
        let sessions = self.sessions()?;
        let Parts { cluster, .. } = &sessions.0.parts;
        if cluster.hand_over().has_started() {
            return Err(ClusterError::Draining);
        }
        let before = sessions.entries(session).await;
        match sessions.lease_if(session, true).await {
            Ok(Some(lease)) => drop(lease),
            Ok(None) => return Ok(Hosted::InUse),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Hosted::Closed),
            Err(error) => return Err(cluster_error(error, sessions.count())),
        }
        // A session that turns out to have no work is closed at once: a placement may call again
        // for each input that an earlier opening has taken.
        let mut timeout = Duration::ZERO;
        loop {
            if let Some(handle) = sessions.peek(session).await {
                handle.wait_for_idle().await;
            } else {
                return Ok(sessions.end_of(session).await);
            }
            if timeout.is_zero() && sessions.entries(session).await > before + 1 {
                timeout = IDLE_TIMEOUT;
            }
            if sessions.0.close_unused(session, timeout).await {
                return Ok(Hosted::Closed);
            }
            sleep(CLOSE_INTERVAL).await;
        }
    }

    async fn create(&self, session: &str) -> Result<(), ClusterError> {
        // Only clients create sessions, with settings.
        Err(MemoryError::NoSession(session.into()).into())
    }

    async fn open_session(&self, session: &str) -> Option<AgentHandle> {
        self.sessions().ok()?.peek(session).await
    }

    async fn drain(&self) {
        let Ok(sessions) = self.sessions() else { return };
        sessions.0.parts.cluster.hand_over().start();
        let close = async {
            loop {
                let open: Vec<Arc<str>> = sessions.0.by_id().keys().cloned().collect();
                let closed = join_all(open.iter().map(|id| sessions.close_idle(id))).await;
                if closed.into_iter().all(|is_closed| is_closed) {
                    return;
                }
                sleep(DRAIN_INTERVAL).await;
            }
        };
        // A turn may take longer than the process has.
        tokio::join!(sessions.note_end(), close);
    }
}

fn cluster_error(error: ApiError, open: usize) -> ClusterError {
    match error.kind() {
        ErrorKind::TooMany => ClusterError::Full(open),
        ErrorKind::Internal => MemoryError::Failed(error.to_string().into()).into(),
        _ => ClusterError::Host(error.to_string()),
    }
}
