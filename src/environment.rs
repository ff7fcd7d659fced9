//! The clock and the source of randomness of a session. They are replaceable, so that a run can be
//! replayed.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;

/// Maximum sleep until a time. The clock is then read again, because it may have been set, or the
/// machine was suspended.
const MAX_SLEEP: Duration = Duration::from_secs(60);

/// The source of time and randomness of a session.
#[async_trait]
pub trait Environment: Send + Sync {
    /// Returns the time in milliseconds since 1970.
    fn now(&self) -> u64;

    /// Returns a random number.
    fn random(&self) -> u64;

    /// Waits until the clock reads `at` or later. Dropping the future loses nothing.
    ///
    /// The default sleeps for the time that is left, and reads the clock at least once a minute,
    /// because it may have been set. A clock that does not run on its own implements it.
    async fn sleep_until(&self, at: u64) {
        while let left @ 1.. = at.saturating_sub(self.now()) {
            tokio::time::sleep(Duration::from_millis(left).min(MAX_SLEEP)).await;
        }
    }
}

/// The machine's clock and randomness.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemEnvironment;

impl Environment for SystemEnvironment {
    fn now(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
    }

    fn random(&self) -> u64 {
        // The operating system seeds the keys of each thread, and every state has a new key.
        RandomState::new().build_hasher().finish()
    }
}
