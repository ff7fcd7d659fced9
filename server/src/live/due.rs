//! Sessions that have work to do and no owner.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use loopwright_core::log::{Due, PROBATION, SessionInfo, SessionQuery};
use loopwright_core::{Environment, SystemEnvironment};
use tokio::time::Instant;

use super::{LiveSessions, Parts};

/// The interval of searches for sessions that have work to do and no owner.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// Maximum number of sessions that are open at a time only because they have work to do.
const MAX_DUE_SESSIONS: usize = 8;

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

    /// Calls [`run_due`](Self::run_due) repeatedly while `alive` returns the sessions, for sessions
    /// whose process has died meanwhile. A session whose work has not changed since the last sweep
    /// is not reopened.
    pub(crate) async fn keep_running_due(alive: impl Fn() -> Option<LiveSessions>) {
        let mut done = HashMap::new();
        while let Some(sessions) = alive() {
            let next = Instant::now() + SWEEP_INTERVAL;
            // Runs that take longer continue.
            let _ = tokio::time::timeout_at(next, sessions.run_due(&mut done)).await;
            drop(sessions);
            tokio::time::sleep_until(next).await;
        }
    }

    /// Opens the sessions that have work to do, an action whose deadline has passed or a wait that
    /// is over, so that their runs start. Waits for the runs to end.
    ///
    /// Skips sessions that cannot be opened. Skips sessions that have left their work over and
    /// whose log has not grown since, unless they have unread inputs, a deadline or a wait. `done`
    /// has the length of each log then.
    pub(crate) async fn run_due(&self, done: &mut HashMap<Arc<str>, u64>) {
        let Parts { agents, store, .. } = &self.0.parts;
        // Without prompts and arguments, which would all be in memory at the same time.
        let sessions = match store.sessions_page(&SessionQuery::new(usize::MAX).brief()).await {
            Ok(page) => page.sessions,
            Err(error) => {
                return tracing::warn!(%error, "no session with work to do can be looked for");
            }
        };
        let now = SystemEnvironment.now();
        let due = sessions.into_iter().filter(|session| match session.due_at(now) {
            Some(Due::Inbox | Due::Deadline | Due::Wait) => true,
            Some(Due::Decision | Due::Request | Due::Steer) => {
                done.get(&session.id) != Some(&session.entries)
            }
            _ => false,
        });
        let (due, left): (Vec<SessionInfo>, Vec<SessionInfo>) = due.partition(|session| {
            let settings = agents.stored_settings(session.settings.as_deref());
            agents.can_open(&settings)
        });
        for SessionInfo { id, entries, .. } in left {
            if done.insert(id.clone(), entries) != Some(entries) {
                let why = "its settings name no agent and model of this server; a session without \
                           settings needs `ServerBuilder::adopt_sessions`";
                tracing::warn!(session = &*id, "it has work to do and is left alone: {why}");
            }
        }
        // A session whose process died may kill this process too. Suspects are opened one after the
        // other, so that the others are not blamed.
        let (suspects, due): (Vec<SessionInfo>, Vec<SessionInfo>) =
            due.into_iter().partition(SessionInfo::has_lost_owner);
        // A run that takes longer continues.
        let one_by_one = futures::stream::iter(suspects).then(|session| async {
            let worked = tokio::time::timeout(PROBATION, self.run_one(session, now)).await;
            worked.unwrap_or_default()
        });
        let all = futures::stream::iter(due).map(|session| self.run_one(session, now));
        let all = all.buffer_unordered(MAX_DUE_SESSIONS);
        let opened: Vec<_> = futures::stream::select(all, one_by_one).collect().await;
        done.extend(opened.into_iter().flatten());
    }

    /// Opens a session that has work to do, and waits for the work to end. If it has left the work
    /// over, returns its id and the length of its log.
    async fn run_one(&self, session: SessionInfo, now: u64) -> Option<(Arc<str>, u64)> {
        if self.0.parts.drain.is_draining() {
            return None;
        }
        let id = &*session.id;
        match self.lease(id).await {
            Ok(Some(lease)) => {
                let due = session.due_at(now);
                tracing::info!(session = id, ?due, "it is opened to do its work");
                lease.handle.wait_for_idle().await;
                let info = self.0.parts.store.session(id).await.ok()?;
                info.due_at(now).map(|_| (info.id, info.entries))
            }
            Ok(None) => None, // its owner does the work, unless it dies
            Err(error) => {
                tracing::warn!(session = id, %error, "it has work to do and cannot be opened");
                None
            }
        }
    }
}
