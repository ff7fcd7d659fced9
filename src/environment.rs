//! The clock and the source of randomness of a session. They are replaceable, so that a run can be
//! replayed.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{SystemTime, UNIX_EPOCH};

/// The source of time and randomness of a session.
pub trait Environment: Send + Sync {
    /// Returns the time in milliseconds since 1970.
    fn now(&self) -> u64;

    /// Returns a random number.
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
        // The operating system seeds the keys of each thread, and every state has a new key.
        RandomState::new().build_hasher().finish()
    }
}
