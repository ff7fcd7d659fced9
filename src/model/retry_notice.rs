//! [`RetryNotice`]: a failed request that will be sent again.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{ModelError, ModelErrorKind};

/// An announcement that a failed request will be sent again after a delay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct RetryNotice {
    /// Number of the next attempt. The first attempt has the number 1.
    pub attempt: u32,
    /// The maximum number of attempts.
    pub max_attempts: u32,
    /// Time until that attempt, in milliseconds.
    pub delay_ms: u64,
    /// The kind of error of the last attempt.
    pub kind: ModelErrorKind,
    /// The message of the last attempt's error.
    pub reason: String,
}

impl RetryNotice {
    /// Builds a notice about attempt number `attempt` of `max_attempts`, which follows `error`
    /// after `delay`.
    pub fn new(attempt: u32, max_attempts: u32, delay: Duration, error: &ModelError) -> Self {
        RetryNotice {
            attempt,
            max_attempts,
            delay_ms: u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
            kind: error.kind,
            reason: error.message.clone(),
        }
    }
}
