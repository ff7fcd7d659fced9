//! [`run_due_work`]: sessions of a store that have work to do are opened, and schedules carried
//! out.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::future::{pending, ready};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use crate::error::{Failure, MemoryError};
use crate::log::due::Due;
use crate::log::due_schedules::{CarriedOut, Interrupted, post_due_schedules};
use crate::log::owners::PROBATION;
use crate::log::session_info::SessionInfo;
use crate::log::session_page::SessionQuery;
use crate::log::store::SessionStore;

/// Maximum number of sessions that are opened at a time. One that has been open for [`PROBATION`]
/// does not count.
const MAX_DUE_SESSIONS: usize = 8;

/// Time between two looks at the schedules.
const SCHEDULE_PAUSE: Duration = Duration::from_secs(1);

/// Time after which a session that has left its work over is opened again: at first, and at most.
const RETRY_DELAYS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3600));

/// The opening of sessions that have work to do, for [`run_due_work`].
#[async_trait]
pub trait DueSessions: Send + Sync + 'static {
    /// Returns the store of the sessions.
    fn store(&self) -> &dyn SessionStore;

    /// Returns the time in milliseconds since 1970.
    fn now(&self) -> u64;

    /// Returns whether sessions are opened for this kind of work.
    fn takes(&self, due: Due) -> bool;

    /// Opens a session, and waits until its work has ended. Returns `false` if it is in use: its
    /// owner does the work, unless it dies.
    ///
    /// # Errors
    ///
    /// Fails if the session cannot be opened. The error is logged.
    async fn work(&self, session: &SessionInfo, due: Due) -> Result<bool, Failure>;
}

/// Carries out the schedules of a store that are due, opens the sessions that have work to do, and
/// waits until the work has ended. Returns the next time at which there is work without an input,
/// in milliseconds since 1970; a time in the past belongs to a session that could not be worked on.
///
/// Sub-agents' sessions are left to their roots. Sessions whose owner was lost are opened one after
/// the other, since they may end this process too.
///
/// # Errors
///
/// Fails if the sessions cannot be listed.
pub async fn run_due_work<S: DueSessions>(sessions: Arc<S>) -> Result<Option<u64>, MemoryError> {
    let mut running = Running::default();
    running.start_all(&sessions).await?;
    while !running.tasks.is_empty() {
        running.next_end().await;
    }
    let store = sessions.store();
    let scheduled = match store.schedules() {
        Some(schedules) => schedules.next_after(0).await?,
        None => None,
    };
    let all = root_sessions(store).await?;
    Ok(all.iter().filter_map(SessionInfo::wakes_at).chain(scheduled).min())
}

/// Does what [`run_due_work`] does again and again, until `alive` returns `None`. It looks at the
/// schedules once a second, and lists the sessions when the next timer rings, and at least after
/// each `pause`. A session that has left its work over is opened again after a second, then after
/// two, and so on up to an hour, or when its log or its mailbox has changed.
///
/// # Cancellation
///
/// If the future is dropped, so are the futures of [`DueSessions::work`].
pub async fn keep_running_due_work<S: DueSessions>(
    alive: impl Fn() -> Option<Arc<S>>,
    pause: Duration,
) {
    let mut running = Running::default();
    let mut next_list = Instant::now();
    while let Some(sessions) = alive() {
        let now = Instant::now();
        if now >= next_list {
            let next = running.start_all(&sessions).await.unwrap_or_else(|error| {
                tracing::warn!(%error, "the sessions that have work to do cannot be listed");
                None
            });
            next_list = now + running.pause(&*sessions, next, pause);
        } else {
            running.start_scheduled(&sessions).await;
        }
        let has_schedules = sessions.store().schedules().is_some();
        let mut until = next_list;
        if has_schedules {
            until = until.min(Instant::now() + SCHEDULE_PAUSE);
        }
        drop(sessions);
        while let Ok(next) = timeout_at(until, running.next_end()).await {
            let Some(sessions) = alive() else { return };
            next_list = next_list.min(Instant::now() + running.pause(&*sessions, next, pause));
            until = until.min(next_list);
        }
    }
}

/// The sessions that are open to do their work.
struct Running {
    tasks: JoinSet<Worked>,
    ids: HashSet<Arc<str>>,
    /// The sessions that have left work over.
    tried: HashMap<Arc<str>, Tried>,
    permits: Arc<Semaphore>,
    /// A session whose process died may end this process too. Such sessions are opened one after
    /// the other, so that the others are not blamed.
    suspects: Arc<Semaphore>,
}

/// A session that has left work over.
struct Tried {
    state: SessionInfo,
    /// The time of the attempt, in milliseconds since 1970.
    at: u64,
    /// The time at which it is opened again if nothing changes.
    again_at: Instant,
    delay: Duration,
}

/// The end of the work of a session.
struct Worked {
    id: Arc<str>,
    /// The state of the session before it was opened.
    before: SessionInfo,
    /// The state afterwards, if work is left over, and the time, in milliseconds since 1970.
    left_over: Option<(SessionInfo, u64)>,
    /// The next time at which the session has work to do.
    wakes_at: Option<u64>,
}

impl Default for Running {
    fn default() -> Self {
        Running {
            tasks: JoinSet::new(),
            ids: HashSet::new(),
            tried: HashMap::new(),
            permits: Arc::new(Semaphore::new(MAX_DUE_SESSIONS)),
            suspects: Arc::new(Semaphore::new(1)),
        }
    }
}

impl Running {
    /// Carries out schedules and starts the work of all sessions. Returns the next time at which a
    /// session has work to do.
    async fn start_all<S: DueSessions>(
        &mut self,
        sessions: &Arc<S>,
    ) -> Result<Option<u64>, MemoryError> {
        post_schedules(&**sessions).await;
        let all = root_sessions(sessions.store()).await?;
        let now = sessions.now();
        let next = all.iter().filter_map(SessionInfo::wakes_at).filter(|time| *time > now).min();
        let ids: HashSet<&Arc<str>> = all.iter().map(|session| &session.id).collect();
        self.tried.retain(|id, _| ids.contains(id));
        all.into_iter().for_each(|session| self.start(sessions, session));
        Ok(next)
    }

    /// Carries out schedules, and starts the work of their sessions.
    async fn start_scheduled<S: DueSessions>(&mut self, sessions: &Arc<S>) {
        for id in post_schedules(&**sessions).await {
            match sessions.store().session(&id).await {
                Ok(session) => self.start(sessions, session),
                Err(error) => tracing::debug!(session = &*id, %error, "it is not opened"),
            }
        }
    }

    /// Returns the time until the next list of the sessions, at most `longest`, if one has work to
    /// do at this time.
    fn pause(&self, sessions: &impl DueSessions, next: Option<u64>, longest: Duration) -> Duration {
        let left = next.map_or(longest, |time| {
            let left = Duration::from_millis(time.saturating_sub(sessions.now()).max(1));
            left.min(longest)
        });
        let now = Instant::now();
        let again = self.tried.values().map(|tried| tried.again_at).filter(|at| *at > now);
        again.min().map_or(left, |at| left.min(at - now))
    }

    /// Returns whether a session has just been opened, has left its work over, and has not changed
    /// since.
    fn was_tried(&self, session: &SessionInfo, now: u64) -> bool {
        self.tried.get(&session.id).is_some_and(|tried| {
            let has_woken = session.wakes_at().is_some_and(|time| tried.at < time && time <= now);
            Instant::now() < tried.again_at && !has_woken && tried.state == state(session)
        })
    }

    /// Starts the work of a session, if it has work to do.
    fn start<S: DueSessions>(&mut self, sessions: &Arc<S>, session: SessionInfo) {
        let now = sessions.now();
        let Some(due) = session.due_at(now).filter(|due| sessions.takes(*due)) else {
            self.tried.remove(&session.id);
            return;
        };
        if self.was_tried(&session, now) || !self.ids.insert(session.id.clone()) {
            return;
        }
        let is_suspect = session.has_lost_owner();
        let permits = if is_suspect { &self.suspects } else { &self.permits }.clone();
        let sessions = sessions.clone();
        self.tasks.spawn(async move {
            let permit = permits.acquire().await;
            let (id, before) = (session.id.clone(), state(&session));
            let mut work = pin!(sessions.work(&session, due));
            let worked = tokio::select! {
                worked = &mut work => worked,
                () = sleep(PROBATION) => {
                    drop(permit); // a long run does not keep the others from their work
                    work.await
                }
            };
            let was_opened = worked.unwrap_or_else(|error| {
                tracing::warn!(session = &*id, %error, "it has work to do and cannot be opened");
                true
            });
            let now = sessions.now();
            let info = sessions.store().session(&id).await.ok();
            let wakes_at = info.as_ref().and_then(SessionInfo::wakes_at).filter(|time| *time > now);
            let is_due =
                |info: &SessionInfo| info.due_at(now).is_some_and(|due| sessions.takes(due));
            let left_over = info.filter(|info| was_opened && is_due(info));
            let left_over = left_over.map(|info| (state(&info), now));
            Worked { id, before, left_over, wakes_at }
        });
    }

    /// Waits for the end of a session's work, and returns the next time at which the session has
    /// work to do. Does not resolve if no session has work in progress.
    async fn next_end(&mut self) -> Option<u64> {
        let Some(end) = self.tasks.join_next().await else { return pending().await };
        let Ok(Worked { id, before, left_over, wakes_at }) = end else {
            self.ids.clear(); // a panic: the sessions of the other tasks are in use
            return None;
        };
        self.ids.remove(&id);
        let known = self.tried.remove(&id);
        if let Some((state, at)) = left_over {
            let (first, longest) = RETRY_DELAYS;
            let again = known.filter(|tried| tried.state == before);
            let delay = again.map_or(first, |tried| (tried.delay * 2).min(longest));
            let again_at = Instant::now() + delay;
            self.tried.insert(id, Tried { state, at, again_at, delay });
        }
        wakes_at
    }
}

/// Returns a description that changes only with the work of a session, and not because a process
/// opens it.
fn state(session: &SessionInfo) -> SessionInfo {
    SessionInfo { entries: 0, changed: 0, owners: Default::default(), ..session.brief() }
}

/// Carries out the due schedules, and returns the sessions that got an input.
async fn post_schedules(sessions: &impl DueSessions) -> BTreeSet<Arc<str>> {
    let interrupted = match sessions.takes(Due::Interrupted) {
        true => Interrupted::Continued,
        false => Interrupted::Left,
    };
    let mut posted = BTreeSet::new();
    let note = |done: CarriedOut| {
        if done.is_posted {
            posted.insert(done.session);
        }
        ready(())
    };
    if let Err(error) = post_due_schedules(sessions.store(), None, interrupted, note).await {
        tracing::warn!(%error, "schedules could not be carried out");
    }
    posted
}

/// Returns the sessions of a store except for sub-agents: their roots do their work.
async fn root_sessions(store: &dyn SessionStore) -> Result<Vec<SessionInfo>, MemoryError> {
    // Without prompts and arguments, which would all be in memory at the same time.
    let page = store.sessions_page(&SessionQuery::new(usize::MAX).brief()).await?;
    let mut sessions = page.sessions;
    sessions.retain(|session| session.sub_agent_of.is_none());
    Ok(sessions)
}
