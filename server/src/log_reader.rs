//! The events of a session that another process has open, from its log.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use loopwright_core::SessionStore;
use loopwright_core::event::Envelope;
use loopwright_core::log::{Follower, MemoryError, SessionLog};

use crate::backlog::after_the_end;
use crate::error::ApiError;

/// How often the log is read.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Follows the log of a session. Deltas and progress are not in it.
pub(crate) struct LogReader {
    store: Arc<dyn SessionStore>,
    session: Arc<str>,
    follower: Follower,
    ready: VecDeque<Arc<Envelope>>,
}

impl LogReader {
    /// Starts after the event of this number.
    ///
    /// # Errors
    /// Fails if there is no event of that number, or the log cannot be read.
    pub(crate) async fn after(
        store: Arc<dyn SessionStore>,
        session: Arc<str>,
        after: u64,
    ) -> Result<Self, ApiError> {
        let entries = store.read(&session, 0).await?;
        let mut follower = Follower::new(session.clone());
        follower.take(&entries);
        if after > follower.last_seq() {
            return Err(after_the_end(follower.last_seq(), after));
        }
        let missed = SessionLog::events_after(session.clone(), &entries, after);
        let ready = missed.into_iter().map(Arc::new).collect();
        Ok(LogReader { store, session, follower, ready })
    }

    /// Returns the next event, or `None` when it has waited for new ones in vain for a while. It
    /// can be dropped while it waits.
    ///
    /// # Errors
    /// Fails if the log cannot be read, for example because the session was deleted.
    pub(crate) async fn next(&mut self) -> Result<Option<Arc<Envelope>>, MemoryError> {
        if self.ready.is_empty() {
            tokio::time::sleep(POLL_INTERVAL).await;
            let new = self.store.read(&self.session, self.follower.entries()).await?;
            self.ready.extend(self.follower.take(&new).into_iter().map(Arc::new));
        }
        Ok(self.ready.pop_front())
    }
}
