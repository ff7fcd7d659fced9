//! The ids of inputs, and how long their senders wait for receipts.

use std::time::Duration;

use loopwright_core::agent::{Environment, SystemEnvironment};
use loopwright_core::message::InputId;

/// How often the receipt of a posted input is looked for.
pub(super) const RECEIPT_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// How long a client waits for the receipt of a posted input.
pub(super) const RECEIPT_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns an id for an input that has none.
pub(super) fn new_input_id() -> InputId {
    format!("i{:016x}", SystemEnvironment.random()).into()
}
