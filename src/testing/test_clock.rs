//! [`TestClock`]: a clock that a test moves, and predictable random numbers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;

use crate::environment::Environment;

/// A clock that stands still until a test moves it, and random numbers that count up from zero. It
/// begins at zero. Clones share the time and the numbers.
///
/// An agent with this [environment](crate::AgentBuilder::environment) acts as if the time had
/// passed: deadlines of pending actions fire when the clock is moved past them. Delays of tools,
/// retries and limits of time are measured by tokio's clock, which tests pause
/// (`start_paused = true`).
///
/// ```
/// use loopwright_core::Environment;
/// use loopwright_core::testing::TestClock;
/// use std::time::Duration;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let clock = TestClock::default();
/// assert_eq!((clock.now(), clock.random(), clock.random()), (0, 0, 1));
/// clock.advance(Duration::from_secs(24 * 60 * 60)).await;
/// assert_eq!(clock.now(), 86_400_000);
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct TestClock(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    now: watch::Sender<u64>,
    random: AtomicU64,
}

impl TestClock {
    /// Moves the clock forward, and lets the tasks continue that waited for a time until then. The
    /// runs that they start may still be in progress when this returns;
    /// [`wait_for_idle`](crate::AgentHandle::wait_for_idle) waits for them.
    ///
    /// The clock jumps, as when a computer wakes up: a deadline that is set meanwhile counts from
    /// the new time.
    pub async fn advance(&self, by: Duration) {
        self.advance_to(self.now().saturating_add(by.as_millis() as u64)).await;
    }

    /// Moves the clock to a time in milliseconds since 1970, unless it is past it. Otherwise like
    /// [`TestClock::advance`].
    pub async fn advance_to(&self, time: u64) {
        self.0.now.send_modify(|now| *now = time.max(*now));
        tokio::task::yield_now().await;
    }
}

#[async_trait]
impl Environment for TestClock {
    fn now(&self) -> u64 {
        *self.0.now.borrow()
    }

    fn random(&self) -> u64 {
        self.0.random.fetch_add(1, Ordering::Relaxed)
    }

    async fn sleep_until(&self, at: u64) {
        // The sender lives as long as `self`.
        let _ = self.0.now.subscribe().wait_for(|now| *now >= at).await;
    }
}
