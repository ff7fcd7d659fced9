//! A session that is open, and what keeps it open.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use loopwright_core::AgentHandle;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::backlog::SharedBacklog;
use crate::run_quota::Run;

/// A session that is open.
pub(super) struct OpenSession {
    pub(super) handle: AgentHandle,
    /// Cloned by each [`Lease`].
    pub(super) leases: Arc<Leases>,
    pub(super) last_used: Instant,
    /// When it was last tried to distil facts from it.
    #[cfg(feature = "long-term")]
    pub(super) distilled: Option<Instant>,
    pub(super) run: CurrentRun,
    pub(super) backlog: SharedBacklog,
    /// Ends when the session is closed.
    pub(super) watcher: JoinHandle<()>,
    pub(super) _capacity: OwnedSemaphorePermit,
}

/// A session's run that holds a permit, if there is one.
pub(super) type CurrentRun = Arc<tokio::sync::Mutex<Weak<Run>>>;

/// Keeps a session open.
pub(crate) struct Lease {
    pub(crate) handle: AgentHandle,
    pub(crate) guard: LeaseGuard,
    pub(crate) backlog: SharedBacklog,
    pub(super) run: CurrentRun,
}

/// Keeps a session open, without a handle that would keep it from being deleted.
pub(crate) struct LeaseGuard(pub(super) Arc<Leases>);

/// Counts the leases of a session by its references.
#[derive(Default)]
pub(super) struct Leases {
    /// Whether the session is closed only to be opened again.
    pub(super) reopens: AtomicBool,
}

impl LeaseGuard {
    /// Returns whether the session was closed only to be opened again, with other settings.
    pub(crate) fn reopens(&self) -> bool {
        self.0.reopens.load(Ordering::Relaxed)
    }
}

impl OpenSession {
    /// Returns whether there is no lease.
    pub(super) fn is_unused(&self) -> bool {
        Arc::strong_count(&self.leases) == 1
    }

    /// Returns whether the session has ended because another process has taken it over
    /// or has asked for it.
    pub(super) fn has_ended(&self) -> bool {
        self.handle.has_ended() || self.watcher.is_finished()
    }

    /// Asks the session itself, which knows all input that it has accepted.
    pub(super) async fn is_running(&self) -> bool {
        self.handle.state().await.is_ok_and(|state| state.is_running)
    }

    /// Waits until the session is closed.
    pub(super) async fn close(self) {
        let OpenSession { handle, watcher, _capacity, .. } = self;
        drop(handle);
        let _ = watcher.await; // it neither panics nor is cancelled
    }
}
