//! [`StepContext`]: what a pattern holds in its hand. Every verb that waits also hears.

use std::any::Any;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::error::StepError;
use crate::log::entry::LogEntry;
use crate::log::event::RunCause;
use crate::log::input::{Decision, QueueKind, QueueMode, Urgency};
use crate::message::{CallId, History, InputId, Message, MessageKind, ResultStatus};
use crate::model::ThinkingLevel;
use crate::pattern::context::AgentContext;
use crate::session::Session;
use crate::session::ask::{Ask, Reply};
use crate::session::batch::BatchOutcome;
use crate::session::config::WhileAwaiting;

pub(crate) const SUPERSEDED: &str =
    "Denied: superseded by the user, who wrote something else instead of an answer.";

/// One step of an agent: what a [`BehaviorPattern`](crate::BehaviorPattern) works with.
pub struct StepContext<'a> {
    pub(crate) session: &'a mut Session,
}

impl StepContext<'_> {
    /// What this run started from.
    pub fn cause(&self) -> &RunCause {
        self.session.fold.cause.as_ref().unwrap_or(&RunCause::Continue(None))
    }

    /// The request of the user that this run started from, if it was one.
    pub fn user_request(&self) -> Option<&Arc<Message>> {
        self.session.fold.request.as_ref()
    }

    /// The answer to an external action that this run started from, if it was one. The engine has
    /// carried it out before the pattern is entered.
    pub fn action_result(&self) -> Option<(&CallId, &Decision)> {
        let (call, decision) = self.session.fold.answered.as_ref()?;
        matches!(self.cause(), RunCause::ActionResult(_)).then_some((call, &**decision))
    }

    /// The session's id.
    pub fn session_id(&self) -> &Arc<str> {
        &self.session.id
    }

    /// The model that [`StepContext::ask`] asks, as `provider/name`.
    pub fn model(&self) -> &Arc<str> {
        &self.session.config.model.info().id
    }

    /// How much that model thinks.
    pub fn thinking(&self) -> ThinkingLevel {
        self.session.config.thinking
    }

    /// Everything that was said.
    pub fn history(&self) -> History {
        self.session.fold.history.clone()
    }

    /// The host's value of this type.
    pub fn get<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.session.extensions.get()
    }

    /// The agent's memory and tools, step by step.
    pub fn context(&mut self) -> AgentContext<'_> {
        AgentContext { session: self.session }
    }

    /// Cancelled when the run is aborted or cut off, for work of the pattern's own.
    pub fn cancellation(&self) -> CancellationToken {
        self.session.cancel.clone()
    }

    /// Puts this input's messages into the conversation, once; nothing on re-entry. A message of
    /// the user closes what was waiting for an answer.
    pub async fn take_input(&mut self) -> Result<(), StepError> {
        self.session.hear_all().await?;
        let input = match self.session.fold.cause.clone() {
            Some(RunCause::UserRequest(input) | RunCause::Continue(Some(input))) => Some(input),
            Some(RunCause::Steer) => None,
            _ => return Ok(()),
        };
        let waits = match &input {
            Some(input) => {
                self.session.fold.queue.lane(QueueKind::Request).any(|w| w.input == *input)
            }
            None => self.session.fold.queue.steered(Urgency::SkipPending),
        };
        if waits && self.session.config.while_awaiting == WhileAwaiting::Supersede {
            self.session.finish_unstarted(ResultStatus::Denied, SUPERSEDED).await?;
        }
        match input {
            Some(input) if waits && self.session.fold.batch.is_none() => {
                self.session.commit(LogEntry::Delivered { input }).await
            }
            _ => Ok(()),
        }
    }

    /// Asks the model and streams its reply. A conversation that ends with a complete reply gives
    /// that reply back, and no request goes out.
    pub async fn ask(&mut self) -> Result<Reply, StepError> {
        self.session.ask(Ask::new()).await
    }

    /// The same with another model, prompt, tools, schema or hooks.
    pub async fn ask_with(&mut self, ask: Ask) -> Result<Reply, StepError> {
        self.session.ask(ask).await
    }

    /// The calls of the reply: each is validated, confirmed or run, and answered. Nothing to do if
    /// the reply has none.
    pub async fn call_tools(&mut self, reply: &Reply) -> Result<BatchOutcome, StepError> {
        if reply.has_calls() {
            self.session.run_batch(None).await
        } else {
            Ok(BatchOutcome::NoCalls)
        }
    }

    /// Puts steering messages that wait into the conversation, as the queue's mode says.
    pub async fn take_steering(&mut self) -> Result<(), StepError> {
        self.session.hear_all().await?;
        let mode = self.session.config.steering_mode;
        self.deliver(QueueKind::Steering, mode).await?;
        Ok(())
    }

    /// Whether a steering message waits.
    pub fn has_steering(&self) -> bool {
        self.session.fold.queue.has(QueueKind::Steering)
    }

    /// Puts follow-ups that wait into the conversation, as the queue's mode says. True if there is
    /// more to answer: a follow-up, or a steer that came in meanwhile.
    pub async fn take_follow_ups(&mut self) -> Result<bool, StepError> {
        self.session.hear_all().await?;
        if self.has_steering() {
            return Ok(true);
        }
        let mode = self.session.config.follow_up_mode;
        self.deliver(QueueKind::FollowUp, mode).await
    }

    /// Puts a message of the pattern's own into the conversation: `step.remember(message).await?`.
    /// With [`Remember::with`], values of [`StepContext::state`] are written together with it.
    pub fn remember(&mut self, message: impl Into<MessageKind>) -> Remember<'_> {
        let message = self.session.message(message);
        Remember { session: self.session, message, state: Vec::new() }
    }

    /// A value that the pattern keeps in the session's log, under a name.
    pub fn state<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        T::deserialize(&**self.session.fold.state.get(key)?).ok()
    }

    /// Keeps a value; `null` removes it.
    pub async fn set_state(&mut self, key: &str, value: impl Serialize) -> Result<(), StepError> {
        let item = state_item(key, value)?;
        self.session.commit(item).await
    }

    /// Sends a `custom` event to the subscribers; it is in the session's log.
    pub async fn emit(&mut self, kind: &str, data: impl Serialize) -> Result<(), StepError> {
        let data = Arc::new(to_value(data)?);
        self.session.commit(LogEntry::Emitted { kind: kind.into(), data }).await
    }

    /// Awaits anything else while the session goes on hearing steers, answers and questions.
    pub async fn wait_for<F: Future + Send>(&mut self, work: F) -> Result<F::Output, StepError> {
        self.session.wait_for(work).await
    }

    /// Milliseconds since 1970.
    pub fn now(&self) -> u64 {
        self.session.config.environment.now()
    }

    /// A random number.
    pub fn random(&self) -> u64 {
        self.session.config.environment.random()
    }

    async fn deliver(&mut self, lane: QueueKind, mode: QueueMode) -> Result<bool, StepError> {
        let most = if mode == QueueMode::All { usize::MAX } else { 1 };
        let waiting: Vec<InputId> =
            self.session.fold.queue.lane(lane).take(most).map(|w| w.input.clone()).collect();
        let any = !waiting.is_empty();
        waiting.into_iter().for_each(|input| self.session.stage(LogEntry::Delivered { input }));
        self.session.flush().await?;
        Ok(any)
    }
}

/// A message on its way into the conversation; see [`StepContext::remember`].
#[must_use = "nothing is remembered until this is awaited"]
pub struct Remember<'a> {
    session: &'a mut Session,
    message: Arc<Message>,
    state: Vec<LogEntry>,
}

impl Remember<'_> {
    /// Together with a value of the pattern's state: both are written, or neither. A plan's next
    /// step and the message that announces it belong together, or a crash between them announces it
    /// twice.
    pub fn with(mut self, key: &str, value: impl Serialize) -> Result<Self, StepError> {
        self.state.push(state_item(key, value)?);
        Ok(self)
    }
}

impl<'a> IntoFuture for Remember<'a> {
    type Output = Result<Arc<Message>, StepError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            self.session.stage(LogEntry::Remembered { message: self.message.clone() });
            self.state.into_iter().for_each(|item| self.session.stage(item));
            self.session.flush().await?;
            Ok(self.message)
        })
    }
}

fn state_item(key: &str, value: impl Serialize) -> Result<LogEntry, StepError> {
    Ok(LogEntry::State { key: key.into(), value: Arc::new(to_value(value)?) })
}

fn to_value(data: impl Serialize) -> Result<Value, StepError> {
    serde_json::to_value(data)
        .map_err(|e| StepError::Pattern(format!("a value cannot be written as JSON: {e}")))
}
