//! How often and how late failed requests are sent again.

use std::time::Duration;

use clap::Args;
use serde::{Deserialize, Serialize};

/// Describes how requests to a model are retried.
#[derive(Debug, Clone, Default, PartialEq, Args, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RetryOptions {
    /// How often a request is sent to the model's server if it fails in a way that may pass; 10 by
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
    /// Returns these options, with the values of `lower` for those that are not set.
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
