//! An open session, and the leases that keep it open.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use loopwright_core::AgentHandle;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::limits::run_quota::Run;
use crate::streams::backlog::SharedBacklog;

/// An open session.
pub(super) struct OpenSession {
    pub(super) handle: AgentHandle,
    /// The leases of the session. Each [`Lease`] has a clone.
    pub(super) leases: Arc<Leases>,
    pub(super) last_used: Instant,
    /// The time of the last attempt to distil facts from it.
    #[cfg(feature = "long-term")]
    pub(super) distilled: Option<Instant>,
    pub(super) run: CurrentRun,
    pub(super) backlog: SharedBacklog,
    /// The task that ends when the session is closed.
    pub(super) watcher: JoinHandle<()>,
    pub(super) _capacity: OwnedSemaphorePermit,
}

/// The run of a session that holds a permit, if there is one.
pub(super) type CurrentRun = Arc<tokio::sync::Mutex<Weak<Run>>>;

/// A lease: it keeps a session open.
pub(crate) struct Lease {
    pub(crate) handle: AgentHandle,
    pub(crate) guard: LeaseGuard,
    pub(crate) backlog: SharedBacklog,
    pub(super) run: CurrentRun,
}

/// A lease without a handle. It keeps a session open, and does not prevent its deletion.
pub(crate) struct LeaseGuard(pub(super) Arc<Leases>);

/// The leases of a session, counted by references.
#[derive(Default)]
pub(super) struct Leases {
    /// `true` if the session is closed only to be reopened.
    pub(super) reopens: AtomicBool,
}

impl LeaseGuard {
    /// Returns whether the session was closed only to be reopened with other settings.
    pub(crate) fn reopens(&self) -> bool {
        self.0.reopens.load(Ordering::Relaxed)
    }
}

impl OpenSession {
    /// Returns whether there are no leases.
    pub(super) fn is_unused(&self) -> bool {
        Arc::strong_count(&self.leases) == 1
    }

    /// Returns whether the session has ended because another process has taken it over or asked for
    /// it.
    pub(super) fn has_ended(&self) -> bool {
        self.handle.has_ended() || self.watcher.is_finished()
    }

    /// Returns whether a run is in progress. Asks the session, which knows all accepted inputs.
    pub(super) async fn is_running(&self) -> bool {
        self.handle.state().await.is_ok_and(|state| state.is_running)
    }

    /// Closes the session and waits for its end.
    pub(super) async fn close(self) {
        let OpenSession { handle, watcher, _capacity, .. } = self;
        drop(handle);
        let _ = watcher.await; // neither panics nor is cancelled
    }
}
