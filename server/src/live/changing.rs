//! Changes of the settings of sessions, forks and deletions.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use loopwright_core::log::{MemoryError, SessionLog};
use loopwright_core::message::MessageId;
use loopwright_host::{SessionSettings, SettingsChange};

use super::releasing::{Releasing, during_a_run};
use super::{LiveSessions, OpenSession, Parts, new_id};
use crate::error::{ApiError, ErrorKind};
use crate::limits::daily_budget::DailyBudget;

/// An operation that needs an idle session, as named in errors.
const CHANGE: &str = "change the settings";
const DELETE: &str = "delete the session";

/// Timeout for closing an idle session. It takes longer only if a run has started meanwhile.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

impl LiveSessions {
    /// Closes a session, deletes it, and prevents opening it meanwhile. Its usage still counts for
    /// the budget of the day. If another process has it open, that process is asked to release it.
    ///
    /// # Errors
    /// Fails during a run, and if the session's agent is unknown to this server.
    pub(crate) async fn delete(&self, id: &str, budget: &DailyBudget) -> Result<(), ApiError> {
        let Parts { agents, store, .. } = &self.0.parts;
        let mut slot = self.0.lock(id).await;
        if let Ok(info) = store.session(id).await {
            info.require_root()?;
            agents.check_known(&agents.stored_settings(info.settings.as_deref()))?;
        }
        if let Some(session) = slot.session()
            && session.is_running().await
        {
            return Err(during_a_run(DELETE));
        }
        if let Some(session) = slot.take() {
            session.close().await;
        }
        let mut releasing = Releasing::new(&**store, id, DELETE);
        loop {
            if let Ok(info) = store.session(id).await {
                budget.keep(&info).await;
            }
            match store.delete(id).await {
                Err(MemoryError::InUse(session)) => releasing.wait(&session).await?,
                deleted => return Ok(deleted?),
            }
        }
    }

    /// Changes the settings of a session, if `check` allows the new ones. The session is closed and
    /// reopened with an agent built from them, which writes them to the log. Its readers do not
    /// notice.
    ///
    /// If another process has the session open, that process is asked to release it.
    ///
    /// # Errors
    /// Fails if a setting is invalid, and during a run.
    pub(crate) async fn change(
        &self,
        id: &str,
        change: SettingsChange,
        check: impl AsyncFnOnce(&SessionSettings) -> Result<(), ApiError>,
    ) -> Result<(), ApiError> {
        let Parts { agents, store, principal, .. } = &self.0.parts;
        let mut slot = self.0.lock(id).await;
        let info = store.session(id).await?;
        info.require_root()?;
        let old = agents.stored_settings(info.settings.as_deref());
        agents.check_known(&old)?;
        let mut new = change.apply(&old)?;
        agents.check_change(&old, &new)?;
        if new == old {
            return Ok(());
        }
        check(&new).await?;
        agents.settle(&mut new, Some(&old))?;
        let principal = info.owner.as_ref().or(principal.as_ref());
        let agent = agents.for_session(new.clone(), principal).await?;
        if let Some(session) = slot.session()
            && session.is_running().await
        {
            return Err(during_a_run(CHANGE));
        }
        if let Some(session) = slot.take() {
            session.close_to_reopen().await?;
        }
        let name = agents.name_of(&new);
        let settings = serde_json::to_value(new).unwrap_or_default();
        let capacity = self.0.acquire_capacity().await?;
        let mut releasing = Releasing::new(&**store, id, CHANGE);
        let cx = loop {
            match self.context(info.id.clone(), info.owner.as_ref()).await {
                Err(MemoryError::InUse(session)) => releasing.wait(&session).await?,
                cx => break cx?.settings(settings),
            }
        };
        let changed = self.resume(info.id.clone(), (name, &agent), cx, capacity).await?;
        self.keep(&mut slot, changed).await;
        drop(slot);
        self.wake(id).await;
        Ok(())
    }

    /// Forks a session, which any process may have open. The fork ends at the last end of a turn up
    /// to `message`. Without `message`, it ends at the last end of a turn in the log. Returns the
    /// new session. It has the owner and the settings of the old one, with the changes applied,
    /// which `check` must allow.
    ///
    /// # Errors
    /// Fails if the message does not exist, and if a setting is invalid.
    pub(crate) async fn fork(
        &self,
        id: &str,
        message: Option<MessageId>,
        change: SettingsChange,
        check: impl AsyncFnOnce(&SessionSettings) -> Result<(), ApiError>,
    ) -> Result<Arc<str>, ApiError> {
        let Parts { agents, store, principal, .. } = &self.0.parts;
        let info = store.session(id).await?;
        info.require_root()?;
        let settings = agents.stored_settings(info.settings.as_deref());
        agents.check_known(&settings)?;
        let old = settings;
        let mut settings = change.apply(&old)?;
        check(&settings).await?;
        agents.settle(&mut settings, Some(&old))?;
        let principal = info.owner.as_ref().or(principal.as_ref());
        let agent = agents.for_session(settings.clone(), principal).await?;
        let at = match message {
            None => None,
            Some(message) => {
                let entries = store.read(id, 0).await?;
                let no_message = || {
                    let why = "The conversation of this session has no such message: \
                               `GET /api/sessions/{id}/messages` lists them.";
                    ApiError::new(ErrorKind::NotFound, why).with_path("/message")
                };
                Some(SessionLog::entries_up_to(&entries, message).ok_or_else(no_message)?)
            }
        };
        let new = new_id();
        let mut slot = self.0.lock(&new).await;
        store.fork(id, at, &new).await?;
        let name = agents.name_of(&settings);
        let settings = serde_json::to_value(settings).unwrap_or_default();
        let capacity = self.0.acquire_capacity().await?;
        let cx = self.context(new.clone(), info.owner.as_ref()).await?.settings(settings);
        let forked = self.resume(new.clone(), (name, &agent), cx, capacity).await?;
        self.keep(&mut slot, forked).await;
        drop(slot);
        self.wake(&new).await;
        Ok(new)
    }
}

impl OpenSession {
    /// Closes the session. Its readers wait until it is open again.
    async fn close_to_reopen(self) -> Result<(), ApiError> {
        let leases = Arc::clone(&self.leases);
        leases.reopens.store(true, Ordering::Relaxed);
        let closed = tokio::time::timeout(CLOSE_TIMEOUT, self.close()).await;
        closed.map_err(|_| during_a_run(CHANGE))
    }
}
