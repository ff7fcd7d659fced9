//! Open sessions of a cluster's own host.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use loopwright_core::event::StreamEnd;
use loopwright_core::log::{Due, MemoryError, SessionInfo};
use loopwright_core::{AgentHandle, EventStream, RunContext, SessionStore};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use crate::agents::Agents;
use crate::error::ClusterError;
use crate::handover::HandOver;
use crate::host::{Host, Hosted};

/// A host that opens sessions with the agents of a cluster. Clones share the sessions.
#[derive(Clone)]
pub(crate) struct Hosting(Arc<Parts>);

struct Parts {
    store: Arc<dyn SessionStore>,
    agents: Box<dyn Agents>,
    /// The time for which a session without work stays open.
    idle_timeout: Duration,
    max_sessions: usize,
    hand_over: HandOver,
    sessions: Mutex<HashMap<Arc<str>, Session>>,
    tasks: TaskTracker,
}

/// A session that is open or being opened.
struct Session {
    /// `None` until it is open.
    handle: Option<AgentHandle>,
    ended: Shared<BoxFuture<'static, Result<Hosted, ClusterError>>>,
}

impl Hosting {
    pub(crate) fn new(
        store: Arc<dyn SessionStore>,
        agents: Box<dyn Agents>,
        idle_timeout: Duration,
        max_sessions: usize,
    ) -> Self {
        Hosting(Arc::new(Parts {
            store,
            agents,
            idle_timeout,
            max_sessions,
            hand_over: HandOver::new(),
            sessions: Mutex::default(),
            tasks: TaskTracker::new(),
        }))
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<Arc<str>, Session>> {
        self.0.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the end of a session that is open here or is opened now.
    fn start(
        &self,
        id: &str,
    ) -> Result<Shared<BoxFuture<'static, Result<Hosted, ClusterError>>>, ClusterError> {
        let mut sessions = self.sessions();
        if let Some(session) = sessions.get(id) {
            return Ok(session.ended.clone());
        }
        if self.0.hand_over.has_started() {
            return Err(ClusterError::Draining);
        }
        if sessions.len() >= self.0.max_sessions {
            return Err(ClusterError::Full(sessions.len()));
        }
        let id: Arc<str> = id.into();
        let (hosting, name) = (self.clone(), id.clone());
        // A separate task, so that it ends even if no caller waits.
        let task = self.0.tasks.spawn(async move {
            let _open = OpenGuard { hosting: &hosting, id: &name };
            hosting.host_to_end(&name).await
        });
        let ended = task.map(|ended| {
            ended.unwrap_or_else(|error| {
                let why = format!("the task of the session has failed: {error}");
                Err(MemoryError::Failed(why.into()).into())
            })
        });
        let ended = ended.boxed().shared();
        sessions.insert(id, Session { handle: None, ended: ended.clone() });
        Ok(ended)
    }

    async fn host_to_end(&self, id: &Arc<str>) -> Result<Hosted, ClusterError> {
        if self.0.store.in_use(id).await? == Some(true) {
            return Ok(Hosted::InUse); // before the agent is asked for
        }
        let (handle, events) = match self.open(id, false).await {
            Err(ClusterError::Memory(MemoryError::InUse(_))) => return Ok(Hosted::InUse),
            // It was deleted, or its root session opens it.
            Err(ClusterError::Memory(MemoryError::NoSession(_) | MemoryError::SubAgent { .. })) => {
                return Ok(Hosted::Closed);
            }
            opened => opened?,
        };
        if let Some(session) = self.sessions().get_mut(id) {
            session.handle = Some(handle.clone());
        }
        let has_moved = self.keep_open(id, handle, events).await;
        let is_left = has_moved || self.0.hand_over.has_started();
        Ok(if is_left { Hosted::HandedOver } else { Hosted::Closed })
    }

    /// Opens a session, which continues an interrupted run, or creates it.
    async fn open(
        &self,
        id: &Arc<str>,
        creates: bool,
    ) -> Result<(AgentHandle, EventStream), ClusterError> {
        let Parts { store, agents, hand_over, .. } = &*self.0;
        let info = match store.session(id).await {
            Err(MemoryError::NoSession(_)) if creates => SessionInfo::new(id.clone()),
            info => info?,
        };
        info.require_root()?;
        let agent = agents.agent(&info).await?;
        let memory = hand_over.open(store, id).await?;
        let mut cx = RunContext::new().session(id.clone()).memory(memory);
        cx = cx.sub_agents_in(store.clone()).continue_interrupted();
        if let Some(owner) = info.owner {
            cx = cx.with(owner);
        }
        Ok(agent.run(cx).await?)
    }

    /// Waits until a session has nothing to do or must leave, and closes it. Returns whether it now
    /// belongs to another owner.
    async fn keep_open(&self, id: &Arc<str>, handle: AgentHandle, mut events: EventStream) -> bool {
        let Parts { store, idle_timeout, hand_over, .. } = &*self.0;
        // A session that was opened for nothing is closed at once: a placement may call again for
        // each input that an earlier opening has taken.
        let mut pause = Duration::ZERO;
        loop {
            // A session that is handed over during a run ends by itself.
            let idle = async {
                handle.wait_for_idle().await;
                timeout(pause, hand_over.started()).await.is_ok()
            };
            tokio::select! { biased;
                event = events.next() => match event {
                    Some(_) => pause = *idle_timeout, // which starts again
                    None => break,
                },
                is_draining = idle => {
                    // The session is about to read inputs that were posted meanwhile.
                    let due = store.session(id).await.map_or(None, |info| info.due);
                    if (due != Some(Due::Inbox) || is_draining) && events.try_next().is_none() {
                        break;
                    }
                }
            }
        }
        if let Some(session) = self.sessions().get_mut(id) {
            session.handle = None;
        }
        handle.close().await;
        events.end() == Some(StreamEnd::Moved)
    }
}

/// A guard that removes a session from the open ones on drop.
struct OpenGuard<'a> {
    hosting: &'a Hosting,
    id: &'a Arc<str>,
}

impl Drop for OpenGuard<'_> {
    fn drop(&mut self) {
        self.hosting.sessions().remove(self.id);
    }
}

#[async_trait]
impl Host for Hosting {
    async fn host(&self, session: &str) -> Result<Hosted, ClusterError> {
        let ended = self.start(session)?;
        ended.await
    }

    async fn create(&self, session: &str) -> Result<(), ClusterError> {
        let (handle, _events) = self.open(&session.into(), true).await?;
        handle.close().await;
        Ok(())
    }

    async fn open_session(&self, session: &str) -> Option<AgentHandle> {
        self.sessions().get(session)?.handle.clone()
    }

    async fn drain(&self) {
        // A turn may take longer than the process has.
        self.sessions()
            .values()
            .filter_map(|it| it.handle.as_ref())
            .for_each(AgentHandle::note_end);
        self.0.hand_over.start();
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }
}
