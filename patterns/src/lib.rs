//! Behaviour patterns for loopwright: the loops that most agents need, one file each.
//!
//! | pattern | the loop |
//! |---|---|
//! | [`GenericPattern`] | one loop: ask, call tools; every message joins before the next request |
//! | [`PiPattern`] | two loops: tools and steering inside, follow-ups outside |
//! | [`FirstCall`] | the first turn of a request must call a tool; another pattern does the rest |
//!
//! The module `conformance`, behind the feature of that name, is a test suite for patterns.

#[cfg(feature = "conformance")]
pub mod conformance;
mod first_call;
mod generic;
mod pi;

pub use first_call::FirstCall;
pub use generic::GenericPattern;
pub use pi::PiPattern;
