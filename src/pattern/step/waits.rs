//! Durable waits of a pattern for a time or a signal.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use serde_json::Value;

use crate::error::StepError;
use crate::log::Wait;
use crate::log::entry::LogEntry;
use crate::log::waits::{MAX_WAITS, is_key};
use crate::pattern::step::StepContext;
use crate::step_end::StepEnd;

impl StepContext<'_> {
    /// Returns when it is `time`, in milliseconds since 1970. Before that, it ends the step with
    /// [`StepEnd::Sleeping`], as an error that `?` passes on.
    ///
    /// The first call under a key sets a timer, which is in the session's log. The run ends, and
    /// the process may end too. When the time has come, the session starts a run with the cause
    /// [`RunCause::Timer`](crate::event::RunCause::Timer), which enters the pattern again, and this
    /// method returns. A timer rings once, and never early by the clock of the session's process.
    /// It rings later if calls wait for decisions, if no process has the session open (see
    /// [`SessionInfo::wakes_at`](crate::log::SessionInfo::wakes_at)), or if a run is in progress
    /// that does not call this method.
    ///
    /// A timer is not a pending action: the user can talk to an agent that sleeps. This is a run
    /// like any other, and a new request, so a pattern should [look](StepContext::wait) whether it
    /// sleeps before it begins its work. The timer stays until it rings, is
    /// [cancelled](StepContext::cancel_wait), or the user aborts the sleep or resets the session.
    ///
    /// A run that a timer starts belongs to the last request of the user: it has its principal, its
    /// limits, the keys of its calls and the pattern's values. When the next request begins, the
    /// keys of timers that have rung are free. A loop within a request needs a key for each sleep,
    /// and cancels the timers that have rung if it is long. Later calls under a key ignore `time`.
    ///
    /// # Errors
    ///
    /// Fails with
    ///
    /// - [`StepError::Ended`] while it is too early,
    /// - [`StepError::InvalidWait`] in a sub-agent, whose caller would wait for it, and if the
    ///   session has 1,000 waits, including those that have ended. Also if the key is empty, has
    ///   more than 256 bytes, or is taken by a wait for an event.
    ///
    /// ```
    /// use loopwright_core::message::UserMessage;
    /// use loopwright_core::{BehaviorPattern, StepContext, StepEnd, StepError};
    ///
    /// /// Answers now, and once more an hour later.
    /// struct Twice;
    ///
    /// #[async_trait::async_trait]
    /// impl BehaviorPattern for Twice {
    ///     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
    ///         step.take_input().await?;
    ///         step.ask().await?.or_end()?;
    ///         step.sleep_until("later", step.now() + 3_600_000).await?;
    ///         if step.state("asked") != Some(true) {
    ///             step.set_state("asked", true)?; // is written with the message
    ///             step.remember(UserMessage::from("An hour has passed.")).await?;
    ///         }
    ///         step.ask().await?.finish()
    ///     }
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use loopwright_core::event::RunStatus;
    /// # use loopwright_core::testing::{Harness, Script};
    /// # let replies = [Script::text("Hello.")];
    /// # let harness = Harness::new(Twice, replies, |agent| agent).await;
    /// let outcome = harness.handle.prompt("Hello?").await.unwrap();
    /// assert_eq!((outcome.end, &*outcome.text), (RunStatus::Sleeping, "Hello."));
    /// assert!(outcome.wakes_at.is_some());
    /// # }
    /// ```
    pub async fn sleep_until(&mut self, key: &str, time: u64) -> Result<(), StepError> {
        self.wait_under(key, Some(time), false).await.map(drop)
    }

    /// Returns when this much time has passed since the first call under the key. Otherwise like
    /// [`StepContext::sleep_until`].
    ///
    /// # Errors
    ///
    /// As [`StepContext::sleep_until`].
    pub async fn sleep_for(&mut self, key: &str, time: Duration) -> Result<(), StepError> {
        let time = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.sleep_until(key, self.now().saturating_add(time)).await
    }

    /// Waits for an event from outside, which somebody sends as a signal with
    /// [`AgentHandle::signal`](crate::AgentHandle::signal) under the same key, and returns its
    /// value. With a time, in milliseconds since 1970, it returns `None` if no signal has arrived
    /// by then, or by the later time at which a process opens the session. Otherwise like
    /// [`StepContext::sleep_until`]: the run ends `Sleeping`, the process may end, and a run with
    /// the cause [`RunCause::Signal`](crate::event::RunCause::Signal) or
    /// [`RunCause::Timer`](crate::event::RunCause::Timer) enters the pattern again.
    ///
    /// A wait takes one signal. A signal that arrives earlier is kept for it, in order of arrival.
    /// To take the next signal under the key in the same request,
    /// [cancel](StepContext::cancel_wait) the wait that has ended, and wait again. When the next
    /// request begins, signals that arrived after a wait had ended are dropped. An abort while the
    /// agent sleeps and a reset drop all signals.
    ///
    /// The value comes from outside and is not checked: a pattern parses it as it would parse a
    /// model's output.
    ///
    /// # Errors
    ///
    /// As [`StepContext::sleep_until`]; also if the key is taken by a timer.
    ///
    /// ```
    /// use loopwright_core::message::UserMessage;
    /// use loopwright_core::{BehaviorPattern, StepContext, StepEnd, StepError};
    ///
    /// /// Answers, and once more when the order is paid, or after a day.
    /// struct Order;
    ///
    /// #[async_trait::async_trait]
    /// impl BehaviorPattern for Order {
    ///     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
    ///         step.take_input().await?;
    ///         step.ask().await?.or_end()?; // also while it waits
    ///         let paid = step.wait_for_event("paid", step.now() + 86_400_000).await?;
    ///         if step.state("told") != Some(true) {
    ///             step.set_state("told", true)?; // is written with the message
    ///             let text = paid.map_or("Nobody paid.".into(), |paid| format!("Paid: {paid}"));
    ///             step.remember(UserMessage::from(text)).await?;
    ///         }
    ///         step.ask().await?.finish()
    ///     }
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use loopwright_core::event::RunStatus;
    /// # use loopwright_core::testing::{Harness, Script};
    /// # let replies = ["Please pay.", "Thank you."].map(Script::text);
    /// # let harness = Harness::new(Order, replies, |agent| agent).await;
    /// # let handle = &harness.handle;
    /// let outcome = handle.prompt("I want a book.").await.unwrap();
    /// assert_eq!(outcome.end, RunStatus::Sleeping);
    ///
    /// handle.signal("paid", serde_json::json!({ "euros": 20 })).await.unwrap();
    /// handle.wait_for_idle().await;
    /// assert_eq!(handle.state().await.unwrap().messages[2].text(), r#"Paid: {"euros":20}"#);
    /// # }
    /// ```
    pub async fn wait_for_event(
        &mut self,
        key: &str,
        until: impl Into<Option<u64>>,
    ) -> Result<Option<Value>, StepError> {
        let wait = self.wait_under(key, until.into(), true).await?;
        Ok(wait.signal.map(|signal| Arc::unwrap_or_clone(signal.value)))
    }

    /// Returns the wait under this key: it waits, or has ended since the user's request began.
    pub fn wait(&self, key: &str) -> Option<&Wait> {
        self.session.journal.state.info.waits.iter().find(|wait| *wait.key == *key)
    }

    /// Removes the wait under this key, if there is one. The key is then free. Signals stay, also
    /// one that has arrived for this wait if the wait has not ended.
    pub async fn cancel_wait(&mut self, key: &str) -> Result<(), StepError> {
        if let Some(Wait { key, .. }) = self.wait(key).cloned() {
            let cancelled = LogEntry::WaitCancelled { key, drops_signals: false };
            self.session.journal.commit(cancelled).boxed().await?;
        }
        Ok(())
    }

    /// Returns the wait under this key when it is over.
    async fn wait_under(
        &mut self,
        key: &str,
        until: Option<u64>,
        for_signal: bool,
    ) -> Result<Wait, StepError> {
        if self.wait(key).is_none() {
            self.start_wait(key.into(), until, for_signal).await?;
        }
        let wait = self.wait(key).ok_or(StepError::NoWait)?;
        if wait.for_signal != for_signal {
            return Err(StepError::InvalidWait("the key is taken by a wait of the other kind"));
        }
        if !wait.ended {
            if !wait.is_over(self.now()) {
                return Err(StepEnd::Sleeping.into());
            }
            let ended = LogEntry::WaitEnded { key: wait.key.clone() };
            self.session.journal.commit(ended).boxed().await?;
        }
        // A signal that was about to be written may have come before the end.
        self.wait(key).cloned().ok_or(StepError::NoWait)
    }

    async fn start_wait(
        &mut self,
        key: Arc<str>,
        until: Option<u64>,
        for_signal: bool,
    ) -> Result<(), StepError> {
        let journal = &mut self.session.journal;
        if !is_key(&key) {
            return Err(StepError::InvalidWait("its key must have 1 to 256 bytes"));
        }
        if !journal.is_of_root() {
            let why = "a sub-agent cannot sleep, since the call that it works for waits for it";
            return Err(StepError::InvalidWait(why));
        }
        if journal.state.info.waits.len() >= MAX_WAITS {
            let why = "the session has 1,000: cancel those that have ended";
            return Err(StepError::InvalidWait(why));
        }
        let started = LogEntry::WaitStarted { key, until, for_signal };
        Ok(journal.commit(started).boxed().await?)
    }
}
