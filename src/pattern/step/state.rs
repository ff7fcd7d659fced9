//! The values that a pattern keeps in the session's log.

use std::sync::Arc;

use futures_util::FutureExt as _;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::StepError;
use crate::log::entry::StateScope;
use crate::log::stages::{STAGES_KEY, Stage};
use crate::pattern::step::{StepContext, to_value};

impl StepContext<'_> {
    /// Returns a value that the pattern has set for this request of the user. Returns `None` if it
    /// is not set or does not fit `T`. The next request begins without it.
    pub fn state<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        self.value(StateScope::Request, key)
    }

    /// Sets a value for this request of the user; `null` removes it.
    ///
    /// The value is staged: [`StepContext::state`] returns it at once. It is written to the
    /// session's log with the step's next entry (a message, an event, a request, a call, a result),
    /// in the same append, at the latest with the end of the run. So a crash never separates a
    /// value from the message that follows from it, nor from the end of the run.
    /// [`StepContext::flush`] writes it at once.
    ///
    /// # Errors
    ///
    /// Fails with [`StepError::NotJson`] if the value cannot be written as JSON.
    pub fn set_state(&mut self, key: &str, value: impl Serialize) -> Result<(), StepError> {
        self.set_value(StateScope::Request, key, value)
    }

    /// Begins a stage of the work, and ends the current one, so that front ends show where the
    /// pattern is. The name of a stage is enough; [`Stage::branches`](crate::log::Stage::branches)
    /// adds works that run at the same time.
    ///
    /// Front ends learn it when it is in the log: with the next entry, or while the step waits for
    /// something else. The stages are for this request of the user, as
    /// [values](StepContext::set_state) are, and the last 100 are kept. A stage that has begun
    /// before changes nothing, so a pattern may be entered again from its top. In a loop, give each
    /// [visit](crate::log::Stage::visit) its number. A pattern that begins a stage within another
    /// pattern's stage ends that one. Staged values are written with the beginning.
    ///
    /// # Errors
    ///
    /// Fails if the log cannot be written.
    ///
    /// ```
    /// use loopwright_core::testing::{Harness, Script};
    /// use loopwright_core::{BehaviorPattern, StepContext, StepEnd, StepError, async_trait};
    ///
    /// struct Draft;
    ///
    /// #[async_trait]
    /// impl BehaviorPattern for Draft {
    ///     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
    ///         step.take_input().await?;
    ///         step.begin_stage("draft").await?;
    ///         step.ask().await?.or_end()?;
    ///         step.end_stage()?;
    ///         Ok(StepEnd::Done)
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let harness = Harness::new(Draft, [Script::text("A poem.")], |agent| agent).await;
    /// harness.handle.prompt("Write.").await.unwrap();
    /// let stages = harness.handle.state().await.unwrap().stages;
    /// assert!(&*stages[0].name == "draft" && stages[0].until.is_some());
    /// # }
    /// ```
    pub async fn begin_stage(&mut self, stage: impl Into<Stage>) -> Result<(), StepError> {
        let (mut stages, now) = (self.stages(), self.now());
        if !stage.into().begin(&mut stages, now) {
            return Ok(());
        }
        self.set_state(STAGES_KEY, stages)?;
        self.session.journal.stage_values();
        Ok(self.session.journal.apply_ahead().boxed().await?)
    }

    /// Ends the current stage of the work, with the step's next entry.
    ///
    /// # Errors
    ///
    /// Fails with [`StepError::NotJson`] if the stages cannot be written as JSON.
    pub fn end_stage(&mut self) -> Result<(), StepError> {
        let (mut stages, now) = (self.stages(), self.now());
        if stages.iter().any(|stage| stage.until.is_none()) {
            Stage::end(&mut stages, now);
            self.set_state(STAGES_KEY, stages)?;
        }
        Ok(())
    }

    /// Returns the stages of the work so far, without the counts of their branches.
    pub fn stages(&self) -> Vec<Stage> {
        self.state(STAGES_KEY).unwrap_or_default()
    }

    /// Returns a value that the pattern has set for the session. Returns `None` if it is not set or
    /// does not fit `T`. The value stays until [`Reset`](crate::event::InputEvent::Reset).
    pub fn session_state<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        self.value(StateScope::Session, key)
    }

    /// Sets a value for the session, staged as by [`StepContext::set_state`]; `null` removes it.
    ///
    /// # Errors
    ///
    /// Fails with [`StepError::NotJson`] if the value cannot be written as JSON.
    pub fn set_session_state(&mut self, key: &str, value: impl Serialize) -> Result<(), StepError> {
        self.set_value(StateScope::Session, key, value)
    }

    /// Writes the staged values and all other unwritten changes of the step. For a pattern that is
    /// about to do something that the log does not record.
    pub async fn flush(&mut self) -> Result<(), StepError> {
        self.session.journal.stage_values();
        Ok(self.session.journal.flush().boxed().await?)
    }

    fn value<T: DeserializeOwned>(&self, scope: StateScope, key: &str) -> Option<T> {
        T::deserialize(self.session.journal.value(scope, key)?).ok()
    }

    fn set_value(
        &mut self,
        scope: StateScope,
        key: &str,
        value: impl Serialize,
    ) -> Result<(), StepError> {
        let value = Arc::new(to_value(value)?);
        self.session.journal.set_value(scope, key.into(), value);
        Ok(())
    }
}
