//! The time limits for the receipts of inputs.

use std::time::Duration;

/// The polling interval for the receipt of a posted input.
pub(super) const RECEIPT_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Timeout for the receipt of a posted input.
pub(super) const RECEIPT_TIMEOUT: Duration = Duration::from_secs(10);
