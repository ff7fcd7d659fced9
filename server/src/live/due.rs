//! Sessions that have work to do and no owner.

use std::collections::HashMap;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use loopwright_core::log::{Due, PROBATION, SessionInfo, SessionQuery, post_due_schedules};
use loopwright_core::{Environment, SystemEnvironment};
use tokio::time::Instant;

use super::{LiveSessions, Parts};

/// The interval of searches for sessions that have work to do and no owner.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// The interval of searches for schedules that are due, and the shortest of searches for sessions.
const SCHEDULE_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of sessions that are open at a time only because they have work to do.
const MAX_DUE_SESSIONS: usize = 8;

/// The work of a store's sessions at a time.
struct DueWork {
    /// The time, in milliseconds since 1970.
    now: u64,
    /// The sessions that have work to do.
    due: Vec<SessionInfo>,
    /// The time from now until the next session wakes by itself.
    next: Option<Duration>,
}

/// Carries out schedules while `alive` returns the sessions, until some were due.
async fn until_posted(alive: &impl Fn() -> Option<LiveSessions>) {
    loop {
        tokio::time::sleep(SCHEDULE_INTERVAL).await;
        let Some(sessions) = alive() else { return };
        if sessions.post_schedules().await {
            return;
        }
    }
}

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
    /// is not reopened. The next sweep comes sooner if a timer rings or a schedule is due.
    pub(crate) async fn keep_running_due(alive: impl Fn() -> Option<LiveSessions>) {
        let mut done = HashMap::new();
        while let Some(sessions) = alive() {
            let start = Instant::now();
            let work = sessions.due_work().await;
            let pause = work.next.unwrap_or(SWEEP_INTERVAL);
            let next = start + pause.clamp(SCHEDULE_INTERVAL, SWEEP_INTERVAL);
            let sweep = async {
                sessions.run_work(work, &mut done).await;
                drop(sessions);
                tokio::time::sleep_until(next).await;
            };
            // Runs that take longer continue.
            tokio::select! {
                _ = tokio::time::timeout_at(next, sweep) => {}
                () = until_posted(&alive) => {}
            }
        }
    }

    /// Posts the inputs of due schedules. Returns whether there were any.
    async fn post_schedules(&self) -> bool {
        let posted = post_due_schedules(&*self.0.parts.store, None, |_, _| ready(())).await;
        posted.map_or_else(
            |error| {
                tracing::warn!(%error, "schedules could not be carried out");
                false
            },
            |posted| posted > 0,
        )
    }

    /// Carries out due schedules, and opens the sessions that have work to do, an action whose
    /// deadline has passed or a wait that is over, so that their runs start. Waits for the runs to
    /// end.
    ///
    /// Skips sessions that cannot be opened. Skips sessions that have left their work over and
    /// whose log has not grown since, unless they have unread inputs, a deadline or a wait. `done`
    /// has the length of each log then.
    pub(crate) async fn run_due(&self, done: &mut HashMap<Arc<str>, u64>) {
        let work = self.due_work().await;
        self.run_work(work, done).await;
    }

    /// Carries out due schedules, and returns the sessions that have work to do then.
    async fn due_work(&self) -> DueWork {
        self.post_schedules().await;
        // Without prompts and arguments, which would all be in memory at the same time.
        let query = SessionQuery::new(usize::MAX).brief();
        let sessions = self.0.parts.store.sessions_page(&query).await.map(|page| page.sessions);
        let sessions = sessions.unwrap_or_else(|error| {
            tracing::warn!(%error, "no session with work to do can be looked for");
            Vec::new()
        });
        let now = SystemEnvironment.now();
        let wakes_at = sessions.iter().filter_map(SessionInfo::wakes_at);
        let next = wakes_at.filter(|time| *time > now).min();
        let next = next.map(|time| Duration::from_millis(time - now));
        let due = sessions.into_iter().filter(|session| session.due_at(now).is_some()).collect();
        DueWork { now, due, next }
    }

    async fn run_work(&self, work: DueWork, done: &mut HashMap<Arc<str>, u64>) {
        let Parts { agents, store, .. } = &self.0.parts;
        let now = work.now;
        let due = work.due.into_iter().filter(|session| match session.due_at(now) {
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
