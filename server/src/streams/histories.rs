//! [`Histories`]: the events of the sessions whose history was read last.
//!
//! Event numbers depend on the whole log, so the first page needs the whole log. A client that
//! scrolls up asks for one page after the other, and the next pages are served from the events in
//! memory.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use loopwright_core::SessionStore;
use loopwright_core::event::Envelope;
use loopwright_core::log::MemoryError;
use tokio::time::Instant;

use super::backlog::Events;

/// Maximum number of sessions kept. Each takes about as much memory as its log.
const MAX_SESSIONS: usize = 2;
/// The time that a session is kept after a page.
const KEEP_TIME: Duration = Duration::from_secs(30);

/// The events of recently read sessions, the last one used at the end. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Histories(Arc<Mutex<VecDeque<Recent>>>);

/// A session whose history was read.
struct Recent {
    session: Arc<str>,
    used: Instant,
    events: Arc<tokio::sync::Mutex<Events>>,
}

impl Histories {
    /// Returns about `count` events of a session before number `before`, in whole turns, and the
    /// number of the last event before them.
    ///
    /// # Errors
    /// Fails if the log cannot be read.
    pub(crate) async fn page(
        &self,
        store: &dyn SessionStore,
        session: &str,
        before: u64,
        count: u64,
    ) -> Result<(Vec<Arc<Envelope>>, u64), MemoryError> {
        let kept = self.keep(session);
        let mut events = kept.lock().await;
        events.refresh(store, session).await?;
        Ok(events.before(before, count))
    }

    /// Returns the events of a session read so far, and keeps them for a while.
    fn keep(&self, session: &str) -> Arc<tokio::sync::Mutex<Events>> {
        let mut all = self.recent();
        let known = all.iter().position(|recent| *recent.session == *session);
        let events = match known.and_then(|at| all.remove(at)) {
            Some(recent) => recent.events,
            None => Arc::new(Events::new(session).into()),
        };
        if all.len() == MAX_SESSIONS {
            all.pop_front();
        }
        all.push_back(Recent {
            session: session.into(),
            used: Instant::now(),
            events: events.clone(),
        });
        let later = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            tokio::time::sleep(KEEP_TIME).await;
            if let Some(histories) = later.upgrade() {
                Histories(histories).recent().retain(|recent| recent.used.elapsed() < KEEP_TIME);
            }
        });
        events
    }

    fn recent(&self) -> MutexGuard<'_, VecDeque<Recent>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use loopwright_core::log::{InMemoryStore, LogEntry};

    use super::*;

    fn resets(count: usize) -> Arc<[LogEntry]> {
        vec![LogEntry::Reset; count].into()
    }

    /// C255: The events kept grow with the log, and are not used for another log with the same
    /// name.
    #[tokio::test(start_paused = true)]
    async fn what_is_kept_is_what_the_log_has() {
        let (store, histories) = (InMemoryStore::new(), Histories::default());
        let count =
            async || histories.page(&store, "s", 99, 99).await.map(|(events, _)| events.len());
        assert!(count().await.is_err(), "there is no session");
        store.open("s").await.unwrap().append(0, resets(2)).await.unwrap();
        assert_eq!(count().await, Ok(2));
        store.open("s").await.unwrap().append(2, resets(1)).await.unwrap();
        assert_eq!(count().await, Ok(3));
        store.delete("s").await.unwrap();
        assert!(count().await.is_err());
        let other = LogEntry::Emitted { kind: "x".into(), data: Arc::default() };
        let log: Vec<LogEntry> = vec![other; 5];
        store.open("s").await.unwrap().append(0, log.into()).await.unwrap();
        assert_eq!(count().await, Ok(5));
    }

    /// C255: At most two sessions are kept, and each at most half a minute.
    #[tokio::test(start_paused = true)]
    async fn what_is_kept_is_bounded() {
        let (store, histories) = (InMemoryStore::new(), Histories::default());
        for session in ["a", "b", "c"] {
            store.open(session).await.unwrap().append(0, resets(1)).await.unwrap();
            histories.page(&store, session, 99, 99).await.unwrap();
        }
        let kept =
            || histories.recent().iter().map(|one| one.session.to_string()).collect::<Vec<_>>();
        assert_eq!(kept(), ["b", "c"]);
        tokio::time::sleep(KEEP_TIME / 2).await;
        histories.page(&store, "b", 99, 99).await.unwrap();
        tokio::time::sleep(KEEP_TIME * 3 / 4).await;
        assert_eq!(kept(), ["b"]);
        tokio::time::sleep(KEEP_TIME).await;
        assert!(kept().is_empty());
    }
}
