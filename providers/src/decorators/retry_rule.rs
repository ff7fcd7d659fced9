//! The number of attempts of a request, and the delays between them.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use loopwright_core::model::ModelError;

/// Default of [`Retry::attempts`](crate::Retry::attempts).
pub const MAX_ATTEMPTS: u32 = 10;
/// Default of [`Retry::max_delay`](crate::Retry::max_delay).
pub const MAX_RETRY_DELAY: Duration = Duration::from_secs(60);

/// The delays of one request, one before each further attempt.
pub(crate) type Delays = <ExponentialBuilder as BackoffBuilder>::Backoff;

/// The number of attempts, and the bounds of the delays between them.
#[derive(Debug, Clone)]
pub(crate) struct RetryRule {
    /// The maximum number of attempts, including the first.
    pub(crate) attempts: u32,
    /// The maximum delay before the second attempt.
    pub(crate) base: Duration,
    /// The maximum delay before any attempt.
    pub(crate) max_delay: Duration,
    /// The seed of reproducible delays; `None` for random ones.
    pub(crate) seed: Option<u64>,
}

impl Default for RetryRule {
    fn default() -> Self {
        RetryRule {
            attempts: MAX_ATTEMPTS,
            base: Duration::from_millis(500),
            max_delay: MAX_RETRY_DELAY,
            seed: None,
        }
    }
}

impl RetryRule {
    /// Returns the delays of a request, one before each further attempt.
    pub(crate) fn delays(&self) -> Delays {
        // backon adds up to the delay itself as jitter. Halving it makes ours the maximum.
        let backoff = ExponentialBuilder::new()
            .with_min_delay(self.base.min(self.max_delay) / 2)
            .with_max_delay(self.max_delay / 2)
            .with_max_times(self.attempts.saturating_sub(1) as usize)
            .with_jitter();
        self.seed.map_or(backoff, |seed| backoff.with_jitter_seed(seed)).build()
    }

    /// Returns the wait after this error, or `None` to give up.
    pub(crate) fn delay(&self, delays: &mut Delays, error: &ModelError) -> Option<Duration> {
        let wait = error.retry_after.unwrap_or_default();
        if !error.is_retryable() || wait > self.max_delay {
            return None;
        }
        Some(wait.saturating_add(delays.next()?).min(self.max_delay))
    }
}

#[cfg(test)]
mod tests {
    use loopwright_core::model::ModelErrorKind;

    use super::*;

    #[test]
    fn delays_grow_and_vary_within_their_bounds() {
        let rule = RetryRule { attempts: 50, seed: Some(7), ..RetryRule::default() };
        let mut delays = rule.delays();
        let failed = ModelError::new(ModelErrorKind::Network, "no");
        let mut seen = std::collections::HashSet::new();
        for attempt in 1..50 {
            let bound = Duration::from_millis(500)
                .saturating_mul(1 << (attempt - 1).min(16))
                .min(rule.max_delay);
            let delay = rule.delay(&mut delays, &failed).unwrap();
            assert!(delay >= bound / 2 && delay <= bound, "{delay:?} of {bound:?}");
            seen.insert(delay);
        }
        assert!(seen.len() > 40);
        assert_eq!(rule.delay(&mut delays, &failed), None);
        let short = RetryRule { max_delay: Duration::from_millis(10), ..rule };
        let first = short.delays().next();
        assert!(first.unwrap() <= Duration::from_millis(10));
        let differs = || RetryRule::default().delays().next();
        assert_ne!(differs(), differs());
    }
}
