//! The sessions that are open in this process: opened at first use, once; closed when nobody has
//! used them for a while.
//!
//! A session that is open is this process's alone. It stays open while a run goes on, while
//! somebody listens, and for [`IDLE`] after that; then it is free for others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::future::join_all;
use loopwright_core::agent::{Environment, SystemEnvironment};
use loopwright_core::log::MemoryError;
use loopwright_core::{AgentHandle, EventStream, GenericAgent, RunContext};
use serde_json::Value;
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::config::Server;
use crate::error::{ApiError, Kind};
use crate::metrics::Metrics;
use crate::observe::Observer;
use crate::sessions::agent;
use crate::shares::{Begun, Client, Run};

/// A session that nobody has used for this long is closed, at most twice as long after its last
/// use.
pub(crate) const IDLE: Duration = Duration::from_secs(60);

/// The sessions that are open. Clones are the same.
#[derive(Clone)]
pub(crate) struct Live(Arc<Sessions>);

struct Sessions {
    slots: Mutex<HashMap<Arc<str>, Slot>>,
    /// For so many open sessions there is room.
    places: Arc<Semaphore>,
    metrics: Arc<Metrics>,
}

/// Whoever opens, closes or deletes a session holds its lock meanwhile, so that all others wait.
type Slot = Arc<tokio::sync::Mutex<Option<Open>>>;

/// The lock of a session. A slot that nobody needs goes with it, also when a request is given up
/// half-way.
struct Held {
    sessions: Arc<Sessions>,
    id: Arc<str>,
    slot: Option<OwnedMutexGuard<Option<Open>>>,
}

/// A session that is open.
struct Open {
    handle: AgentHandle,
    /// Cloned by everybody who uses the session.
    users: Arc<()>,
    /// The last use.
    used: Instant,
    run: Running,
    /// Ends when the session is free again.
    watcher: JoinHandle<()>,
    _place: OwnedSemaphorePermit,
}

/// A session's run, which has its place among all; none at rest.
type Running = Arc<tokio::sync::Mutex<Weak<Run>>>;

/// A session that somebody uses: it stays open while this lives.
pub(crate) struct Used {
    pub(crate) handle: AgentHandle,
    pub(crate) user: User,
    run: Running,
}

/// Says that somebody uses a session, but holds no handle that would keep it from being deleted.
pub(crate) struct User(#[expect(dead_code, reason = "it is counted")] Arc<()>);

impl Used {
    /// Takes one of the client's runs, unless a run goes on in this session: then whatever comes is
    /// a part of that one, or waits for it.
    pub(crate) async fn begin(&self, server: &Server, client: Client) -> Result<Begun, ApiError> {
        let mut run = self.run.lock().await;
        if let Some(begun) = Begun::of(&run) {
            return Ok(begun);
        }
        let shared = server.shared();
        shared.drain.check()?;
        let begun =
            Begun::new(self.handle.clone(), shared.runs.begin(client, &shared.limits).await?);
        *run = begun.run();
        Ok(begun)
    }
}

impl Live {
    /// With room for so many open sessions.
    pub(crate) fn new(metrics: Arc<Metrics>, places: usize) -> Self {
        let places = Arc::new(Semaphore::new(places.min(Semaphore::MAX_PERMITS)));
        Live(Arc::new(Sessions { slots: Mutex::default(), places, metrics }))
    }

    /// Begins a session with these settings and gives its id.
    pub(crate) async fn create(
        &self,
        server: &Server,
        settings: Value,
    ) -> Result<Arc<str>, ApiError> {
        let agent = agent::build(server, Some(&settings)).await?;
        let id: Arc<str> = format!("s{:016x}", SystemEnvironment.random()).into();
        let mut held = self.0.hold(&id).await;
        let place = self.0.place().await?;
        let cx = RunContext::new().stored(&*server.shared().store, id.clone()).await?;
        held.put(self.start(id.clone(), &agent, cx.settings(settings), place).await?);
        Ok(id)
    }

    /// A session of the store, opened if it is not open.
    pub(crate) async fn open(&self, server: &Server, id: &str) -> Result<Used, ApiError> {
        let mut held = self.0.hold(id).await;
        if held.open().is_none_or(|open| open.watcher.is_finished()) {
            drop(held.take());
            let session = self.open_stored(server, id).await?;
            held.put(session);
        }
        let Some(open) = held.open() else {
            return Err(MemoryError::NoSession(id.into()).into());
        };
        open.used = Instant::now();
        Ok(Used {
            handle: open.handle.clone(),
            user: User(open.users.clone()),
            run: open.run.clone(),
        })
    }

    async fn open_stored(&self, server: &Server, id: &str) -> Result<Open, ApiError> {
        let store = &*server.shared().store;
        let info = store.session(id).await?;
        let place = self.0.place().await?;
        let agent = agent::build(server, info.settings.as_deref()).await?;
        let cx = RunContext::new().stored(store, info.id.clone()).await?;
        let mut open = self.start(info.id, &agent, cx, place).await?;
        if open.is_running().await {
            // What had waited began by itself.
            let begun = Begun::new(open.handle.clone(), server.shared().runs.begun_by_itself());
            open.run = Running::new(begun.run().into());
        }
        Ok(open)
    }

    async fn start(
        &self,
        id: Arc<str>,
        agent: &GenericAgent,
        cx: RunContext,
        place: OwnedSemaphorePermit,
    ) -> Result<Open, ApiError> {
        let (handle, events) = agent.run(cx).await?;
        let observer = Observer::new(self.0.metrics.clone(), handle.state().await?.model);
        let watcher = tokio::spawn(watch(Arc::downgrade(&self.0), id, events, observer));
        let (users, run) = (Arc::new(()), Running::default());
        Ok(Open { handle, users, used: Instant::now(), run, watcher, _place: place })
    }

    /// A session as it is, if it is open.
    pub(crate) async fn peek(&self, id: &str) -> Option<AgentHandle> {
        self.0.hold(id).await.open().map(|open| open.handle.clone())
    }

    /// Whether it is open and a run goes on in it.
    pub(crate) async fn is_running(&self, id: &str) -> bool {
        match self.peek(id).await {
            Some(handle) => handle.state().await.is_ok_and(|state| state.is_running),
            None => false,
        }
    }

    /// Closes a session whose log another process has gone on with. The next use opens it anew.
    pub(crate) async fn let_go(&self, id: &str) {
        drop(self.0.hold(id).await.take()); // not waited for: whoever calls this may hold a handle
    }

    /// Closes a session, so that nobody opens it meanwhile, and removes it for good; refused while
    /// a run goes on.
    pub(crate) async fn delete(&self, server: &Server, id: &str) -> Result<(), ApiError> {
        let mut held = self.0.hold(id).await;
        if let Some(open) = held.open()
            && open.is_running().await
        {
            return Err(crate::sessions::refused::running());
        }
        if let Some(open) = held.take() {
            open.close().await;
        }
        Ok(server.shared().store.delete(id).await?)
    }

    /// Resolves when no session has a run that goes on.
    pub(crate) async fn at_rest(&self) {
        let slots: Vec<Slot> = self.0.slots().values().cloned().collect();
        let mut handles = Vec::new();
        for slot in slots {
            handles.extend(slot.lock().await.as_ref().map(|open| open.handle.clone()));
        }
        join_all(handles.iter().map(AgentHandle::wait_for_idle)).await;
    }

    /// How many are open.
    pub(crate) fn count(&self) -> usize {
        self.0.slots().len()
    }
}

impl Sessions {
    fn slots(&self) -> MutexGuard<'_, HashMap<Arc<str>, Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the session's lock.
    async fn hold(self: &Arc<Self>, id: &str) -> Held {
        let mut held = Held { sessions: self.clone(), id: id.into(), slot: None };
        let slot = self.slots().entry(held.id.clone()).or_default().clone();
        held.slot = Some(slot.lock_owned().await);
        held
    }

    /// Room for one more open session; one that nobody uses makes it.
    async fn place(self: &Arc<Self>) -> Result<OwnedSemaphorePermit, ApiError> {
        loop {
            if let Ok(place) = self.places.clone().try_acquire_owned() {
                return Ok(place);
            }
            if !self.close_oldest().await {
                let why = "Too many sessions are open, and all are in use: close a page, or wait until a run has ended.";
                return Err(ApiError::new(Kind::TooMany, why));
            }
        }
    }

    /// Closes the one that nobody has used for the longest time, if there is one that nobody uses.
    async fn close_oldest(self: &Arc<Self>) -> bool {
        let last_use = |(id, slot): (&Arc<str>, &Slot)| {
            let open = slot.try_lock().ok()?;
            let open = open.as_ref().filter(|open| open.is_unused())?;
            Some((open.used, id.clone()))
        };
        let mut unused: Vec<_> = self.slots().iter().filter_map(last_use).collect();
        unused.sort();
        for (_, id) in unused {
            if self.close_unused(&id, Duration::ZERO).await {
                return true;
            }
        }
        false
    }

    /// Closes a session that nobody uses and nobody has used for this long, unless a run goes on in
    /// it.
    async fn close_unused(self: &Arc<Self>, id: &str, time: Duration) -> bool {
        let slot = self.slots().get(id).and_then(|slot| slot.clone().try_lock_owned().ok());
        let Some(slot) = slot else { return false };
        let mut held = Held { sessions: self.clone(), id: id.into(), slot: Some(slot) };
        let Some(open) = held.open() else {
            return false;
        };
        if !open.is_unused() || open.used.elapsed() < time || open.is_running().await {
            return false;
        }
        if let Some(open) = held.take() {
            open.close().await;
        }
        true
    }
}

impl Held {
    fn open(&mut self) -> Option<&mut Open> {
        self.slot.as_deref_mut()?.as_mut()
    }

    fn put(&mut self, open: Open) {
        if let Some(slot) = &mut self.slot {
            **slot = Some(open);
        }
    }

    fn take(&mut self) -> Option<Open> {
        self.slot.as_mut()?.take()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.slot = None;
        let mut slots = self.sessions.slots();
        // Unless it is open, or somebody waits for it.
        let unneeded = |slot: &Slot| {
            Arc::strong_count(slot) == 1 && slot.try_lock().is_ok_and(|open| open.is_none())
        };
        if slots.get(&self.id).is_some_and(unneeded) {
            slots.remove(&self.id);
        }
    }
}

impl Open {
    /// Whether no request and no reader has it.
    fn is_unused(&self) -> bool {
        Arc::strong_count(&self.users) == 1
    }

    /// Asked of the session itself: it knows of what it has taken a moment ago.
    async fn is_running(&self) -> bool {
        self.handle.state().await.is_ok_and(|state| state.is_running)
    }

    /// Waits until the session is free.
    async fn close(self) {
        let Open { handle, watcher, _place, .. } = self;
        drop(handle);
        let _ = watcher.await; // it does not panic, and is not cancelled
    }
}

/// Sees all that a session tells, until it ends; and looks now and then whether anybody uses it.
async fn watch(
    sessions: Weak<Sessions>,
    id: Arc<str>,
    mut events: EventStream,
    mut observer: Observer,
) {
    let mut look = interval_at(Instant::now() + IDLE, IDLE);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            event = events.next() => {
                let Some(event) = event else { break };
                observer.see(&event);
            },
            _ = look.tick() => {
                let Some(sessions) = sessions.upgrade() else { continue };
                let id = id.clone();
                // On a task of its own: closing waits for this one.
                tokio::spawn(async move { sessions.close_unused(&id, IDLE).await });
            },
        }
    }
}
