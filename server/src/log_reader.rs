//! The events of a session that another process has open, from its log.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use loopwright_core::SessionStore;
use loopwright_core::event::Envelope;
use loopwright_core::log::MemoryError;

use crate::backlog::{Missed, SharedBacklog, Start};
use crate::error::ApiError;

/// How often the log is read.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The backlogs of the sessions that are read from their logs. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct LogBacklogs(Arc<Mutex<HashMap<Arc<str>, SharedBacklog>>>);

impl LogBacklogs {
    /// Returns that of a session. Those that nobody reads are forgotten.
    pub(crate) fn of(&self, session: &str) -> SharedBacklog {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, backlog| backlog.is_used());
        all.entry(session.into()).or_default().clone()
    }
}

/// Follows the log of a session, which all its readers read together. Deltas and progress are not
/// in it.
pub(crate) struct LogReader {
    store: Arc<dyn SessionStore>,
    session: Arc<str>,
    events: Missed,
}

impl LogReader {
    /// Starts with the events that `start` says. Returns the number of the last event before them,
    /// too.
    ///
    /// # Errors
    /// Fails if there is no event of that number, or the log cannot be read.
    pub(crate) async fn open(
        backlog: &SharedBacklog,
        store: Arc<dyn SessionStore>,
        session: Arc<str>,
        start: Start,
    ) -> Result<(Self, u64), ApiError> {
        let (events, after) = backlog.followed(&*store, &session, start).await?;
        Ok((LogReader { store, session, events }, after))
    }

    /// Returns the next event, or `None` when it has waited for new ones in vain for a while. It
    /// can be dropped while it waits.
    ///
    /// # Errors
    /// Fails if the log cannot be read, for example because the session was deleted.
    pub(crate) async fn next(&mut self) -> Result<Option<Arc<Envelope>>, MemoryError> {
        if let Some(event) = self.events.next().await {
            return Ok(Some(event));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
        self.events.refresh(&*self.store, &self.session, POLL_INTERVAL / 2).await?;
        Ok(self.events.next().await)
    }
}
