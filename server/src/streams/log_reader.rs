//! The events of a session that another process has open, read from its log.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use loopwright_core::SessionStore;
use loopwright_core::event::Envelope;
use loopwright_core::log::MemoryError;

use super::backlog::{Missed, SharedBacklog, Start};
use crate::error::ApiError;

/// The polling interval of the log.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The backlogs of the sessions that are read from their logs. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct LogBacklogs(Arc<Mutex<HashMap<Arc<str>, SharedBacklog>>>);

impl LogBacklogs {
    /// Returns the backlog of a session. Backlogs without readers are removed.
    pub(crate) fn of(&self, session: &str) -> SharedBacklog {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, backlog| backlog.is_used());
        all.entry(session.into()).or_default().clone()
    }
}

/// A reader that follows the log of a session. All readers share one copy of the events. The log
/// has no deltas and no progress events.
pub(crate) struct LogReader {
    store: Arc<dyn SessionStore>,
    session: Arc<str>,
    events: Missed,
}

impl LogReader {
    /// Opens a reader at `start`. Also returns the number of the last event before it.
    ///
    /// # Errors
    /// Fails if there is no event with that number, or the log cannot be read.
    pub(crate) async fn open(
        backlog: &SharedBacklog,
        store: Arc<dyn SessionStore>,
        session: Arc<str>,
        start: Start,
    ) -> Result<(Self, u64), ApiError> {
        let (events, after) = backlog.followed(&*store, &session, start).await?;
        Ok((LogReader { store, session, events }, after))
    }

    /// Returns the next event, or `None` if none arrives within a polling interval.
    ///
    /// # Errors
    /// Fails if the log cannot be read, for example because the session was deleted.
    ///
    /// # Cancellation
    /// The future can be dropped without losing an event.
    pub(crate) async fn next(&mut self) -> Result<Option<Arc<Envelope>>, MemoryError> {
        if let Some(event) = self.events.next().await {
            return Ok(Some(event));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
        self.events.refresh(&*self.store, &self.session, POLL_INTERVAL / 2).await?;
        Ok(self.events.next().await)
    }
}
