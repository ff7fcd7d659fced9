//! The sessions that are open in this process: opened at first use, once; closed when nobody has used them for a while.
//!
//! A session that is open is this process's alone. It stays open while a run goes on, while somebody listens, and for
//! [`IDLE`] after that; then it is free for others.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::future::join_all;
use loopwright::{AgentEvent, AgentHandle, Ambient, EventStream, GenericAgent, MemoryError, RunContext, SystemAmbient};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::config::Server;
use crate::error::ApiError;
use crate::metrics::Metrics;
use crate::observe::Observer;
use crate::sessions::agent;

/// A session that nobody has used for this long is closed, at most twice as long after its last use.
pub(crate) const IDLE: Duration = Duration::from_secs(60);

/// The sessions that are open. Clones are the same.
#[derive(Clone)]
pub(crate) struct Live(Arc<Sessions>);

struct Sessions {
    slots: Mutex<HashMap<Arc<str>, Slot>>,
    metrics: Arc<Metrics>,
}

/// Whoever opens, closes or deletes a session holds its lock meanwhile, so that all others wait.
type Slot = Arc<tokio::sync::Mutex<Option<Open>>>;

/// A session that is open.
struct Open {
    handle: AgentHandle,
    /// Cloned by everybody who uses the session.
    users: Arc<()>,
    /// Used since the last look.
    touched: bool,
    running: Arc<AtomicBool>,
    /// Ends when the session is free again.
    watcher: JoinHandle<()>,
}

/// A session that somebody uses: it stays open while this lives.
pub(crate) struct Used {
    pub(crate) handle: AgentHandle,
    pub(crate) user: User,
}

/// Says that somebody uses a session, but holds no handle that would keep it from being deleted.
pub(crate) struct User(#[expect(dead_code, reason = "it is counted")] Arc<()>);

impl Live {
    pub(crate) fn new(metrics: Arc<Metrics>) -> Self {
        Live(Arc::new(Sessions { slots: Mutex::default(), metrics }))
    }

    /// Begins a session with these settings and gives its id.
    pub(crate) async fn create(&self, server: &Server, settings: Value) -> Result<Arc<str>, ApiError> {
        let agent = agent::build(server, Some(&settings)).await?;
        let id: Arc<str> = format!("s{:016x}", SystemAmbient.random()).into();
        let mut open = self.0.slot(&id).lock_owned().await;
        let cx = RunContext::new().stored(&*server.shared().store, id.clone()).await?;
        *open = Some(self.start(id.clone(), &agent, cx.settings(settings)).await?);
        Ok(id)
    }

    /// A session of the store, opened if it is not open.
    pub(crate) async fn open(&self, server: &Server, id: &str) -> Result<Used, ApiError> {
        let mut open = self.0.slot(id).lock_owned().await;
        if open.is_none() {
            match self.open_stored(server, id).await {
                Ok(session) => *open = Some(session),
                Err(why) => {
                    drop(open);
                    self.0.forget(id);
                    return Err(why);
                }
            }
        }
        let Some(open) = &mut *open else { return Err(MemoryError::NoSession(id.into()).into()) };
        open.touched = true;
        Ok(Used { handle: open.handle.clone(), user: User(open.users.clone()) })
    }

    async fn open_stored(&self, server: &Server, id: &str) -> Result<Open, ApiError> {
        let store = &*server.shared().store;
        let info = store.session(id).await?;
        let agent = agent::build(server, info.settings.as_deref()).await?;
        let cx = RunContext::new().stored(store, info.id.clone()).await?;
        self.start(info.id, &agent, cx).await
    }

    async fn start(&self, id: Arc<str>, agent: &GenericAgent, cx: RunContext) -> Result<Open, ApiError> {
        let (handle, events) = agent.run(cx).await?;
        let running = Arc::new(AtomicBool::new(false));
        let model = handle.state().await?.model;
        let observer = Observer::new(self.0.metrics.clone(), id.clone(), model);
        let watcher = tokio::spawn(watch(Arc::downgrade(&self.0), id, events, running.clone(), observer));
        Ok(Open { handle, users: Arc::new(()), touched: true, running, watcher })
    }

    /// A session as it is, if it is open.
    pub(crate) async fn peek(&self, id: &str) -> Option<AgentHandle> {
        let slot = self.0.slots().get(id).cloned()?;
        slot.lock().await.as_ref().map(|open| open.handle.clone())
    }

    /// Closes a session whose log another process has gone on with. The next use opens it anew.
    pub(crate) async fn let_go(&self, id: &str) {
        let Some(slot) = self.0.slots().get(id).cloned() else { return };
        let open = slot.lock().await.take();
        drop(open); // not waited for: whoever calls this may hold a handle
    }

    /// Closes a session, so that nobody opens it meanwhile, and removes it for good; refused while a run goes on.
    pub(crate) async fn delete(&self, server: &Server, id: &str) -> Result<(), ApiError> {
        let mut open = self.0.slot(id).lock_owned().await;
        let deleted = match open.take_if(|open| !open.running.load(Ordering::Relaxed)) {
            Some(session) => {
                session.close().await;
                server.shared().store.delete(id).await
            }
            None if open.is_some() => return Err(crate::sessions::refused::running()),
            None => server.shared().store.delete(id).await,
        };
        drop(open);
        self.0.forget(id);
        Ok(deleted?)
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

    fn slot(&self, id: &str) -> Slot {
        let mut slots = self.slots();
        if let Some(slot) = slots.get(id) {
            return slot.clone();
        }
        slots.entry(id.into()).or_default().clone()
    }

    /// Removes the slot of a session that is closed, unless somebody waits for it.
    fn forget(&self, id: &str) {
        let mut slots = self.slots();
        let unused = |slot: &Slot| Arc::strong_count(slot) == 1 && slot.try_lock().is_ok_and(|open| open.is_none());
        if slots.get(id).is_some_and(unused) {
            slots.remove(id);
        }
    }

    /// Closes a session that nobody uses and nobody has used since the last look.
    async fn close_unused(&self, id: &str) {
        let Some(slot) = self.slots().get(id).cloned() else { return };
        let Ok(mut open) = slot.try_lock_owned() else { return };
        if let Some(session) = open.take_if(|open| open.is_unused()) {
            session.close().await;
        }
        drop(open);
        self.forget(id);
    }
}

impl Open {
    fn is_unused(&mut self) -> bool {
        let touched = std::mem::take(&mut self.touched);
        !touched && Arc::strong_count(&self.users) == 1 && !self.running.load(Ordering::Relaxed)
    }

    /// Waits until the session is free.
    async fn close(self) {
        let Open { handle, watcher, .. } = self;
        drop(handle);
        let _ = watcher.await; // it does not panic, and is not cancelled
    }
}

/// Sees all that a session tells, until it ends; and looks now and then whether anybody uses it.
async fn watch(
    sessions: Weak<Sessions>,
    id: Arc<str>,
    mut events: EventStream,
    running: Arc<AtomicBool>,
    mut observer: Observer,
) {
    let mut look = interval_at(Instant::now() + IDLE, IDLE);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            event = events.next() => {
                let Some(event) = event else { break };
                match &event.event {
                    AgentEvent::AgentStart { .. } => running.store(true, Ordering::Relaxed),
                    AgentEvent::AgentEnd(_) => running.store(false, Ordering::Relaxed),
                    _ => {}
                }
                observer.see(&event);
            },
            _ = look.tick() => {
                let Some(sessions) = sessions.upgrade() else { continue };
                let id = id.clone();
                // On a task of its own: closing waits for this one.
                tokio::spawn(async move { sessions.close_unused(&id).await });
            },
        }
    }
}
