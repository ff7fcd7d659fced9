//! [`ResponseHead`]: the fields shared by all frames of a response.

use std::sync::Arc;

/// The fields shared by all frames of a response.
#[derive(Debug, Clone, Default)]
pub struct ResponseHead {
    /// A unique id of letters and digits.
    pub id: Arc<str>,
    /// The time in seconds since 1970.
    pub created: u64,
    /// The name of the agent.
    pub model: Arc<str>,
}
