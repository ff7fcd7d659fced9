//! The slots of the open sessions. A slot is locked while its session is opened, closed or deleted.
//! The number of slots is bounded.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use loopwright_core::{Principal, SessionStore};
use loopwright_host::Agents;
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};
#[cfg(feature = "long-term")]
use tokio::time::Instant;

#[cfg(feature = "long-term")]
use super::distil;
use super::open_session::OpenSession;
use crate::cluster::ClusterLink;
use crate::error::{ApiError, ErrorKind};
use crate::inbox::ActionWatch;
use crate::limits::daily_budget::DailyBudget;
use crate::limits::run_quota::RunQuota;
use crate::server::drain::Drain;
use crate::telemetry::ServerTelemetry;
use crate::telemetry::metrics::Metrics;

/// The parts of the server that sessions use.
pub(crate) struct Parts {
    pub(crate) agents: Agents,
    pub(crate) store: Arc<dyn SessionStore>,
    /// The principal of sessions without an owner.
    pub(crate) principal: Option<Principal>,
    pub(crate) actions: ActionWatch,
    pub(crate) runs: RunQuota,
    pub(crate) daily_budget: Arc<DailyBudget>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) drain: Drain,
    pub(crate) cluster: ClusterLink,
    pub(crate) telemetry: ServerTelemetry,
}

/// The open sessions, each with a lock of its own.
pub(super) struct Slots {
    pub(super) parts: Parts,
    by_id: Mutex<HashMap<Arc<str>, Slot>>,
    /// One permit for each session that may be open.
    capacity: Arc<Semaphore>,
}

/// A session, if it is open. Locked while the session is opened, closed or deleted.
pub(super) type Slot = Arc<tokio::sync::Mutex<Option<OpenSession>>>;

/// The lock of a slot. When it is dropped, even by a cancelled request, an empty slot is removed.
pub(super) struct SlotGuard {
    sessions: Arc<Slots>,
    id: Arc<str>,
    slot: Option<OwnedMutexGuard<Option<OpenSession>>>,
}

impl Slots {
    /// Creates an empty set with at most `max_open` open sessions.
    pub(super) fn new(parts: Parts, max_open: usize) -> Self {
        let capacity = Arc::new(Semaphore::new(max_open.min(Semaphore::MAX_PERMITS)));
        Slots { parts, by_id: Mutex::default(), capacity }
    }

    pub(super) fn by_id(&self) -> MutexGuard<'_, HashMap<Arc<str>, Slot>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the lock of a session's slot.
    pub(super) async fn lock(self: &Arc<Self>, id: &str) -> SlotGuard {
        let mut guard = SlotGuard { sessions: self.clone(), id: id.into(), slot: None };
        let slot = self.by_id().entry(guard.id.clone()).or_default().clone();
        guard.slot = Some(slot.lock_owned().await);
        guard
    }

    /// Reserves capacity for one more open session, closing an unused one if necessary.
    pub(super) async fn acquire_capacity(
        self: &Arc<Self>,
    ) -> Result<OwnedSemaphorePermit, ApiError> {
        loop {
            if let Ok(permit) = self.capacity.clone().try_acquire_owned() {
                return Ok(permit);
            }
            if !self.close_least_recently_used().await {
                return Err(ApiError::new(
                    ErrorKind::TooMany,
                    "Too many sessions are open, and all are in use: close a page, or wait until a \
                     run has ended.",
                ));
            }
        }
    }

    /// Closes the least recently used session among the unused ones. Returns whether there was one.
    async fn close_least_recently_used(self: &Arc<Self>) -> bool {
        let last_use = |(id, slot): (&Arc<str>, &Slot)| {
            let session = slot.try_lock().ok()?;
            let session = session.as_ref().filter(|session| session.is_unused())?;
            Some((session.last_used, id.clone()))
        };
        let mut unused: Vec<_> = self.by_id().iter().filter_map(last_use).collect();
        unused.sort();
        for (_, id) in unused {
            if self.close_unused(&id, Duration::ZERO).await {
                return true;
            }
        }
        false
    }

    /// Starts to distil facts from a session that is about to be closed. Returns whether it did, so
    /// that the session is closed later. It tries once after each use of the session, so a failed
    /// run does not keep the session open.
    #[cfg(feature = "long-term")]
    pub(super) async fn distil(&self, session: &mut OpenSession) -> bool {
        if session.distilled.is_some_and(|time| time >= session.last_used) {
            return false;
        }
        session.distilled = Some(Instant::now());
        let Parts { agents, store, principal, runs, daily_budget, .. } = &self.parts;
        let (handle, principal) = (&session.handle, principal.as_ref());
        match distil::start(handle, agents, store, principal, runs, daily_budget).await {
            Ok(Some(permit)) => *session.run.lock().await = permit.downgrade(),
            Ok(None) => return false,
            Err(error) => {
                tracing::warn!(%error, "no facts are distilled from a session that ends");
                return false;
            }
        }
        true
    }

    /// Closes a session that has been unused for this long, unless a run is in progress. Facts are
    /// distilled from it first, except when `time` is zero to make room. Returns whether it was
    /// closed.
    pub(super) async fn close_unused(self: &Arc<Self>, id: &str, time: Duration) -> bool {
        let slot = self.by_id().get(id).and_then(|slot| slot.clone().try_lock_owned().ok());
        let Some(slot) = slot else { return false };
        let mut slot = SlotGuard { sessions: self.clone(), id: id.into(), slot: Some(slot) };
        let Some(session) = slot.session() else {
            return false;
        };
        if !session.is_unused() || session.last_used.elapsed() < time || session.is_running().await
        {
            return false;
        }
        #[cfg(feature = "long-term")]
        if !time.is_zero() && self.distil(session).await {
            return false;
        }
        if let Some(session) = slot.take() {
            session.close().await;
        }
        true
    }
}

impl SlotGuard {
    pub(super) fn session(&mut self) -> Option<&mut OpenSession> {
        self.slot.as_deref_mut()?.as_mut()
    }

    pub(super) fn put(&mut self, session: OpenSession) {
        if let Some(slot) = &mut self.slot {
            **slot = Some(session);
        }
    }

    pub(super) fn take(&mut self) -> Option<OpenSession> {
        self.slot.as_mut()?.take()
    }
}

impl Drop for SlotGuard {
    fn drop(&mut self) {
        self.slot = None;
        let mut slots = self.sessions.by_id();
        // Unless the session is open, or a task waits for the lock.
        let unneeded = |slot: &Slot| {
            Arc::strong_count(slot) == 1 && slot.try_lock().is_ok_and(|session| session.is_none())
        };
        if slots.get(&self.id).is_some_and(unneeded) {
            slots.remove(&self.id);
        }
    }
}
