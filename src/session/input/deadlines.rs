//! [`Deadlines`], a clock for the deadlines of pending actions and the timers of patterns.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::environment::Environment;
use crate::session::Session;

/// Delay before a deadline is noted again if its action is still pending, because the mailbox
/// cannot be read or the log cannot be written.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// A clock for the next deadline of a session's pending actions, or the next timer of its pattern.
pub(crate) struct Deadlines {
    next: watch::Receiver<Option<u64>>,
    environment: Arc<dyn Environment>,
    /// The deadline that was noted last, and the time at which it is noted again.
    noted: Option<(u64, Instant)>,
}

impl Deadlines {
    pub(crate) fn new(session: &Session) -> Self {
        let environment = session.config.environment.clone();
        let next = session.journal.wakes_at();
        Deadlines { next, environment, noted: None }
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

    /// Waits until a deadline has passed. Dropping the future loses nothing.
    pub(crate) async fn wait(&mut self) {
        loop {
            let Some(next) = *self.next.borrow_and_update() else {
                match self.next.changed().await {
                    Ok(()) => continue,
                    Err(_) => std::future::pending().await,
                }
            };
            let Deadlines { next: changes, environment, noted } = self;
            let retry_at = noted.filter(|(known, _)| *known == next).map(|(_, retry_at)| retry_at);
            let passed = async {
                environment.sleep_until(next).await;
                if let Some(retry_at) = retry_at {
                    sleep_until(retry_at).await;
                }
            };
            tokio::select! { biased;
                changed = changes.changed() => {
                    if changed.is_err() {
                        std::future::pending().await
                    }
                }
                () = passed => {
                    if environment.now() >= next {
                        return;
                    }
                }
            }
        }
    }
}
