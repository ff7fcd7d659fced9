//! The ids of inputs, and the time limits for their receipts.

use std::time::Duration;

use loopwright_core::agent::{Environment, SystemEnvironment};
use loopwright_core::message::InputId;

/// The polling interval for the receipt of a posted input.
pub(super) const RECEIPT_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Timeout for the receipt of a posted input.
pub(super) const RECEIPT_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns an id for an input that has none.
pub(super) fn new_input_id() -> InputId {
    format!("i{:016x}", SystemEnvironment.random()).into()
}
