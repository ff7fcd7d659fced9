//! Facts are distilled from a session before it is closed, if its settings say so.

use loopwright_core::event::InputEvent;
use loopwright_memory::long_term::{DISTIL_COMMAND, is_distil_due};

use tokio::time::Instant;

use super::{Inner, LiveSessions, OpenSession, Parts, Slot};
use crate::error::ApiError;
use crate::run_quota::RunPermit;
use crate::settings::SessionSettings;

impl LiveSessions {
    /// Starts to distil facts from all open sessions that are idle, before the server shuts down.
    pub(crate) async fn distil_all(&self) {
        let slots: Vec<Slot> = self.0.slots().values().cloned().collect();
        for slot in slots {
            if let Some(session) = slot.lock().await.as_mut() {
                self.0.distil(session).await;
            }
        }
    }
}

impl Inner {
    /// Starts a run that distils facts from a session which is about to be closed, and returns
    /// whether it did: then the session is to be closed later. It does so once after each use of
    /// the session, so a run that fails does not keep it open.
    pub(super) async fn distil(&self, session: &mut OpenSession) -> bool {
        if session.distilled.is_some_and(|time| time >= session.last_used) {
            return false;
        }
        session.distilled = Some(Instant::now());
        self.try_distil(session).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "no facts are distilled from a session that ends");
            false
        })
    }

    async fn try_distil(&self, session: &OpenSession) -> Result<bool, ApiError> {
        let Parts { agents, store, principal, runs, daily_budget, .. } = &self.parts;
        let state = session.handle.state().await?;
        let settings = SessionSettings::from_stored(state.settings.as_deref());
        if !agents.distils_at_end(&settings) || !is_distil_due(&state) {
            return Ok(false);
        }
        let owner = store.session(&state.session_key).await?.owner;
        if owner.is_none() && principal.is_none() {
            return Ok(false); // the facts would belong to nobody
        }
        if let Some(owner) = &owner {
            daily_budget.check(owner).await?;
        }
        let permit = RunPermit::new(session.handle.clone(), runs.acquire_unchecked());
        session.handle.send(InputEvent::UserRequest(DISTIL_COMMAND.into())).await?;
        *session.run.lock().await = permit.downgrade();
        Ok(true)
    }
}
