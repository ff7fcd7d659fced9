//! [`Deadlines`], a timer for the deadlines of pending actions.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::environment::Environment;
use crate::session::Session;

/// Delay before a deadline is noted again if its action is still pending, because the mailbox
/// cannot be read or the log cannot be written.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Maximum sleep until a deadline. The clock is then read again, because it may have been set.
const MAX_SLEEP: Duration = Duration::from_secs(60 * 60);

/// A timer for the next deadline of a session's pending actions.
pub(crate) struct Deadlines {
    next: watch::Receiver<Option<u64>>,
    environment: Arc<dyn Environment>,
    timer: Option<Pin<Box<Sleep>>>,
    /// The deadline that was noted last, and the time at which it is noted again.
    noted: Option<(u64, Instant)>,
}

impl Deadlines {
    pub(crate) fn new(session: &Session) -> Self {
        let environment = session.config.environment.clone();
        let next = session.journal.deadline();
        Deadlines { next, environment, timer: None, noted: None }
    }

    /// Returns the time in milliseconds since 1970.
    pub(crate) fn now(&self) -> u64 {
        self.environment.now()
    }

    /// Notes a deadline that has passed. Returns whether there was a new one.
    pub(crate) fn note_passed(&mut self) -> bool {
        let Some(next) = *self.next.borrow() else { return false };
        let is_noted = |(known, retry_at)| known == next && Instant::now() < retry_at;
        if self.noted.is_some_and(is_noted) || self.now() < next {
            return false;
        }
        self.noted = Some((next, Instant::now() + RETRY_DELAY));
        true
    }

    /// Returns whether the next deadline has passed at `now`, a time of another clock.
    pub(crate) fn is_past(&self, now: u64) -> bool {
        self.next.borrow().is_some_and(|next| next <= now)
    }

    /// Waits until a deadline has passed. Dropping the future loses nothing.
    pub(crate) async fn wait(&mut self) {
        loop {
            let Some(next) = *self.next.borrow_and_update() else {
                self.timer = None;
                match self.next.changed().await {
                    Ok(()) => continue,
                    Err(_) => std::future::pending().await,
                }
            };
            if self.timer.is_none() {
                let left = Duration::from_millis(next.saturating_sub(self.now()));
                let at = Instant::now() + left.min(MAX_SLEEP);
                let noted = self.noted.filter(|(known, _)| *known == next);
                let at = noted.map_or(at, |(_, retry_at)| at.max(retry_at));
                self.timer = Some(Box::pin(sleep_until(at)));
            }
            let Some(timer) = &mut self.timer else { continue };
            tokio::select! { biased;
                changed = self.next.changed() => {
                    self.timer = None;
                    if changed.is_err() {
                        std::future::pending().await
                    }
                }
                () = timer => {
                    self.timer = None;
                    if self.now() >= next {
                        return;
                    }
                }
            }
        }
    }
}
