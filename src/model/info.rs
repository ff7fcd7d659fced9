//! The properties and prices of a model.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::message::Usage;

/// Describes a model. `None` means that a value is not known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ModelInfo {
    /// `provider/name`.
    pub id: Arc<str>,
    /// Its prices, in US dollars per million tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices: Option<Prices>,
    /// The tokens that fit into a request and its reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// The tokens that fit into a reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output: Option<u64>,
    /// Whether it can think before it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<bool>,
    /// Whether it accepts images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<bool>,
}

impl ModelInfo {
    /// Describes a model by its name alone, as `provider/name`.
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        let id = id.into();
        ModelInfo {
            id,
            prices: None,
            context_window: None,
            max_output: None,
            thinking: None,
            images: None,
        }
    }

    /// Sets the prices.
    pub fn with_prices(mut self, prices: Prices) -> Self {
        self.prices = Some(prices);
        self
    }

    /// Sets the context window, in tokens.
    pub fn with_context_window(mut self, tokens: u64) -> Self {
        self.context_window = Some(tokens);
        self
    }

    /// Sets the maximum length of a reply, in tokens.
    pub fn with_max_output(mut self, tokens: u64) -> Self {
        self.max_output = Some(tokens);
        self
    }

    /// Returns the cost of `usage` in US dollars, or `None` if the prices are not known.
    pub fn cost(&self, usage: &Usage) -> Option<f64> {
        self.prices.map(|prices| prices.cost(usage))
    }
}

/// Holds the prices of a model, in US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Prices {
    /// The price of input.
    pub input: f64,
    /// The price of output.
    pub output: f64,
    /// The price of input that is read from the cache.
    pub cache_read: f64,
    /// The price of input that is written to the cache.
    pub cache_write: f64,
    /// The prices of a request whose input is long, if the provider has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub long: Option<LongPrices>,
}

/// Holds the prices of requests with long input, in US dollars per million tokens.
///
/// The [`Usage`] of the reply decides. If a provider paused the turn, so that several requests
/// produced one reply, that is their sum, although the provider compares each request. The cost of
/// such a reply can be too high, but never too low.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LongPrices {
    /// The prices apply to the whole request if its input, including cached tokens, is longer.
    pub over: u64,
    /// The price of input.
    pub input: f64,
    /// The price of output.
    pub output: f64,
    /// The price of input that is read from the cache.
    pub cache_read: f64,
    /// The price of input that is written to the cache.
    pub cache_write: f64,
}

impl LongPrices {
    /// Builds the prices of requests with more than `over` tokens of input. Cached input is free
    /// until [`LongPrices::cache`] is called.
    pub fn new(over: u64, input: f64, output: f64) -> Self {
        LongPrices { over, input, output, ..Self::default() }
    }

    /// Sets the prices of input that is read from and written to the cache.
    pub fn cache(mut self, read: f64, write: f64) -> Self {
        self.cache_read = read;
        self.cache_write = write;
        self
    }
}

impl Prices {
    /// Builds prices without a cache: cached input is free until [`Prices::cache`] is called.
    pub fn new(input: f64, output: f64) -> Self {
        Prices { input, output, ..Self::default() }
    }

    /// Sets the prices of input that is read from and written to the cache.
    pub fn cache(mut self, read: f64, write: f64) -> Self {
        self.cache_read = read;
        self.cache_write = write;
        self
    }

    /// Sets the prices of requests whose input is long.
    pub fn long(mut self, long: impl Into<Option<LongPrices>>) -> Self {
        self.long = long.into();
        self
    }

    /// Returns the cost of one request with this `usage`, in US dollars.
    pub fn cost(&self, usage: &Usage) -> f64 {
        let prompt = usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
        let [input, output, cache_read, cache_write] = match self.long {
            Some(long) if prompt > long.over => {
                [long.input, long.output, long.cache_read, long.cache_write]
            }
            _ => [self.input, self.output, self.cache_read, self.cache_write],
        };
        let parts = [
            (usage.input, input),
            (usage.output, output),
            (usage.cache_read, cache_read),
            (usage.cache_write, cache_write),
        ];
        parts.iter().map(|(tokens, price)| *tokens as f64 * price / 1e6).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_request_has_prices_of_its_own() {
        let long =
            LongPrices { over: 100, input: 2e6, output: 20e6, cache_read: 0.2e6, cache_write: 4e6 };
        let prices = Prices {
            input: 1e6,
            output: 10e6,
            cache_read: 0.1e6,
            cache_write: 3e6,
            long: Some(long),
        };
        let cost = |cache_read| {
            prices.cost(&Usage { input: 40, output: 1, cache_read, cache_write: 10, reasoning: 0 })
        };
        assert_eq!(cost(50), 40.0 + 10.0 + 5.0 + 30.0);
        assert_eq!(cost(60), 80.0 + 20.0 + 12.0 + 40.0);
    }
}
