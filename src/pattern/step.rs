//! [`StepContext`], a pattern's view of the session. Every method that awaits also handles inputs.

mod budget;
mod calls;
mod profile;
mod rewind;
mod state;
mod values;
mod waits;

use std::any::Any;
use std::future::Future;
use std::ops::ControlFlow;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, stream};
use serde::Serialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::error::{Failure, StepError};
use crate::event::input::{QueueKind, QueueMode};
use crate::event::outcome::RunCause;
use crate::log::entry::LogEntry;
use crate::log::state::Tail;
use crate::message::{History, InputId, Message, MessageKind, ResultStatus};
use crate::model::ThinkingLevel;
use crate::pattern::context::AgentContext;
use crate::pattern::role::Role;
use crate::session::calls::batch;
use crate::session::calls::batch_outcome::BatchOutcome;
use crate::session::lent::Lent;
use crate::session::part_time;
use crate::session::request;
use crate::session::request::ask::{Ask, Profile};
use crate::session::request::ask_all::AskAll;
use crate::session::request::reply::Reply;
use crate::session::request::stream::follow;

const SUPERSEDED: &str =
    "Denied: superseded by the user, who sent another message instead of a decision.";

/// A pattern's access to the session for one step; see [`BehaviorPattern`](crate::BehaviorPattern).
///
/// # Contract
///
/// A step begins with [`take_input`](StepContext::take_input). After each
/// [`ask`](StepContext::ask), the pattern must pass the reply to
/// [`call_tools`](StepContext::call_tools) before it asks again: while calls of the last reply have
/// no result, `ask` fails with [`StepError::BatchOpen`].
///
/// A pattern may be entered again from its top, after a decision or a restart. All methods are safe
/// to repeat: if the conversation ends with a reply, `ask` returns that reply without a request.
///
/// Every method that awaits handles inputs meanwhile: steers and follow-ups are queued, decisions
/// are recorded. Its future is dropped if the run is aborted or reaches a limit. Completed work
/// then stays done, a write in progress is completed, and the engine closes open work.
///
/// Consecutive changes are one append. They are written to the log, and their events emitted, when
/// the step sends the next request, starts a tool, waits, or returns. [`StepContext::flush`] writes
/// them at once.
///
/// ```
/// use loopwright_core::{BehaviorPattern, StepContext, StepEnd, StepError};
///
/// /// Answers once and runs the tools of the reply.
/// struct Once;
///
/// #[async_trait::async_trait]
/// impl BehaviorPattern for Once {
///     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
///         step.take_input().await?;
///         let reply = step.ask().await?.or_end()?;
///         let batch = step.call_tools(&reply).await?;
///         Ok(if batch.awaits_user() { StepEnd::AwaitingAction } else { StepEnd::Done })
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// # use loopwright_core::testing::{Harness, Script};
/// let harness = Harness::new(Once, [Script::text("Hello.")], |agent| agent).await;
/// assert_eq!(harness.handle.prompt("Say hello.").await.unwrap().text, "Hello.");
/// # }
/// ```
pub struct StepContext<'a> {
    pub(crate) session: Lent<'a>,
    /// The source of the profile of each request.
    role: Role<'a>,
}

impl StepContext<'_> {
    /// Returns the cause of this run.
    pub fn cause(&self) -> &RunCause {
        self.session.journal.state.cause.as_ref().unwrap_or(&RunCause::Continue(None))
    }

    /// Returns the user's request that this run works on: the request that started it, or that a
    /// decision or `Continue` resumed. `None` if a late steer started the run.
    pub fn user_request(&self) -> Option<&Arc<Message>> {
        self.session.journal.state.request.as_ref()
    }

    /// Returns the session's id.
    pub fn session_id(&self) -> &Arc<str> {
        &self.session.id
    }

    /// Returns the id of the model that [`StepContext::ask`] uses, as `provider/name`.
    pub fn model(&self) -> &Arc<str> {
        let config = &self.session.config;
        &config.model(self.profile().model.as_deref()).unwrap_or(&config.model).info().id
    }

    /// Returns how much that model thinks.
    pub fn thinking(&self) -> ThinkingLevel {
        self.profile().thinking.unwrap_or(self.session.config.thinking)
    }

    /// Returns every message of the session, including compacted and
    /// [removed](StepContext::rewind) ones, and [shown](crate::Ask::shown) replies to detached
    /// requests.
    pub fn history(&self) -> History {
        self.session.journal.state.history.clone()
    }

    /// Iterates over the messages of the conversation that were not
    /// [removed](StepContext::rewind), including compacted ones.
    pub fn messages(&self) -> impl DoubleEndedIterator<Item = &Arc<Message>> {
        self.session.journal.state.messages()
    }

    /// Returns the host's value of this type.
    pub fn get<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.session.extensions.get()
    }

    /// Returns the agent's memory and tools.
    pub fn context(&mut self) -> AgentContext<'_> {
        AgentContext { profile: self.profile(), session: self.session.lend() }
    }

    /// Returns a token that is cancelled when the run is aborted or cut off.
    pub fn cancellation(&self) -> CancellationToken {
        self.session.cancel.clone()
    }

    /// Puts the messages of this run's input into the conversation, once. On re-entry it does
    /// nothing. A message of the user supersedes pending actions, unless the agent holds messages
    /// ([`WhileAwaiting`](crate::session::WhileAwaiting)).
    pub async fn take_input(&mut self) -> Result<(), StepError> {
        self.session.receive_all().boxed().await?;
        if self.session.supersedes() {
            batch::supersede(&mut self.session, ResultStatus::Denied, SUPERSEDED).boxed().await?;
            batch::wait_for_running(&mut self.session).boxed().await?;
        }
        let state = &self.session.journal.state;
        match &state.undelivered {
            Some(request) if state.batch.is_none() => {
                let input = request.input.clone();
                self.session.journal.stage(LogEntry::Delivered { input });
                Ok(self.session.journal.apply_ahead().boxed().await?)
            }
            _ => Ok(()),
        }
    }

    /// Asks the model, streams its reply and puts it into the conversation. If the conversation
    /// ends with a complete reply, that reply is returned and no request is sent.
    ///
    /// # Errors
    ///
    /// Fails with [`StepError::BatchOpen`] while calls have no result, with
    /// [`StepError::NothingToAnswer`] if the conversation is empty, and with
    /// [`StepError::Limit`] if a budget is used up. An error of the model is part of the reply:
    /// see [`Reply::should_stop`].
    pub async fn ask(&mut self) -> Result<Reply, StepError> {
        let ask = Ask::new().within(&self.profile());
        request::send(&mut self.session, ask).boxed().await
    }

    /// Asks like [`StepContext::ask`], with another model, prompt, tools, schema or hooks.
    ///
    /// A request with [`Ask::also`] or [`Ask::messages`] is always sent, whatever message the
    /// conversation ends with. The exception is after a restart: if the conversation then ends with
    /// the reply to the same request, that reply is returned.
    pub async fn ask_with(&mut self, ask: Ask) -> Result<Reply, StepError> {
        if ask.detached {
            return Ok(self.ask_all([ask]).await?.pop().unwrap_or(Reply::empty(None)));
        }
        let ask = ask.within(&self.profile());
        request::send(&mut self.session, ask).boxed().await
    }

    /// Sends detached requests at the same time, and returns their replies in the order of the
    /// requests.
    ///
    /// At most [`Limits::parallel_requests`](crate::limits::Limits::parallel_requests) are in
    /// progress at once, or fewer with [`AskAll::at_most`]. The turns of all are reserved before
    /// the first is sent. Each reply is logged when it arrives. With [`Ask::key`], only the missing
    /// ones are requested after a crash.
    ///
    /// An error of a model is part of its reply. A steer with
    /// [`Urgency::Interrupt`](crate::event::Urgency::Interrupt) ends the wait: incomplete requests
    /// then have an interrupted reply.
    ///
    /// # Errors
    ///
    /// Fails as [`StepContext::ask`] does, and with
    ///
    /// - [`StepError::NotDetached`] if a request is not detached,
    /// - [`StepError::KeyTaken`] if two requests have the same key,
    /// - [`StepError::Limit`] if a budget is used up, or too small for all of them, before the
    ///   first is sent. A budget that is used up later loses no reply: the requests that are not
    ///   sent have the limit in their replies ([`Reply::limit`]), and [`Reply::or_end`] ends the
    ///   step with it.
    ///
    /// ```
    /// use loopwright_core::message::UserMessage;
    /// use loopwright_core::{Ask, BehaviorPattern, StepContext, StepEnd, StepError};
    ///
    /// /// Answers with the shortest of three replies.
    /// struct Shortest;
    ///
    /// #[async_trait::async_trait]
    /// impl BehaviorPattern for Shortest {
    ///     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
    ///         step.take_input().await?;
    ///         let sample = |n| Ask::detached().key(format!("sample-{n}")).temperature(0.9);
    ///         let replies = step.ask_all((0..3).map(sample)).await?;
    ///         let texts = replies.iter().map(|reply| reply.text());
    ///         let shortest = texts.min_by_key(String::len).unwrap_or_default();
    ///         let hint = UserMessage::from(format!("Answer with: {shortest}"));
    ///         step.ask_with(Ask::new().also(hint)).await?.finish()
    ///     }
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use loopwright_core::testing::{Harness, Script};
    /// # let replies = ["four", "two", "three", "two"].map(Script::text);
    /// # let harness = Harness::new(Shortest, replies, |agent| agent).await;
    /// # assert_eq!(harness.handle.prompt("?").await.unwrap().text, "two");
    /// # }
    /// ```
    pub fn ask_all(&mut self, asks: impl IntoIterator<Item = Ask>) -> AskAll<'_> {
        let profile = self.profile();
        let asks = asks.into_iter().map(|ask| ask.within(&profile)).collect();
        AskAll::new(&mut self.session, asks)
    }

    /// Runs the calls of the reply. Each call is validated, approved if necessary, run, and gets
    /// its result. Does nothing if the reply has no calls.
    pub async fn call_tools(&mut self, reply: &Reply) -> Result<BatchOutcome, StepError> {
        if reply.has_calls() {
            batch::run(&mut self.session, None).boxed().await
        } else {
            Ok(BatchOutcome::NoCalls)
        }
    }

    /// Delivers queued steers: all or the first, depending on the agent's steering mode.
    pub async fn take_steering(&mut self) -> Result<(), StepError> {
        self.session.receive_all().boxed().await?;
        let mode = self.session.config.steering_mode;
        self.deliver(|kind| kind == QueueKind::Steering, mode).await?;
        Ok(())
    }

    /// Returns whether a steer is queued.
    pub fn has_steering(&self) -> bool {
        self.session.journal.state.queue.has(QueueKind::Steering)
    }

    /// Delivers every queued message in the order of arrival, both steers and follow-ups. The
    /// agent's queue modes are ignored.
    pub async fn take_messages(&mut self) -> Result<(), StepError> {
        self.session.receive_all().boxed().await?;
        self.deliver(|kind| kind != QueueKind::Request, QueueMode::All).await?;
        Ok(())
    }

    /// Returns whether a steer or a follow-up is queued.
    pub fn has_messages(&self) -> bool {
        self.session.journal.state.queue.iter().any(|w| w.kind != QueueKind::Request)
    }

    /// Takes the input as [`take_input`](StepContext::take_input) does, delivers every message that
    /// is queued behind an answer, and returns whether the conversation then ends with an answer:
    /// all of the user's messages have one. For patterns that write the answer themselves. The
    /// messages stay queued until there is an answer, so that the pattern does the same after a
    /// crash.
    ///
    /// # Errors
    ///
    /// Fails with [`StepError::BatchOpen`] while calls have no result.
    ///
    /// ```
    /// use loopwright_core::message::AssistantMessage;
    /// use loopwright_core::{Ask, BehaviorPattern, StepContext, StepEnd, StepError};
    ///
    /// /// Answers with the shorter of two replies.
    /// struct Shorter;
    ///
    /// #[async_trait::async_trait]
    /// impl BehaviorPattern for Shorter {
    ///     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
    ///         while !step.all_answered().await? {
    ///             let asks = ["a", "b"].map(|key| Ask::detached().key(key));
    ///             let replies = step.ask_all(asks).await?;
    ///             let texts = replies.iter().map(|reply| reply.text());
    ///             let shorter = texts.min_by_key(String::len).unwrap_or_default();
    ///             step.remember(AssistantMessage::from(shorter)).await?;
    ///         }
    ///         Ok(StepEnd::Done)
    ///     }
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use loopwright_core::testing::{Harness, Script};
    /// # let replies = ["four", "4"].map(Script::text);
    /// # let harness = Harness::new(Shorter, replies, |agent| agent).await;
    /// # assert_eq!(harness.handle.prompt("2 + 2?").await.unwrap().text, "4");
    /// # }
    /// ```
    pub async fn all_answered(&mut self) -> Result<bool, StepError> {
        self.take_input().await?;
        if self.is_answered() {
            self.take_messages().await?;
        }
        Ok(self.is_answered())
    }

    /// Delivers queued follow-ups: all or the first, depending on the agent's follow-up mode.
    /// Returns `true` if there is more to answer: a follow-up, or a steer that arrived in the
    /// meantime.
    pub async fn take_follow_ups(&mut self) -> Result<bool, StepError> {
        self.session.receive_all().boxed().await?;
        if self.has_steering() {
            return Ok(true);
        }
        let mode = self.session.config.follow_up_mode;
        self.deliver(|kind| kind == QueueKind::FollowUp, mode).await
    }

    /// Puts a message of the pattern into the conversation.
    ///
    /// # Errors
    ///
    /// Fails with [`StepError::BatchOpen`] while calls have no result, and with
    /// [`StepError::CallsWithoutReply`] for an assistant message with tool calls.
    pub async fn remember(
        &mut self,
        message: impl Into<MessageKind>,
    ) -> Result<Arc<Message>, StepError> {
        self.session.remember(message.into()).boxed().await
    }

    /// Emits a `custom` event, which is written to the session's log.
    pub async fn emit(&mut self, kind: &str, data: impl Serialize) -> Result<(), StepError> {
        let data = Arc::new(to_value(data)?);
        let entry = LogEntry::Emitted { kind: kind.into(), data };
        Ok(self.session.journal.commit(entry).boxed().await?)
    }

    /// Awaits `work` while inputs are handled. Returns `None` if a steer interrupts it
    /// ([`Urgency::Interrupt`](crate::event::Urgency::Interrupt)). `work` is dropped then, or when
    /// this future is dropped.
    ///
    /// # Errors
    ///
    /// Fails with [`StepError::Limit`] if the time of a [part](StepContext::with_budget) is up.
    pub async fn wait_for<F>(&mut self, work: F) -> Result<Option<F::Output>, StepError>
    where
        F: Future<Output: Send> + Send,
    {
        let mut output = None;
        let work = async { output = Some(work.await) };
        let is_done = self.wait_until(work.boxed()).boxed().await?;
        Ok(output.filter(|_| is_done))
    }

    /// Returns whether the conversation ends with a complete reply, so that [`StepContext::ask`]
    /// would send no request: the pattern was entered again after it had answered.
    pub fn is_answered(&self) -> bool {
        self.session.tail() == Tail::Replied
    }

    /// Returns the reply at the end of the conversation, or `None` if another message is there.
    /// Hidden calls after the reply are ignored.
    pub fn last_reply(&self) -> Option<Reply> {
        let message = self.session.journal.state.context.last()?;
        message.as_assistant()?;
        Some(Reply::of(message.clone()))
    }

    /// Returns the time in milliseconds since 1970.
    pub fn now(&self) -> u64 {
        self.session.config.environment.now()
    }

    /// Returns a random number.
    pub fn random(&self) -> u64 {
        self.session.config.environment.random()
    }

    /// Returns the profile of the next request.
    fn profile(&self) -> Profile {
        let state = &self.session.journal.state;
        let is_whole = || !state.has_removed() && !state.history.iter().any(|m| m.is_detached());
        if !self.role.follows_history() || is_whole() {
            return self.role.profile(&state.history);
        }
        self.role.profile(&state.messages().cloned().collect::<Vec<_>>())
    }

    /// Like [`StepContext::wait_for`]; returns whether `work` is done.
    async fn wait_until(&mut self, work: BoxFuture<'_, ()>) -> Result<bool, StepError> {
        let before = self.session.journal.state.info.entries;
        self.session.receive_all().await?;
        if self.session.is_interrupted(before) {
            return Ok(false);
        }
        self.session.journal.flush().await?;
        let mut work = stream::once(work);
        let done = follow(&mut self.session, &mut work, |_, done| match done {
            Some(done) => ControlFlow::Break(done),
            None => ControlFlow::Continue(()),
        });
        let is_done = done.await?.is_some();
        if !is_done {
            part_time::check(&self.session)?;
        }
        Ok(is_done)
    }

    async fn deliver(
        &mut self,
        is_wanted: impl Fn(QueueKind) -> bool,
        mode: QueueMode,
    ) -> Result<bool, StepError> {
        self.session.check_batch_closed()?;
        let max = if mode == QueueMode::All { usize::MAX } else { 1 };
        let journal = &mut self.session.journal;
        let wanted = journal.state.queue.iter().filter(|w| is_wanted(w.kind));
        let queued: Vec<InputId> = wanted.take(max).map(|w| w.input.clone()).collect();
        let any = !queued.is_empty();
        queued.into_iter().for_each(|input| journal.stage(LogEntry::Delivered { input }));
        journal.apply_ahead().boxed().await?;
        Ok(any)
    }
}

fn to_value(data: impl Serialize) -> Result<Value, StepError> {
    serde_json::to_value(data).map_err(|error| StepError::NotJson(Failure::of(error)))
}
