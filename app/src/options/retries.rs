//! The number and the delay of retries of failed requests.

use std::time::Duration;

use clap::Args;
use serde::{Deserialize, Serialize};

/// Settings of the retries of model requests.
#[derive(Debug, Clone, Default, PartialEq, Args, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RetryOptions {
    /// The maximum number of attempts for a request that fails in a way that may pass; 10 by
    /// default.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_attempts: Option<u32>,
    /// The longest wait before a request is sent again, in seconds; 60 by default.
    ///
    /// If the server asks to wait longer, the request fails at once.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_retry_delay: Option<u32>,
}

impl RetryOptions {
    /// Returns these options, with `lower`'s values for the unset ones.
    pub(crate) fn over(self, lower: RetryOptions) -> RetryOptions {
        RetryOptions {
            max_attempts: self.max_attempts.or(lower.max_attempts),
            max_retry_delay: self.max_retry_delay.or(lower.max_retry_delay),
        }
    }

    /// Returns the maximum number of attempts.
    pub(crate) fn attempts(&self) -> u32 {
        self.max_attempts.unwrap_or(loopwright_providers::MAX_ATTEMPTS)
    }

    /// Returns the maximum delay.
    pub(crate) fn delay(&self) -> Duration {
        let set = self.max_retry_delay.map(|seconds| Duration::from_secs(seconds.into()));
        set.unwrap_or(loopwright_providers::MAX_RETRY_DELAY)
    }
}
