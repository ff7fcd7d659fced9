//! Durable waits of a pattern until a time.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;

use crate::error::StepError;
use crate::log::Timer;
use crate::log::entry::LogEntry;
use crate::log::timers::MAX_TIMERS;
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
    /// like any other, and a new request, so a pattern should [look](StepContext::timer) whether it
    /// sleeps before it begins its work. The timer stays until it rings, is
    /// [cancelled](StepContext::cancel_timer), or the user aborts the sleep or resets the session.
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
    /// - [`StepError::InvalidTimer`] in a sub-agent, whose caller would wait for it, and if the
    ///   session has 1,000 timers, including those that have rung.
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
        let now = self.now();
        let timer = match self.timer(key) {
            Some(timer) => timer.clone(),
            None => self.set_timer(key, time).await?,
        };
        if timer.rang {
            return Ok(());
        }
        if now < timer.time {
            return Err(StepEnd::Sleeping.into());
        }
        let rang = LogEntry::TimerRang { key: timer.key };
        Ok(self.session.journal.commit(rang).boxed().await?)
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

    /// Returns the timer under this key: it waits, or has rung since the user's request began.
    pub fn timer(&self, key: &str) -> Option<&Timer> {
        self.session.journal.state.info.timers.iter().find(|timer| *timer.key == *key)
    }

    /// Removes the timer under this key, if there is one. The key is then free.
    pub async fn cancel_timer(&mut self, key: &str) -> Result<(), StepError> {
        if let Some(Timer { key, .. }) = self.timer(key).cloned() {
            self.session.journal.commit(LogEntry::TimerCancelled { key }).boxed().await?;
        }
        Ok(())
    }

    async fn set_timer(&mut self, key: &str, time: u64) -> Result<Timer, StepError> {
        let journal = &mut self.session.journal;
        if !journal.is_of_root() {
            let why = "a sub-agent cannot sleep, since the call that it works for waits for it";
            return Err(StepError::InvalidTimer(why));
        }
        if journal.state.info.timers.len() >= MAX_TIMERS {
            return Err(StepError::InvalidTimer(
                "the session has 1,000: cancel those that have rung",
            ));
        }
        let key: Arc<str> = key.into();
        journal.commit(LogEntry::TimerSet { key: key.clone(), time }).boxed().await?;
        Ok(Timer { key, time, rang: false })
    }
}
