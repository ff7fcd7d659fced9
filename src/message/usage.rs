//! Token counts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Token counts of one request, or the sum of several. `input` contains neither cache reads nor
/// cache writes, so [`Usage::total`] is the sum of the four; `reasoning` is part of `output`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[non_exhaustive]
pub struct Usage {
    /// Input tokens at full price.
    pub input: u64,
    /// Output tokens, including reasoning.
    pub output: u64,
    /// Input tokens read from the provider's cache.
    pub cache_read: u64,
    /// Input tokens written to the provider's cache.
    pub cache_write: u64,
    /// The part of `cache_write` that the cache keeps for an hour, which costs more.
    #[serde(skip_serializing_if = "is_zero")]
    pub cache_write_1h: u64,
    /// Output tokens spent on reasoning.
    pub reasoning: u64,
    /// Tokens that do not count towards the context window. The provider made several requests for
    /// the reply, for example to compact the conversation or to continue a paused turn. These are
    /// the tokens of all requests but the longest.
    #[serde(skip_serializing_if = "is_zero")]
    pub outside_context: u64,
    /// The cost that the provider reported, in trillionths of a US dollar. Zero means that it
    /// reported none.
    #[serde(skip_serializing_if = "is_zero")]
    pub reported_cost: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Usage {
    /// Builds the usage of a request without cache and reasoning.
    pub fn new(input: u64, output: u64) -> Self {
        Usage { input, output, ..Self::default() }
    }

    /// Sets the input tokens that were read from and written to the cache.
    pub fn cache(mut self, read: u64, write: u64) -> Self {
        self.cache_read = read;
        self.cache_write = write;
        self
    }

    /// Sets how many of the tokens written to the cache are kept for an hour.
    pub fn cache_write_1h(mut self, tokens: u64) -> Self {
        self.cache_write_1h = tokens;
        self
    }

    /// Sets how many of all tokens do not count towards the context window.
    pub fn outside_context(mut self, tokens: u64) -> Self {
        self.outside_context = tokens;
        self
    }

    /// Sets the cost that the provider reported, in US dollars. Zero means that it reported none:
    /// servers send it for a cost that they do not know.
    pub fn reported_cost(mut self, dollars: f64) -> Self {
        let cost = (dollars * 1e12).round();
        self.reported_cost = if cost.is_finite() { cost as u64 } else { 0 };
        self
    }

    /// Sets how many of the output tokens were spent on reasoning.
    pub fn reasoning(mut self, tokens: u64) -> Self {
        self.reasoning = tokens;
        self
    }

    /// Returns the sum of input, output, cache reads and cache writes.
    pub fn total(&self) -> u64 {
        [self.output, self.cache_read, self.cache_write]
            .into_iter()
            .fold(self.input, u64::saturating_add)
    }

    /// Returns the tokens in the model's context after the reply, if this is the usage of one
    /// request.
    pub fn context(&self) -> u64 {
        self.total().saturating_sub(self.outside_context)
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, more: Usage) {
        // The sum is only known if every part is.
        self.reported_cost = match (self.reported_cost, more.reported_cost) {
            (0, cost) if *self == Usage::default() => cost,
            (cost, 0) if more == Usage::default() => cost,
            (0, _) | (_, 0) => 0,
            (cost, more) => cost.saturating_add(more),
        };
        self.input = self.input.saturating_add(more.input);
        self.output = self.output.saturating_add(more.output);
        self.cache_read = self.cache_read.saturating_add(more.cache_read);
        self.cache_write = self.cache_write.saturating_add(more.cache_write);
        self.cache_write_1h = self.cache_write_1h.saturating_add(more.cache_write_1h);
        self.reasoning = self.reasoning.saturating_add(more.reasoning);
        self.outside_context = self.outside_context.saturating_add(more.outside_context);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_has_a_reported_cost_only_if_each_part_has_one() {
        let sum = |parts: &[Usage]| {
            let mut sum = Usage::default();
            parts.iter().for_each(|part| sum += *part);
            sum.reported_cost
        };
        let (known, unknown) = (Usage::new(1, 2).reported_cost(3.6e-6), Usage::new(1, 2));
        assert_eq!(known.reported_cost, 3_600_000);
        assert_eq!(sum(&[known, Usage::default(), known]), 7_200_000);
        assert_eq!(sum(&[known, unknown]), 0);
        assert_eq!(sum(&[unknown, known]), 0);
        for wrong in [0.0, -1.0, f64::NAN] {
            assert_eq!(Usage::new(1, 2).reported_cost(wrong).reported_cost, 0, "{wrong}");
        }
    }
}
