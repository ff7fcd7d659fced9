//! Sessions that have work to do and no owner.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use loopwright_core::error::Failure;
use loopwright_core::log::{
    Due, DueSessions, MemoryError, SessionInfo, keep_running_due_work, run_due_work,
};
use loopwright_core::{Environment, SessionStore, SystemEnvironment};

use super::LiveSessions;

/// Maximum time between two searches for sessions that have work to do and no owner.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

impl LiveSessions {
    /// Starts to distil facts from all idle open sessions, before the server shuts down.
    #[cfg(feature = "long-term")]
    pub(crate) async fn distil_all(&self) {
        let slots: Vec<super::Slot> = self.0.by_id().values().cloned().collect();
        for slot in slots {
            if let Some(session) = slot.lock().await.as_mut() {
                self.0.distil(session).await;
            }
        }
    }

    /// Calls [`run_due`](Self::run_due) repeatedly while `alive` returns the sessions: for
    /// schedules, for timers, and for sessions whose process has died meanwhile.
    pub(crate) async fn keep_running_due(alive: impl Fn() -> Option<LiveSessions>) {
        keep_running_due_work(|| alive().map(Arc::new), SWEEP_INTERVAL).await;
    }

    /// Carries out due schedules, and opens the sessions that have work to do, an action whose
    /// deadline has passed or a wait that is over, so that their runs start. Waits for the runs to
    /// end. Skips sessions that cannot be opened.
    pub(crate) async fn run_due(&self) {
        if let Err(error) = run_due_work(Arc::new(self.clone())).await {
            tracing::warn!(%error, "no session with work to do can be looked for");
        }
    }
}

#[async_trait]
impl DueSessions for LiveSessions {
    fn store(&self) -> &dyn SessionStore {
        &*self.0.parts.store
    }

    fn now(&self) -> u64 {
        SystemEnvironment.now()
    }

    fn takes(&self, due: Due) -> bool {
        due != Due::Interrupted && !self.0.parts.drain.is_draining()
    }

    async fn work(&self, session: &SessionInfo, due: Due) -> Result<bool, Failure> {
        let id = &*session.id;
        let agents = &self.0.parts.agents;
        // The description in a list leaves long settings out.
        let settings = match self.0.parts.store.session(id).await {
            Err(MemoryError::NoSession(_)) => return Ok(true), // it was deleted
            info => agents.stored_settings(info.map_err(Failure::of)?.settings.as_deref()),
        };
        if !agents.can_open(&settings) {
            let why = "its settings name no agent and model of this server; a session without \
                       settings needs `ServerBuilder::adopt_sessions`";
            return Err(Failure::new(why));
        }
        let Some(lease) = self.lease(id).await.map_err(|why| Failure::new(why.to_string()))? else {
            return Ok(false); // its owner does the work, unless it dies
        };
        tracing::info!(session = id, ?due, "it is opened to do its work");
        lease.handle.wait_for_idle().await;
        Ok(true)
    }
}
