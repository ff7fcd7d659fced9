//! [`ClusterSession`]: a session of a cluster.

use std::sync::Arc;
use std::time::Duration;

use loopwright_core::event::{
    ActionResult, Decision, ExternalAction, Input, InputEvent, Prompt, Provided,
};
use loopwright_core::log::{MemoryError, PostedInput, Schedule, SessionInfo, post_and_wait};
use loopwright_core::message::{InputId, new_input_id};
use loopwright_core::serde_json::Value;
use loopwright_core::{Environment, SystemEnvironment};

use crate::error::ClusterError;
use crate::events::ClusterEvents;
use crate::host::Host;
use crate::worker::Worker;

/// Maximum number of attempts to create a session that another worker is creating.
const MAX_CREATIONS: u32 = 500;
const CREATION_PAUSE: Duration = Duration::from_millis(20);

/// A session of a cluster, identified by its name. Clones refer to the same session.
///
/// Its methods are an [`AgentHandle`](loopwright_core::AgentHandle)'s, except that it holds nothing
/// open: an idle session is open in no process, and each input has it opened on some worker. So
/// [`prompt`](ClusterSession::prompt) returns when the message is durable, not when its run has
/// ended, and [`events`](ClusterSession::events) has the outcome.
///
/// # Contract
///
/// An input is durable when its method returns its id. The session takes it once, even if processes
/// die in the meantime. If a caller waits for each input, they are taken in order. If a method
/// fails or its future is dropped, the input may or may not be posted. An input that may have to be
/// sent again needs an id ([`InputEvent::with_id`]) for [`post`](ClusterSession::post) or
/// [`send`](ClusterSession::send): the second copy changes nothing.
#[derive(Clone)]
pub struct ClusterSession {
    worker: Arc<Worker>,
    id: Arc<str>,
}

impl ClusterSession {
    pub(crate) fn new(worker: Arc<Worker>, id: Arc<str>) -> Self {
        ClusterSession { worker, id }
    }

    /// Returns the name of the session.
    pub fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// Sends a message that starts a run. See [`post`](ClusterSession::post).
    pub async fn prompt(&self, prompt: impl Into<Prompt>) -> Result<InputId, ClusterError> {
        self.post(InputEvent::UserRequest(prompt.into())).await
    }

    /// Sends a message that changes the run in progress. See [`post`](ClusterSession::post).
    pub async fn steer(&self, prompt: impl Into<Prompt>) -> Result<InputId, ClusterError> {
        self.post(InputEvent::Steer(prompt.into())).await
    }

    /// Sends a message that is delivered when the agent would otherwise stop. See
    /// [`post`](ClusterSession::post).
    pub async fn follow_up(&self, prompt: impl Into<Prompt>) -> Result<InputId, ClusterError> {
        self.post(InputEvent::FollowUp(prompt.into())).await
    }

    /// Sends a signal to the pattern, which takes it when it
    /// [waits for an event](loopwright_core::StepContext::wait_for_event) under this key. See
    /// [`send`](ClusterSession::send).
    pub async fn signal(
        &self,
        key: impl Into<Arc<str>>,
        value: impl Into<Value>,
    ) -> Result<InputId, ClusterError> {
        self.send(InputEvent::Signal { key: key.into(), value: value.into() }).await
    }

    /// Lets a pending call run, once, with the arguments that were shown. See
    /// [`resolve`](ClusterSession::resolve).
    pub async fn approve(&self, action: &ExternalAction) -> Result<InputId, ClusterError> {
        self.resolve(action, Decision::Approve).await
    }

    /// Refuses a pending action. The model gets the reason, which may be empty. See
    /// [`resolve`](ClusterSession::resolve).
    pub async fn deny(
        &self,
        action: &ExternalAction,
        reason: impl Into<String>,
    ) -> Result<InputId, ClusterError> {
        self.resolve(action, Decision::Deny(reason.into())).await
    }

    /// Provides the input that a pending action asks for. See [`resolve`](ClusterSession::resolve).
    pub async fn answer(
        &self,
        action: &ExternalAction,
        value: impl Into<Value>,
    ) -> Result<InputId, ClusterError> {
        self.resolve(action, Decision::Provide(Provided::Input(value.into()))).await
    }

    /// Resolves a pending action, and waits until the session has taken the decision. See
    /// [`send`](ClusterSession::send).
    pub async fn resolve(
        &self,
        action: &ExternalAction,
        decision: Decision,
    ) -> Result<InputId, ClusterError> {
        let result = ActionResult::new(action.call.clone(), action.digest.clone(), decision);
        self.send(result).await
    }

    /// Stops the run in progress, its pending calls or its sleep, and waits until the session has
    /// taken the abort. See [`send`](ClusterSession::send).
    pub async fn abort(&self) -> Result<(), ClusterError> {
        self.send(InputEvent::Abort(Default::default())).await.map(drop)
    }

    /// Posts an input, and returns its id when it is durable. The session takes it soon, and may
    /// still refuse it. A missing session is created. An abort without a run means the last one.
    ///
    /// # Errors
    ///
    /// Fails if the input cannot be posted, or was refused before under the same id.
    pub async fn post(&self, input: impl Into<Input>) -> Result<InputId, ClusterError> {
        let input = self.input(input.into()).await?;
        self.deliver(&input).await?;
        Ok(input.id)
    }

    /// Posts an input, and waits until the session has taken or refused it. A missing session is
    /// created. An abort without a run means the last one.
    ///
    /// # Errors
    ///
    /// Fails if the input cannot be posted, and with [`ClusterError::Input`] if the session has
    /// refused it. A refused input changes nothing.
    pub async fn send(&self, input: impl Into<Input>) -> Result<InputId, ClusterError> {
        let input = self.input(input.into()).await?;
        self.deliver(&input).await?;
        post_and_wait(&*self.worker.store, &self.id, &input).await?.into_result()?;
        Ok(input.id)
    }

    /// Returns the events after number `after`, including future ones, for as long as the session
    /// exists.
    pub fn events(&self, after: u64) -> ClusterEvents {
        ClusterEvents::new(self.worker.clone(), self.id.clone(), after)
    }

    /// Returns the description of the session.
    ///
    /// # Errors
    ///
    /// Fails with [`MemoryError::NoSession`] if it does not exist.
    pub async fn info(&self) -> Result<SessionInfo, ClusterError> {
        Ok(self.worker.store.session(&self.id).await?)
    }

    /// Schedules an input for a time, in milliseconds since 1970, under this id. Replaces another
    /// schedule of the session with the same id.
    ///
    /// # Errors
    ///
    /// Fails if the input cannot be posted, or the store has no schedules.
    pub async fn schedule(
        &self,
        id: impl Into<Arc<str>>,
        time: u64,
        event: InputEvent,
    ) -> Result<(), ClusterError> {
        self.put_schedule(Schedule::once(self.id.clone(), id, time, event)).await
    }

    /// Schedules an input for the times of a cron expression, such as `0 9 * * MON`, in a time
    /// zone, such as `Europe/Berlin`, or in UTC. See
    /// [`Cron`](loopwright_core::log::Cron) for expressions. Replaces another
    /// schedule of the session with the same id. Times that pass while no worker runs are made up
    /// for once.
    ///
    /// # Errors
    ///
    /// Fails like [`schedule`](ClusterSession::schedule), and if the expression or the time zone is
    /// invalid, or has no time in the future.
    pub async fn repeat(
        &self,
        id: impl Into<Arc<str>>,
        cron: &str,
        time_zone: Option<&str>,
        event: InputEvent,
    ) -> Result<(), ClusterError> {
        let now = SystemEnvironment.now();
        let schedule = Schedule::repeat(self.id.clone(), id, cron, time_zone, now, event)?;
        self.put_schedule(schedule).await
    }

    /// Returns the schedules, sorted by id.
    ///
    /// # Errors
    ///
    /// Fails if the store fails or has no schedules.
    pub async fn schedules(&self) -> Result<Vec<Schedule>, ClusterError> {
        let schedules = self.worker.store.schedules().ok_or(MemoryError::NoSchedules)?;
        Ok(schedules.of_session(&self.id).await?)
    }

    /// Removes a schedule. Returns `false` if the session has no schedule with this id.
    ///
    /// # Errors
    ///
    /// Fails if the store fails or has no schedules.
    pub async fn unschedule(&self, id: &str) -> Result<bool, ClusterError> {
        let schedules = self.worker.store.schedules().ok_or(MemoryError::NoSchedules)?;
        Ok(schedules.remove(&self.id, id).await?)
    }

    async fn put_schedule(&self, schedule: Schedule) -> Result<(), ClusterError> {
        let Worker { store, placement, host, .. } = &*self.worker;
        schedule.check()?;
        let schedules = store.schedules().ok_or(MemoryError::NoSchedules)?;
        let mut created = Created::default();
        loop {
            match schedules.put(&schedule).await {
                Err(MemoryError::NoSession(_)) => created.create(&**host, &self.id).await?,
                put => {
                    put?;
                    // Without it, a sweep finds the schedule.
                    return Ok(placement.wake_at(&self.id, schedule.next).await?);
                }
            }
        }
    }

    async fn input(&self, input: Input) -> Result<PostedInput, ClusterError> {
        let Input { id, mut event } = input;
        event.name_run(&*self.worker.store, &self.id).await?;
        Ok(PostedInput::new(id.unwrap_or_else(new_input_id), event)?)
    }

    /// Posts an input and has it handled. Succeeds only when both are durable.
    async fn deliver(&self, input: &PostedInput) -> Result<(), ClusterError> {
        let Worker { store, placement, host, .. } = &*self.worker;
        let mut created = Created::default();
        loop {
            match store.post(&self.id, input).await {
                Err(MemoryError::NoSession(_)) => created.create(&**host, &self.id).await?,
                Ok(Some(receipt)) => return Ok(receipt.into_result()?),
                posted => {
                    posted?;
                    return placement.wake(&self.id).await.map_err(ClusterError::NotWoken);
                }
            }
        }
    }
}

/// The attempts to create a session.
#[derive(Default)]
struct Created(u32);

impl Created {
    /// Creates a missing session, or waits while another worker creates it.
    async fn create(&mut self, host: &dyn Host, session: &str) -> Result<(), ClusterError> {
        self.0 += 1;
        match host.create(session).await {
            Err(ClusterError::Memory(MemoryError::InUse(_))) if self.0 < MAX_CREATIONS => {
                tokio::time::sleep(CREATION_PAUSE).await;
                Ok(())
            }
            created => created,
        }
    }
}
