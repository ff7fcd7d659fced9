//! The work of a store's sessions that is due, for a process without a server.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::future::ready;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use crate::agent::{GenericAgent, RunContext};
use crate::error::{AgentError, MemoryError};
use crate::log::due_schedules::post_due_schedules;
use crate::log::owners::PROBATION;
use crate::log::session_info::SessionInfo;
use crate::log::session_page::SessionQuery;
use crate::log::store::SessionStore;

/// Maximum number of sessions that are open at a time only because they have work to do.
const MAX_DUE_SESSIONS: usize = 8;

/// Maximum time between two looks at the store: other processes may have changed it.
const MAX_PAUSE: Duration = Duration::from_secs(10);

/// Time after which a session that has left its work over is opened again.
const RETRY_DELAY: Duration = Duration::from_secs(60);

/// The sessions that are open to do their work.
struct Running {
    tasks: JoinSet<Worked>,
    ids: HashSet<Arc<str>>,
    /// The last opening of each session that has left work over, with the length of its log.
    tried: HashMap<Arc<str>, (u64, Instant)>,
    permits: Arc<Semaphore>,
    /// A session whose process died may end this process too. Such sessions are opened one after
    /// the other, so that the others are not blamed.
    suspects: Arc<Semaphore>,
}

/// The end of the work of a session.
struct Worked {
    id: Arc<str>,
    /// The length of the log if the work is left over.
    left_over: Option<u64>,
    /// The next time at which the session has work to do.
    wakes_at: Option<u64>,
}

impl GenericAgent {
    /// Opens the sessions of a store that have work to do, and waits until the work has ended: a
    /// [timer](crate::StepContext::sleep_until) rings, the deadline of an action has passed, inputs
    /// such as signals were posted or queued, a [schedule](crate::log::Schedule) is due, or the
    /// process that had the session open died during a run. Returns the next time at which a session
    /// has work to do without an input, in milliseconds since 1970; a time in the past belongs to a
    /// session that could not be worked on.
    ///
    /// All sessions of the store should be this agent's. Sessions that are open elsewhere are left
    /// alone, and so are [held](SessionInfo::held) sessions. A session that cannot be opened is
    /// logged and does not keep the others from their work.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use loopwright_core::GenericAgent;
    /// use loopwright_core::log::InMemoryStore;
    /// use loopwright_core::message::UserMessage;
    /// use loopwright_core::{BehaviorPattern, StepContext, StepEnd, StepError};
    /// # use loopwright_core::testing::{Script, ScriptedModel};
    ///
    /// struct Later;
    ///
    /// #[async_trait::async_trait]
    /// impl BehaviorPattern for Later {
    ///     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
    ///         step.take_input().await?;
    ///         step.sleep_for("later", Duration::from_millis(20)).await?;
    ///         step.ask().await?.finish()
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let store = InMemoryStore::new();
    /// let model = ScriptedModel::new([Script::text("Good morning.")]);
    /// let agent = GenericAgent::builder(model, Later).build()?;
    /// let session = agent.open(&store, "monday").await?;
    /// session.prompt("Wake me later.").await?;
    /// session.close().await;
    ///
    /// while agent.run_due(&store).await?.is_some() {
    ///     tokio::time::sleep(Duration::from_millis(5)).await; // or until that time
    /// }
    /// assert_eq!(agent.open(&store, "monday").await?.state().await?.messages.len(), 2);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Fails if the sessions of the store cannot be listed.
    ///
    /// # Cancellation
    ///
    /// If the future is dropped, runs in progress end as when a handle is dropped.
    pub async fn run_due(
        &self,
        store: &(impl SessionStore + Clone + 'static),
    ) -> Result<Option<u64>, MemoryError> {
        let mut running = Running::new();
        self.start_due(store, &mut running).await?;
        while !running.tasks.is_empty() {
            running.next_end().await;
        }
        let sessions = sessions(store).await?;
        let scheduled = next_schedule(store, 0).await?;
        Ok(sessions.iter().filter_map(SessionInfo::wakes_at).chain(scheduled).min())
    }

    /// Does the due work of a store again and again, as [`GenericAgent::run_due`] does: for a
    /// process on one machine that wakes sleeping agents without a server. It looks at the store
    /// when the next timer rings or the next schedule is due, and at least every ten seconds. It
    /// never ends; drop the future to stop it.
    pub async fn keep_running_due(
        &self,
        store: &(impl SessionStore + Clone + 'static),
    ) -> Infallible {
        let mut running = Running::new();
        loop {
            let next = self.start_due(store, &mut running).await.unwrap_or_else(|error| {
                tracing::warn!(%error, "the sessions that have work to do cannot be listed");
                None
            });
            let mut until = self.next_look(next);
            while let Ok(next) = timeout_at(until, running.next_end()).await {
                until = until.min(self.next_look(next));
            }
        }
    }

    /// Returns the time of the next look at the store if a session has work to do at this time.
    fn next_look(&self, wakes_at: Option<u64>) -> Instant {
        let left = wakes_at
            .map_or(u64::MAX, |time| time.saturating_sub(self.config.environment.now()).max(1));
        Instant::now() + Duration::from_millis(left).min(MAX_PAUSE)
    }

    /// Starts the work that is due, and returns the next time at which a session has work to do.
    async fn start_due(
        &self,
        store: &(impl SessionStore + Clone + 'static),
        running: &mut Running,
    ) -> Result<Option<u64>, MemoryError> {
        let now = self.config.environment.now();
        let mut next = post_schedules(store, now).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "schedules could not be carried out");
            None
        });
        for session in sessions(store).await? {
            let wakes_at = session.wakes_at().filter(|time| *time > now);
            next = next.into_iter().chain(wakes_at).min();
            if session.due_at(now).is_some()
                && !running.was_tried(&session)
                && running.ids.insert(session.id.clone())
            {
                running.start(self.clone(), store.clone(), session);
            }
        }
        Ok(next)
    }

    /// Opens a session and waits until its work has ended. Returns `false` if it is in use: its
    /// owner does the work, unless it dies.
    async fn run_session(
        &self,
        store: &(impl SessionStore + Clone + 'static),
        id: &str,
    ) -> Result<bool, AgentError> {
        match store.session(id).await {
            Err(MemoryError::NoSession(_)) => return Ok(true), // it was deleted
            // Another process was faster.
            Ok(info) if info.due_at(self.config.environment.now()).is_none() => return Ok(true),
            info => drop(info?),
        }
        let context = match RunContext::new().stored(store, id).await {
            Err(MemoryError::InUse(_)) => return Ok(false),
            context => context?,
        };
        let (handle, _) = self.run(context.continue_interrupted()).await?;
        handle.wait_for_idle().await;
        handle.close().await;
        Ok(true)
    }
}

impl Running {
    fn new() -> Self {
        Running {
            tasks: JoinSet::new(),
            ids: HashSet::new(),
            tried: HashMap::new(),
            permits: Arc::new(Semaphore::new(MAX_DUE_SESSIONS)),
            suspects: Arc::new(Semaphore::new(1)),
        }
    }

    /// Returns whether a session has just been opened, has left its work over, and its log has not
    /// changed since.
    fn was_tried(&self, session: &SessionInfo) -> bool {
        let tried = self.tried.get(&session.id);
        tried.is_some_and(|(entries, at)| *entries == session.entries && at.elapsed() < RETRY_DELAY)
    }

    fn start(
        &mut self,
        agent: GenericAgent,
        store: impl SessionStore + Clone + 'static,
        session: SessionInfo,
    ) {
        let is_suspect = session.has_lost_owner();
        let permits = if is_suspect { &self.suspects } else { &self.permits }.clone();
        self.tasks.spawn(async move {
            let permit = permits.acquire().await;
            let id = session.id.clone();
            let mut work = pin!(agent.run_session(&store, &session.id));
            let worked = tokio::select! {
                worked = &mut work => worked,
                () = sleep(PROBATION), if is_suspect => {
                    drop(permit); // it has lived long enough
                    work.await
                }
            };
            let was_opened = worked.unwrap_or_else(|error| {
                tracing::warn!(session = &*id, %error, "it has work to do and cannot be opened");
                true
            });
            let now = agent.config.environment.now();
            let info = store.session(&id).await.ok();
            let wakes_at = info.as_ref().and_then(SessionInfo::wakes_at).filter(|time| *time > now);
            let left_over = info.filter(|info| was_opened && info.due_at(now).is_some());
            Worked { id, left_over: left_over.map(|info| info.entries), wakes_at }
        });
    }

    /// Waits for the end of a session's work, and returns the next time at which the session has
    /// work to do. Does not resolve if no session has work in progress.
    async fn next_end(&mut self) -> Option<u64> {
        let Some(end) = self.tasks.join_next().await else {
            return std::future::pending().await;
        };
        let Ok(Worked { id, left_over, wakes_at }) = end else {
            self.ids.clear(); // a panic: the sessions of the other tasks are in use
            return None;
        };
        self.ids.remove(&id);
        match left_over {
            Some(entries) => drop(self.tried.insert(id, (entries, Instant::now()))),
            None => drop(self.tried.remove(&id)),
        }
        wakes_at
    }
}

/// Carries out the due schedules, and returns the next time of a schedule after `now`.
async fn post_schedules(store: &impl SessionStore, now: u64) -> Result<Option<u64>, MemoryError> {
    post_due_schedules(store, None, |_, _| ready(())).await?;
    next_schedule(store, now).await
}

/// Returns the next time of a schedule that is later than `time`.
async fn next_schedule(store: &impl SessionStore, time: u64) -> Result<Option<u64>, MemoryError> {
    match store.schedules() {
        Some(schedules) => schedules.next_after(time).await,
        None => Ok(None),
    }
}

/// Returns the sessions of a store except for sub-agents: their roots do their work.
async fn sessions(store: &impl SessionStore) -> Result<Vec<SessionInfo>, MemoryError> {
    let page = store.sessions_page(&SessionQuery::new(usize::MAX).brief()).await?;
    let mut sessions = page.sessions;
    sessions.retain(|session| session.sub_agent_of.is_none());
    Ok(sessions)
}
