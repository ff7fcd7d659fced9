//! Time and chance: the one seam through which a session gets both, so that a run can be replayed.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{SystemTime, UNIX_EPOCH};

/// Where a session takes time and chance from.
pub trait Environment: Send + Sync {
    /// Milliseconds since 1970.
    fn now(&self) -> u64;
    /// A random number.
    fn random(&self) -> u64;
}

/// The machine's clock and randomness.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemEnvironment;

impl Environment for SystemEnvironment {
    fn now(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
    }

    fn random(&self) -> u64 {
        RandomState::new().build_hasher().finish() // keyed anew by the operating system for each thread, and counted up
    }
}
