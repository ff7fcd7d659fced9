//! The values that a pattern keeps in the session's log.

use std::sync::Arc;

use futures_util::FutureExt as _;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::StepError;
use crate::log::entry::StateScope;
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
