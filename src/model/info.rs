//! The properties and prices of a model.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::message::Usage;

/// The properties of a model. `None` means unknown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ModelInfo {
    /// The name, as `provider/name`.
    pub id: Arc<str>,
    /// The prices, in US dollars per million tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices: Option<Prices>,
    /// Number of tokens that fit into a request and its reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// Number of tokens that fit into a reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output: Option<u64>,
    /// `true` if the model can think before it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<bool>,
    /// `true` if the model accepts images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<bool>,
}

impl ModelInfo {
    /// Builds an entry with a name, as `provider/name`, and nothing else.
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

    /// Returns the cost of `usage` in US dollars: the cost that the provider reported, or else by
    /// the prices. Returns `None` if neither is known.
    pub fn cost(&self, usage: &Usage) -> Option<f64> {
        match usage.reported_cost {
            0 => self.prices.map(|prices| prices.cost(usage)),
            cost => Some(cost as f64 / 1e12),
        }
    }
}

/// The prices of a model, in US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Prices {
    /// The price of uncached input.
    pub input: f64,
    /// The price of output.
    pub output: f64,
    /// The price of input read from the cache.
    pub cache_read: f64,
    /// The price of input written to the cache.
    pub cache_write: f64,
    /// The price of input that the cache keeps for an hour. `None` means twice the price of input,
    /// as Anthropic charges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_1h: Option<f64>,
    /// The prices of requests with long input, if the provider has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub long: Option<LongPrices>,
}

/// The prices of requests with long input, in US dollars per million tokens.
///
/// The [`Usage`] of the reply decides whether they apply. If a provider paused the turn, several
/// requests produced one reply, whose usage is their sum, although the provider compares each
/// request. The cost of such a reply can be too high, but never too low.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct LongPrices {
    /// Number of input tokens, cached ones included, above which the prices apply to the whole
    /// request.
    pub over: u64,
    /// The price of uncached input.
    pub input: f64,
    /// The price of output.
    pub output: f64,
    /// The price of input read from the cache.
    pub cache_read: f64,
    /// The price of input written to the cache.
    pub cache_write: f64,
    /// The price of input that the cache keeps for an hour. `None` means twice the price of input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_1h: Option<f64>,
}

impl LongPrices {
    /// Builds the prices of requests with more than `over` tokens of input. Cached input is free
    /// until [`LongPrices::cache`] is called.
    pub fn new(over: u64, input: f64, output: f64) -> Self {
        LongPrices { over, input, output, ..Self::default() }
    }

    /// Sets the prices of input read from and written to the cache.
    pub fn cache(mut self, read: f64, write: f64) -> Self {
        self.cache_read = read;
        self.cache_write = write;
        self
    }

    /// Sets the price of input that the cache keeps for an hour; `None` means twice the price of
    /// input.
    pub fn cache_write_1h(mut self, price: impl Into<Option<f64>>) -> Self {
        self.cache_write_1h = price.into();
        self
    }
}

impl Prices {
    /// Builds prices without a cache: cached input is free until [`Prices::cache`] is called.
    pub fn new(input: f64, output: f64) -> Self {
        Prices { input, output, ..Self::default() }
    }

    /// Sets the prices of input read from and written to the cache.
    pub fn cache(mut self, read: f64, write: f64) -> Self {
        self.cache_read = read;
        self.cache_write = write;
        self
    }

    /// Sets the price of input that the cache keeps for an hour; `None` means twice the price of
    /// input.
    pub fn cache_write_1h(mut self, price: impl Into<Option<f64>>) -> Self {
        self.cache_write_1h = price.into();
        self
    }

    /// Sets the prices of requests with long input.
    pub fn long(mut self, long: impl Into<Option<LongPrices>>) -> Self {
        self.long = long.into();
        self
    }

    /// Returns the cost of one request with this `usage`, in US dollars.
    pub fn cost(&self, usage: &Usage) -> f64 {
        let prompt = usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
        let ([input, output, cache_read, cache_write], cache_write_1h) = match self.long {
            Some(long) if prompt > long.over => {
                ([long.input, long.output, long.cache_read, long.cache_write], long.cache_write_1h)
            }
            _ => {
                ([self.input, self.output, self.cache_read, self.cache_write], self.cache_write_1h)
            }
        };
        let for_an_hour = usage.cache_write_1h.min(usage.cache_write);
        let parts = [
            (usage.input, input),
            (usage.output, output),
            (usage.cache_read, cache_read),
            (usage.cache_write - for_an_hour, cache_write),
            (for_an_hour, cache_write_1h.unwrap_or(2.0 * input)),
        ];
        parts.iter().map(|(tokens, price)| *tokens as f64 * price / 1e6).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_request_has_prices_of_its_own() {
        let long = LongPrices::new(100, 2e6, 20e6).cache(0.2e6, 4e6);
        let prices = Prices::new(1e6, 10e6).cache(0.1e6, 3e6).long(long);
        let cost = |cache_read| prices.cost(&Usage::new(40, 1).cache(cache_read, 10));
        assert_eq!(cost(50), 40.0 + 10.0 + 5.0 + 30.0);
        assert_eq!(cost(60), 80.0 + 20.0 + 12.0 + 40.0);
    }

    /// C482
    #[test]
    fn a_reported_cost_takes_precedence_over_the_prices() {
        let unpriced = ModelInfo::new("a/b");
        let priced = unpriced.clone().with_prices(Prices::new(1e6, 1e6));
        let usage = Usage::new(1, 2);
        assert_eq!((unpriced.cost(&usage), priced.cost(&usage)), (None, Some(3.0)));
        let reported = usage.reported_cost(0.25);
        assert_eq!((unpriced.cost(&reported), priced.cost(&reported)), (Some(0.25), Some(0.25)));
    }

    #[test]
    fn what_the_cache_keeps_for_an_hour_has_a_price_of_its_own() {
        let prices = Prices::new(1e6, 10e6).cache(0.1e6, 1.25e6);
        let usage = Usage::new(1, 0).cache(0, 10).cache_write_1h(4);
        assert_eq!(prices.cost(&usage), 1.0 + 6.0 * 1.25 + 4.0 * 2.0);
        assert_eq!(prices.cache_write_1h(3e6).cost(&usage), 1.0 + 6.0 * 1.25 + 4.0 * 3.0);
        let long = LongPrices::new(5, 2e6, 20e6).cache(0.2e6, 2.5e6);
        assert_eq!(prices.long(long).cost(&usage), 2.0 + 6.0 * 2.5 + 4.0 * 4.0);
        let own = long.cache_write_1h(5e6);
        assert_eq!(prices.long(own).cost(&usage), 2.0 + 6.0 * 2.5 + 4.0 * 5.0);
        let wrong = Usage::new(0, 0).cache(0, 1).cache_write_1h(9);
        assert_eq!(prices.cost(&wrong), 2.0, "no more than was written");
    }
}
