//! [`Leases`]: sessions are hosted by the first worker that sees their work.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use loopwright_core::log::DueSession;
use tokio::time::Instant;

use super::Placement;
use super::background::Background;
use crate::driver::{Drive, Driver};
use crate::error::{ClusterError, PlacementError};

/// Default interval at which the store is searched for sessions without an owner.
const DEFAULT_SWEEP: Duration = Duration::from_millis(250);
/// Maximum number of sessions that a sweep opens.
const MAX_PER_SWEEP: usize = 64;
/// The first pause before a session whose work was not done is reopened; it doubles.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(300);

/// A placement with the store alone. A worker that receives an input opens its session, unless
/// another worker has it open. Each worker also sweeps the store for due sessions without an owner.
/// The store's leases decide who wins.
///
/// This suits a handful of workers: each asks the store four times a second. When a worker dies,
/// its sessions are taken over once the store has noticed it and the next sweep comes.
#[derive(Clone)]
pub struct Leases(Arc<Shared>);

struct Shared {
    /// The time between two sweeps.
    interval: Duration,
    /// Set from the start to the stop of the worker.
    driver: Mutex<Option<Arc<dyn Driver>>>,
    background: Background,
    /// Sessions that were opened and still have the same work.
    failed: Mutex<HashMap<Arc<str>, Failed>>,
}

/// A session whose work was not done.
struct Failed {
    entries: u64,
    pause: Duration,
    next: Instant,
}

impl Leases {
    /// Creates a placement with a sweep every 250 ms.
    pub fn new() -> Self {
        Self::with_sweep(DEFAULT_SWEEP)
    }

    /// Creates a placement with this interval between sweeps.
    pub fn with_sweep(interval: Duration) -> Self {
        Leases(Arc::new(Shared {
            interval,
            driver: Mutex::default(),
            background: Background::default(),
            failed: Mutex::default(),
        }))
    }
}

impl Default for Leases {
    fn default() -> Self {
        Self::new()
    }
}

impl Shared {
    fn driver(&self) -> MutexGuard<'_, Option<Arc<dyn Driver>>> {
        self.driver.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a session here in the background.
    fn drive(self: &Arc<Self>, driver: Arc<dyn Driver>, due: DueSession) {
        let shared = self.clone();
        self.background.spawn(async move {
            let id = &*due.session;
            match driver.drive(id).await {
                Ok(Drive::InUse | Drive::HandedOver) => {} // its owner does it, or the next one
                Ok(Drive::Closed { .. }) => shared.note(&driver, &due).await,
                Err(ClusterError::Draining | ClusterError::Full(_)) => {}
                Err(error) => {
                    tracing::warn!(session = id, %error, "it has work to do and cannot be opened");
                    shared.note(&driver, &due).await;
                }
            }
        });
    }

    /// Notes whether a session still has the same work.
    async fn note(&self, driver: &Arc<dyn Driver>, due: &DueSession) {
        // Opening a session adds an entry.
        let entries = driver.store().session(&due.session).await.map(|info| info.entries);
        let is_same = entries.is_ok_and(|entries| entries <= due.entries + 1);
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_same {
            failed.remove(&due.session);
            return;
        }
        let pause = failed.get(&due.session).map_or(FIRST_PAUSE, |it| it.pause * 2).min(MAX_PAUSE);
        let next = Instant::now() + pause;
        failed.insert(due.session.clone(), Failed { entries: due.entries + 1, pause, next });
    }

    fn may_try(&self, due: &DueSession) -> bool {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = |it: &Failed| it.entries >= due.entries && Instant::now() < it.next;
        !failed.get(&due.session).is_some_and(waits)
    }

    async fn sweep(self: &Arc<Self>, driver: &Arc<dyn Driver>) {
        if let Err(error) = driver.post_schedules(None).await {
            tracing::warn!(%error, "schedules could not be carried out");
        }
        // Sessions that cannot be opened must not hide the others.
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner).len();
        match driver.due(MAX_PER_SWEEP + failed).await {
            Ok(due) => {
                let due = due.into_iter().filter(|due| self.may_try(due));
                for due in due.take(MAX_PER_SWEEP) {
                    self.drive(driver.clone(), due);
                }
            }
            Err(error) => tracing::warn!(%error, "no session with work to do can be looked for"),
        }
    }
}

#[async_trait]
impl Placement for Leases {
    async fn wake(&self, session: &str) -> Result<(), PlacementError> {
        let driver = self.0.driver().clone();
        if let Some(driver) = driver {
            // The length is unknown, so the next sweep may try it.
            self.0.drive(driver, DueSession::new(session, 0));
        }
        Ok(()) // the sweep of any worker finds it
    }

    async fn wake_at(&self, _session: &str, _time: u64) -> Result<(), PlacementError> {
        Ok(()) // the sweep looks for what has become due
    }

    async fn start(&self, driver: Arc<dyn Driver>) -> Result<(), PlacementError> {
        self.0.background.start()?;
        *self.0.driver() = Some(driver.clone());
        let shared = self.0.clone();
        self.0.background.repeat(self.0.interval, move || {
            let (shared, driver) = (shared.clone(), driver.clone());
            async move { shared.sweep(&driver).await }
        });
        Ok(())
    }

    async fn stop(&self) {
        *self.0.driver() = None;
        self.0.background.stop().await;
    }
}
