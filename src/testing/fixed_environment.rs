//! [`FixedEnvironment`]: a clock that stands still, and predictable random numbers.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::environment::Environment;

/// A clock that always reads zero, and random numbers that count up from zero.
///
/// ```
/// use loopwright_core::Environment;
/// use loopwright_core::testing::FixedEnvironment;
///
/// let environment = FixedEnvironment::default();
/// assert_eq!(environment.now(), 0);
/// assert_eq!((environment.random(), environment.random()), (0, 1));
/// ```
#[derive(Debug, Default)]
pub struct FixedEnvironment(AtomicU64);

impl Environment for FixedEnvironment {
    fn now(&self) -> u64 {
        0
    }

    fn random(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}
