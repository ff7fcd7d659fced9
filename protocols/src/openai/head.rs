//! [`ResponseHead`]: what the frames of a response have in common.

use std::sync::Arc;

/// Names a response: what its frames have in common.
#[derive(Debug, Clone, Default)]
pub struct ResponseHead {
    /// A unique text of letters and digits.
    pub id: Arc<str>,
    /// The time in seconds since 1970.
    pub created: u64,
    /// The agent's name.
    pub model: Arc<str>,
}
