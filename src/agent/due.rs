//! The work of a store's sessions that is due, for a process without a server.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::agent::{GenericAgent, RunContext};
use crate::error::{AgentError, Failure, MemoryError};
use crate::log::due::Due;
use crate::log::due_work::{DueSessions, keep_running_due_work, run_due_work};
use crate::log::session_info::SessionInfo;
use crate::log::store::SessionStore;

/// Maximum time between two lists of the sessions: other processes may have changed them.
const MAX_PAUSE: Duration = Duration::from_secs(10);

/// The sessions of a store that an agent works on.
struct Sessions<S> {
    agent: GenericAgent,
    store: S,
}

impl GenericAgent {
    /// Opens the sessions of a store that have work to do, and waits until the work has ended: a
    /// [timer](crate::StepContext::sleep_until) rings, the deadline of an action has passed, inputs
    /// such as signals were posted or queued, a [schedule](crate::log::Schedule) is due, or the
    /// process that had the session open died during a run. Returns the next time at which a
    /// session has work to do without an input, in milliseconds since 1970; a time in the past
    /// belongs to a session that could not be worked on.
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
        run_due_work(Sessions::new(self, store)).await
    }

    /// Does the due work of a store again and again, as [`GenericAgent::run_due`] does: for a
    /// process on one machine that wakes sleeping agents without a server. It looks at the
    /// schedules once a second, and at the sessions when the next timer rings and at least every
    /// ten seconds. It never ends; drop the future to stop it.
    pub async fn keep_running_due(
        &self,
        store: &(impl SessionStore + Clone + 'static),
    ) -> Infallible {
        let sessions = Sessions::new(self, store);
        keep_running_due_work(|| Some(sessions.clone()), MAX_PAUSE).await;
        pending().await
    }
}

impl<S: SessionStore + Clone + 'static> Sessions<S> {
    fn new(agent: &GenericAgent, store: &S) -> Arc<Self> {
        Arc::new(Sessions { agent: agent.clone(), store: store.clone() })
    }

    async fn open(&self, id: &str) -> Result<bool, AgentError> {
        match self.store.session(id).await {
            Err(MemoryError::NoSession(_)) => return Ok(true), // it was deleted
            // Another process was faster.
            Ok(info) if info.due_at(self.now()).is_none() => return Ok(true),
            info => drop(info?),
        }
        let context = match RunContext::new().stored(&self.store, id).await {
            Err(MemoryError::InUse(_)) => return Ok(false),
            context => context?,
        };
        let (handle, _) = self.agent.run(context.continue_interrupted()).await?;
        handle.wait_for_idle().await;
        handle.close().await;
        Ok(true)
    }
}

#[async_trait]
impl<S: SessionStore + Clone + 'static> DueSessions for Sessions<S> {
    fn store(&self) -> &dyn SessionStore {
        &self.store
    }

    fn now(&self) -> u64 {
        self.agent.config.environment.now()
    }

    fn takes(&self, _due: Due) -> bool {
        true // `run` continues interrupted runs too
    }

    async fn work(&self, session: &SessionInfo, _due: Due) -> Result<bool, Failure> {
        self.open(&session.id).await.map_err(Failure::of)
    }
}
