//! The sessions that are open in this process. Each is opened at its first use, and closed when it
//! has been unused for a while.
//!
//! An open session belongs to this process alone. It stays open during runs, while a stream of its
//! events is open, and for [`IDLE_TIMEOUT`] after that. Then another process can open it. Inputs
//! for a session that another process has open go through the mailbox of the store.

mod changing;
mod compacting;
#[cfg(feature = "long-term")]
mod distil;
mod due;
#[cfg(feature = "cluster")]
mod hosting;
mod open_session;
mod releasing;
mod sending;
mod slots;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use loopwright_core::agent::InputError;
use loopwright_core::log::MemoryError;
use loopwright_core::{
    AgentHandle, Environment, GenericAgent, Principal, RunContext, SystemEnvironment,
};
use loopwright_host::SessionSettings;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use self::open_session::{CurrentRun, OpenSession};
pub(crate) use self::open_session::{Lease, LeaseGuard};
pub(crate) use self::slots::Parts;
use self::slots::{Slot, SlotGuard, Slots};
use self::watch::watch;
use crate::error::{ApiError, ErrorKind};
use crate::limits::quota::Client;
use crate::limits::run_quota::RunPermit;
use crate::streams::backlog::SharedBacklog;
use crate::telemetry::metrics::Source;
use crate::telemetry::observer::Observer;

/// The time after which an unused session is closed. It may stay open for up to twice as long.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// The open sessions. Clones share them.
#[derive(Clone)]
pub(crate) struct LiveSessions(Arc<Slots>);

impl LiveSessions {
    /// Creates an empty set with at most `max_open` open sessions.
    pub(crate) fn new(parts: Parts, max_open: usize) -> Self {
        LiveSessions(Arc::new(Slots::new(parts, max_open)))
    }

    /// Creates a session with these settings and returns its id.
    ///
    /// The session belongs to `owner`. Without an owner it is the operator's.
    pub(crate) async fn create(
        &self,
        settings: SessionSettings,
        owner: Option<&Principal>,
    ) -> Result<Arc<str>, ApiError> {
        let id = new_id();
        let mut slot = self.0.lock(&id).await;
        self.create_in(&mut slot, id.clone(), settings, owner).await?;
        Ok(id)
    }

    /// Creates a session with this id, like [`create`](Self::create), unless it exists.
    pub(crate) async fn create_once(
        &self,
        id: Arc<str>,
        settings: SessionSettings,
        owner: Option<&Principal>,
    ) -> Result<(), ApiError> {
        let mut slot = self.0.lock(&id).await;
        match self.0.parts.store.session(&id).await {
            Ok(_) => return Ok(()),
            Err(MemoryError::NoSession(_)) => {}
            Err(error) => return Err(error.into()),
        }
        match self.create_in(&mut slot, id.clone(), settings, owner).await {
            // Another process has created it meanwhile.
            Err(error) if error.kind() == ErrorKind::Conflict => {
                self.0.parts.store.session(&id).await?;
                Ok(())
            }
            created => created,
        }
    }

    /// Creates the session of a slot that is empty.
    async fn create_in(
        &self,
        slot: &mut SlotGuard,
        id: Arc<str>,
        mut settings: SessionSettings,
        owner: Option<&Principal>,
    ) -> Result<(), ApiError> {
        let Parts { agents, principal, .. } = &self.0.parts;
        let principal = owner.or(principal.as_ref());
        if let Some(name) = settings.first_host_only() {
            let why = "It cannot be set here: only the server's operator does.";
            return Err(ApiError::at(format!("/{name}"), why));
        }
        settings.check_lengths(&SessionSettings::default())?;
        agents.check(&settings)?;
        agents.settle(&mut settings, None)?;
        let agent = agents.for_session(settings.clone(), principal).await?;
        let name = agents.name_of(&settings);
        let capacity = self.0.acquire_capacity().await?;
        let settings = serde_json::to_value(settings).unwrap_or_default();
        let mut cx = self.context(id.clone(), owner).await?;
        if let Some(owner) = owner {
            cx = cx.owner(owner.clone());
        }
        let created = self.start(id, (name, &agent), cx.settings(settings), capacity);
        self.keep(slot, created.await?).await;
        Ok(())
    }

    /// Leases a session of the store, and opens it if necessary. Returns `None` if another process
    /// has it open. A worker of a cluster does not open it, since the placement does.
    pub(crate) async fn lease(&self, id: &str) -> Result<Option<Lease>, ApiError> {
        let may_open = !self.0.parts.cluster.is_configured();
        self.lease_if(id, may_open).await
    }

    /// Leases a session of the store if it is open, or if `may_open` is set and it can be opened.
    async fn lease_if(&self, id: &str, may_open: bool) -> Result<Option<Lease>, ApiError> {
        let mut slot = self.0.lock(id).await;
        if slot.session().is_none_or(|session| session.has_ended()) {
            if let Some(ended) = slot.take() {
                ended.close().await;
            }
            if may_open && let Some(session) = self.open(id).await? {
                slot.put(session);
            }
        }
        let Some(session) = slot.session() else { return Ok(None) };
        session.last_used = Instant::now();
        Ok(Some(Lease {
            handle: session.handle.clone(),
            guard: LeaseGuard(session.leases.clone()),
            backlog: session.backlog.clone(),
            run: session.run.clone(),
        }))
    }

    /// Takes a permit for a run of this client, or shares the permit of the run in progress. Input
    /// that arrives during a run belongs to the run or waits for its end.
    async fn run_permit(&self, lease: &Lease, client: Client) -> Result<RunPermit, ApiError> {
        let mut run = lease.run.lock().await;
        if let Some(permit) = RunPermit::upgrade(&run) {
            return Ok(permit);
        }
        let Parts { drain, runs, .. } = &self.0.parts;
        drain.check()?;
        let permit = RunPermit::new(lease.handle.clone(), runs.acquire(client).await?);
        *run = permit.downgrade();
        Ok(permit)
    }

    /// Opens a session. Returns `None` if another process has it open.
    async fn open(&self, id: &str) -> Result<Option<OpenSession>, ApiError> {
        let Parts { agents, store, principal, .. } = &self.0.parts;
        let info = store.session(id).await?;
        info.require_root()?;
        let settings = agents.stored_settings(info.settings.as_deref());
        let name = agents.name_of(&settings);
        let principal = info.owner.as_ref().or(principal.as_ref());
        let agent = agents.for_session(settings, principal).await?;
        // Before the session is claimed, since another process may have room.
        let capacity = self.0.acquire_capacity().await?;
        match self.context(info.id.clone(), info.owner.as_ref()).await {
            Err(MemoryError::InUse(_)) => Ok(None),
            cx => self.resume(info.id, (name, &agent), cx?, capacity).await.map(Some),
        }
    }

    /// Starts the session of an existing log.
    async fn resume(
        &self,
        id: Arc<str>,
        agent: (Arc<str>, &GenericAgent),
        cx: RunContext,
        capacity: OwnedSemaphorePermit,
    ) -> Result<OpenSession, ApiError> {
        let mut session = self.start(id, agent, cx, capacity).await?;
        if session.is_running().await {
            // Opening it has started a run for queued input.
            let permit = self.0.parts.runs.acquire_unchecked();
            let permit = RunPermit::new(session.handle.clone(), permit);
            session.run = CurrentRun::new(permit.downgrade().into());
        }
        Ok(session)
    }

    /// Keeps a session open that was opened for a request. In a cluster an idle one is closed,
    /// since the placement decides where it is open.
    async fn keep(&self, slot: &mut SlotGuard, session: OpenSession) {
        let cluster = &self.0.parts.cluster;
        if cluster.is_configured() && !session.is_running().await {
            session.close().await;
        } else {
            slot.put(session); // closed at the end of its run
        }
    }

    /// Asks the cluster to host a session that may have work to do. If this fails, a sweep finds
    /// the session.
    async fn wake(&self, id: &str) {
        if let Err(error) = self.0.parts.cluster.wake(id).await {
            tracing::warn!(session = id, %error, "it could not be woken");
        }
    }

    /// Asks the cluster to host a session at a time, in milliseconds since 1970. If this fails, a
    /// sweep finds the schedule.
    pub(crate) async fn wake_at(&self, id: &str, time: u64) {
        if let Err(error) = self.0.parts.cluster.wake_at(id, time).await {
            tracing::warn!(session = id, %error, "no timer could be set for its schedule");
        }
    }

    /// Opens or creates the log of a session of this owner. The session works for its owner, within
    /// the owner's daily budget. A session without an owner works for the principal of the host.
    async fn context(
        &self,
        id: Arc<str>,
        owner: Option<&Principal>,
    ) -> Result<RunContext, MemoryError> {
        let Parts { store, cluster, principal, daily_budget, .. } = &self.0.parts;
        let mut cx = cluster.context(store, id).await?;
        if let Some(budget) = owner.and_then(|owner| daily_budget.of(owner)) {
            cx = cx.shared_budget(budget);
        }
        Ok(match owner.or(principal.as_ref()) {
            Some(principal) => cx.with(principal.clone()),
            None => cx,
        })
    }

    async fn start(
        &self,
        id: Arc<str>,
        (name, agent): (Arc<str>, &GenericAgent),
        cx: RunContext,
        capacity: OwnedSemaphorePermit,
    ) -> Result<OpenSession, ApiError> {
        let telemetry = &self.0.parts.telemetry;
        let (handle, events) = agent.run(telemetry.prepare(cx)).await?;
        let metrics = self.0.parts.metrics.clone();
        let state = handle.state().await?;
        let exported = telemetry.session(&name, &state);
        let source = Source { agent: name, model: state.model };
        let observer = Observer::new(metrics, source);
        let actions = self.0.parts.actions.clone();
        let sessions = Arc::downgrade(&self.0);
        let close_unused = move || {
            let Some(sessions) = sessions.upgrade() else { return };
            let id = id.clone();
            // In a separate task, since closing waits for the watcher.
            tokio::spawn(async move { sessions.close_unused(&id, IDLE_TIMEOUT).await });
        };
        let watched = watch(events, observer, exported, actions, IDLE_TIMEOUT, close_unused);
        let watcher = tokio::spawn(watched);
        Ok(OpenSession {
            handle,
            leases: Arc::default(),
            last_used: Instant::now(),
            #[cfg(feature = "long-term")]
            distilled: None,
            run: CurrentRun::default(),
            backlog: SharedBacklog::default(),
            watcher,
            _capacity: capacity,
        })
    }

    /// Returns the handle of a session if it is open, without opening or leasing it.
    pub(crate) async fn peek(&self, id: &str) -> Option<AgentHandle> {
        let mut slot = self.0.lock(id).await;
        let session = slot.session().filter(|session| !session.has_ended());
        session.map(|session| session.handle.clone())
    }

    /// Returns whether the last run in the log of a session, which has no end there, is in
    /// progress. Another process with such a run has the session open.
    pub(crate) async fn is_running(&self, id: &str) -> Result<bool, ApiError> {
        match self.peek(id).await {
            Some(handle) => Ok(handle.state().await.is_ok_and(|state| state.is_running)),
            None => Ok(self.0.parts.store.in_use(id).await? == Some(true)),
        }
    }

    /// Closes a session whose log another process has appended to. The next use reopens it.
    async fn close_now(&self, id: &str) {
        drop(self.0.lock(id).await.take()); // not awaited: the caller may hold a handle
    }

    /// Resolves when no open session has a run in progress.
    pub(crate) async fn wait_for_idle(&self) {
        join_all(self.slots().iter().map(async |slot| {
            let handle = slot.lock().await.as_ref().map(|session| session.handle.clone());
            if let Some(handle) = handle {
                handle.wait_for_idle().await;
            }
        }))
        .await;
    }

    /// Records the end of this process in the logs of the sessions with work in progress. One that
    /// is still being opened does not delay the others.
    pub(crate) async fn note_end(&self) {
        join_all(self.slots().iter().map(async |slot| {
            if let Some(session) = slot.lock().await.as_ref() {
                session.handle.note_end();
            }
        }))
        .await;
    }

    fn slots(&self) -> Vec<Slot> {
        self.0.by_id().values().cloned().collect()
    }

    /// Returns the number of open sessions.
    pub(crate) fn count(&self) -> usize {
        self.0.by_id().len()
    }
}

/// Returns an id for a new session.
fn new_id() -> Arc<str> {
    format!("s{:016x}", SystemEnvironment.random()).into()
}

/// Returns whether a session has ended here, or belongs to another process.
fn is_end(error: &InputError) -> bool {
    match error {
        InputError::Gone | InputError::Moved => true,
        InputError::Memory(error) => error.is_lost(),
        _ => false,
    }
}
