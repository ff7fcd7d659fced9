//! The number of attempts of a request, and the delays between them.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use loopwright_core::model::{ModelError, ModelErrorKind};

/// Default of [`Retry::attempts`](crate::Retry::attempts).
pub const MAX_ATTEMPTS: u32 = 10;
/// Default of [`Retry::max_delay`](crate::Retry::max_delay).
pub const MAX_RETRY_DELAY: Duration = Duration::from_secs(60);

/// The maximum number of attempts that reach no server: most of its causes do not pass.
const MAX_UNREACHABLE: u32 = 3;
/// The maximum number of failed attempts that the provider may charge for.
const MAX_CHARGED: u32 = 3;

/// The delays of one request, one before each further attempt, and its attempts so far.
pub(crate) struct Delays {
    delays: <ExponentialBuilder as BackoffBuilder>::Backoff,
    attempts: u32,
    unreachable: u32,
    charged: u32,
}

/// A further attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NextAttempt {
    /// The wait before it.
    pub(crate) delay: Duration,
    /// Its number, from 2.
    pub(crate) number: u32,
    /// The number of the last attempt, if each fails in the same way.
    pub(crate) last: u32,
}

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
        let delays = self.seed.map_or(backoff, |seed| backoff.with_jitter_seed(seed)).build();
        Delays { delays, attempts: 0, unreachable: 0, charged: 0 }
    }

    /// Returns the attempt after this error, or `None` to give up. `has_reply` is `true` if a part
    /// of a reply had been emitted.
    pub(crate) fn next(
        &self,
        delays: &mut Delays,
        error: &ModelError,
        has_reply: bool,
    ) -> Option<NextAttempt> {
        delays.attempts += 1;
        let left = match error.kind {
            ModelErrorKind::Unreachable => left(&mut delays.unreachable, MAX_UNREACHABLE),
            ModelErrorKind::Protocol => left(&mut delays.charged, MAX_CHARGED),
            // Without a status it is a timeout of ours: the model may have worked all the time.
            ModelErrorKind::Timeout if error.status.is_none() => {
                left(&mut delays.charged, MAX_CHARGED)
            }
            _ if has_reply || error.has_begun => left(&mut delays.charged, MAX_CHARGED),
            _ => u32::MAX,
        };
        let wait = error.retry_after.unwrap_or_default();
        if !error.is_retryable() || wait > self.max_delay || left == 0 {
            return None;
        }
        let delay = wait.saturating_add(delays.delays.next()?).min(self.max_delay);
        let last = delays.attempts.saturating_add(left).min(self.attempts);
        Some(NextAttempt { delay, number: delays.attempts + 1, last })
    }
}

/// Counts an attempt. Returns how many further ones there may be.
fn left(count: &mut u32, max: u32) -> u32 {
    *count += 1;
    max.saturating_sub(*count)
}

#[cfg(test)]
mod tests {
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
            let delay = rule.next(&mut delays, &failed, false).unwrap().delay;
            assert!(delay >= bound / 2 && delay <= bound, "{delay:?} of {bound:?}");
            seen.insert(delay);
        }
        assert!(seen.len() > 40);
        assert_eq!(rule.next(&mut delays, &failed, false), None);
        let short = RetryRule { max_delay: Duration::from_millis(10), ..rule };
        let first = short.delays().delays.next();
        assert!(first.unwrap() <= Duration::from_millis(10));
        let differs = || RetryRule::default().delays().delays.next();
        assert_ne!(differs(), differs());
    }
}
