//! [`fail`], the failure of a test.

/// Fails the test with this message. No other function of [`testing`](crate::testing) panics.
#[allow(clippy::panic, reason = "a failed check is a failed test")]
pub(super) fn fail(message: &dyn std::fmt::Display) -> ! {
    panic!("{message}")
}
