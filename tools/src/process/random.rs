//! Random numbers for names.

use std::hash::{BuildHasher, RandomState};

/// Returns a number that differs with each call and in each process.
pub(super) fn random() -> u64 {
    RandomState::new().hash_one(0)
}
