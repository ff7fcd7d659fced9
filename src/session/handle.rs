//! [`AgentHandle`]: what the outside does with a session.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use crate::error::InputError;
use crate::log::compaction::Compaction;
use crate::log::event::{ExternalAction, RunOutcome};
use crate::log::input::{ActionResult, Decision, InputEvent, Prompt};
use crate::message::{CallId, InputId};
use crate::session::hub::{EventStream, Subscriber};
use crate::session::state::AgentState;
use crate::session::{Ack, Input, Mail, Receipt};

/// What a handle says to the session's task. One channel, so that what one caller says is heard in
/// the order in which it was said.
pub(crate) enum Control {
    Mail(Mail),
    /// A request or `Continue` whose caller waits for the outcome; refused while a run goes on.
    Run {
        input: Box<Input>,
        outcome: Ack<RunOutcome>,
        stream: Option<Subscriber>,
    },
    Idle(Ack<()>),
}

/// Speaks to a running session. Clones speak to the same one; when the last is dropped the session
/// ends after the run that goes on.
///
/// Methods that change something resolve when the change is durable.
#[derive(Clone)]
pub struct AgentHandle {
    pub(crate) control: mpsc::UnboundedSender<Control>,
}

impl AgentHandle {
    /// The events from here on. Dropping the stream unsubscribes.
    pub fn subscribe(&self) -> EventStream {
        let (subscriber, stream) = Subscriber::new(false);
        let _ = self.control.send(Control::Mail(Mail::Subscribe(subscriber)));
        stream
    }

    /// The events from here on, for a reader that has missed the earlier ones: first what is of no
    /// item yet, merged (the reply that streams from its `message_start`, what running tools have
    /// let know). The number is the length of the session's log at this moment: its items tell the
    /// rest, by [`SessionLog::events_after`](crate::log::SessionLog::events_after), and nothing is
    /// told twice or left out between them.
    pub async fn join(&self) -> Result<(u64, EventStream), InputError> {
        let (subscriber, stream) = Subscriber::new(false);
        let (ack, told) = oneshot::channel();
        let _ = self.control.send(Control::Mail(Mail::Join(subscriber, ack)));
        Ok((told.await.map_err(|_| InputError::Gone)?, stream))
    }

    /// Sends a request and waits until its run has ended.
    ///
    /// Fails with [`InputError::Busy`] while a run goes on. A run that ends in an error is `Ok`:
    /// its outcome says so.
    pub async fn prompt(&self, prompt: impl Into<Prompt>) -> Result<RunOutcome, InputError> {
        self.run(InputEvent::UserRequest(prompt.into()), None).await
    }

    /// Sends a request and gives the events of its run, the last of which is `agent_end`.
    pub async fn prompt_stream(
        &self,
        prompt: impl Into<Prompt>,
    ) -> Result<EventStream, InputError> {
        let (subscriber, stream) = Subscriber::new(true);
        let (receipt, _) = self.start(InputEvent::UserRequest(prompt.into()), Some(subscriber));
        receipt.await.unwrap_or(Err(InputError::Gone))?;
        Ok(stream)
    }

    /// Goes on from where the conversation stands: after an error, an interruption, or with what
    /// waits in the queues. Waits until the run has ended.
    pub async fn continue_run(&self) -> Result<RunOutcome, InputError> {
        self.run(InputEvent::Continue(None), None).await
    }

    /// Sends any input event and gives its id. A request that is sent during a run waits its turn;
    /// at most 32 do.
    ///
    /// What is no input of the log has no id that lasts: `ClearQueues`, `CompactionPolicy`,
    /// `Continue` without a message, and an abort or a reset at rest are given one that a later
    /// input may get too. `CompactionPolicy` resolves when it is done.
    pub async fn send(&self, event: InputEvent) -> Result<InputId, InputError> {
        Ok(self.input(event).await?.id)
    }

    /// Sends a message that should change the run that is going on; at rest it waits for the next
    /// run.
    pub async fn steer(&self, prompt: impl Into<Prompt>) -> Result<InputId, InputError> {
        self.send(InputEvent::Steer(prompt.into())).await
    }

    /// Sends a message that waits until the agent would otherwise stop.
    pub async fn follow_up(&self, prompt: impl Into<Prompt>) -> Result<InputId, InputError> {
        self.send(InputEvent::FollowUp(prompt.into())).await
    }

    /// Stops the run that goes on; queued messages are handed back in `agent_end`. At rest it
    /// answers open calls "aborted". Resolves when the wish is durable;
    /// [`AgentHandle::wait_for_idle`] waits for the end.
    pub async fn abort(&self) -> Result<(), InputError> {
        self.input(InputEvent::Abort).await.map(drop)
    }

    /// Aborts and begins the conversation anew. Gives the texts of what waited: requests, steers
    /// and follow-ups.
    pub async fn reset(&self) -> Result<Vec<String>, InputError> {
        Ok(self.input(InputEvent::Reset).await?.taken_back)
    }

    /// Takes back what waits in the steering and follow-up queues, and gives the texts.
    pub async fn clear_queues(&self) -> Result<Vec<String>, InputError> {
        Ok(self.input(InputEvent::ClearQueues).await?.taken_back)
    }

    /// Has older messages replaced by a summary that minds these instructions, and gives what was
    /// replaced: nothing where there is nothing to replace.
    ///
    /// At rest that is a run of its own, without a reply, for which the counters of the limits
    /// begin anew; while a run goes on it is done before its next request, or right after it.
    /// Resolves when it is done, so a tool or a hook of the same session that awaits it waits for
    /// itself.
    ///
    /// What is too much for one summary may be replaced piece by piece: where a later piece fails,
    /// or a steer interrupts it, the earlier ones stay replaced and are given, and the rest is left
    /// as it is. What a policy plans to leave out without a summary (with `Compacting`, a turn too
    /// large for one) is left out: [`Compaction::summarised`] says so.
    ///
    /// Fails with [`InputError::NoCompaction`] where the agent has no
    /// [policy](crate::AgentBuilder::compaction), and with [`InputError::NotCompacted`] while calls
    /// wait for an answer, or where the first summary fails or is interrupted: then nothing has
    /// changed.
    pub async fn compact(
        &self,
        instructions: Option<&str>,
    ) -> Result<Vec<Arc<Compaction>>, InputError> {
        Ok(self.input(InputEvent::Compact(instructions.map(str::to_owned))).await?.compacted)
    }

    /// The calls that wait for an answer from outside.
    pub async fn pending(&self) -> Result<Vec<ExternalAction>, InputError> {
        Ok(self.state().await?.pending_actions)
    }

    /// Resolves a pending action. `digest` is that of the [`ExternalAction`] that was shown. When
    /// every call of the batch is resolved, the run resumes.
    ///
    /// # Errors
    ///
    /// Fails with [`InputError::NotPending`] if the call is not pending,
    /// [`InputError::DigestDiffers`] if its arguments are not those that were shown, and
    /// [`InputError::BadArguments`] or [`InputError::BadDecision`] if the decision does not fit the
    /// action. A refused decision changes nothing.
    pub async fn resolve(
        &self,
        call: impl Into<CallId>,
        digest: impl Into<Arc<str>>,
        decision: Decision,
    ) -> Result<InputId, InputError> {
        self.send(InputEvent::ExternalActionResult(ActionResult::new(call, digest, decision))).await
    }

    /// Resolves when no run goes on and none is about to start, after all that this handle has sent
    /// before.
    pub async fn wait_for_idle(&self) {
        let (ack, told) = oneshot::channel();
        let _ = self.control.send(Control::Idle(ack));
        let _ = told.await;
    }

    /// A snapshot of the session.
    pub async fn state(&self) -> Result<AgentState, InputError> {
        let (ack, told) = oneshot::channel();
        let _ = self.control.send(Control::Mail(Mail::State(ack)));
        told.await.map_err(|_| InputError::Gone)
    }

    /// Says it at once; whoever wants its receipt waits for it.
    pub(crate) fn say(&self, event: InputEvent) -> oneshot::Receiver<Result<Receipt, InputError>> {
        let (ack, told) = oneshot::channel();
        let _ = self.control.send(Control::Mail(Mail::Input(Box::new(Input { event, ack }))));
        told
    }

    async fn input(&self, event: InputEvent) -> Result<Receipt, InputError> {
        self.say(event).await.unwrap_or(Err(InputError::Gone))
    }

    async fn run(
        &self,
        event: InputEvent,
        stream: Option<Subscriber>,
    ) -> Result<RunOutcome, InputError> {
        let (receipt, outcome) = self.start(event, stream);
        receipt.await.unwrap_or(Err(InputError::Gone))?;
        outcome.await.map_err(|_| InputError::Gone)
    }

    fn start(
        &self,
        event: InputEvent,
        stream: Option<Subscriber>,
    ) -> (oneshot::Receiver<Result<Receipt, InputError>>, oneshot::Receiver<RunOutcome>) {
        let ((ack, receipt), (outcome, told)) = (oneshot::channel(), oneshot::channel());
        let _ = self.control.send(Control::Run {
            input: Box::new(Input { event, ack }),
            outcome,
            stream,
        });
        (receipt, told)
    }
}
