//! The budget of a session.

use clap::Args;
use serde::{Deserialize, Serialize};

/// Limits of all requests of a session together.
#[derive(Debug, Clone, Default, PartialEq, Args, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct BudgetOptions {
    /// The maximum number of turns for the whole session; unlimited by default.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_session_turns: Option<u32>,
    /// The maximum number of tokens for the whole session, input and output; unlimited by default.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_session_tokens: Option<u32>,
    /// The maximum cost of the whole session in US dollars; unlimited by default.
    ///
    /// With it, a model whose prices are not known is refused.
    #[arg(long, value_name = "DOLLARS", value_parser = dollars)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_session_cost: Option<f64>,
}

impl BudgetOptions {
    /// Returns these options, with `lower`'s values for the unset ones.
    pub(crate) fn over(self, lower: BudgetOptions) -> BudgetOptions {
        BudgetOptions {
            max_session_turns: self.max_session_turns.or(lower.max_session_turns),
            max_session_tokens: self.max_session_tokens.or(lower.max_session_tokens),
            max_session_cost: self.max_session_cost.or(lower.max_session_cost),
        }
    }
}

/// Parses a sum of money.
pub(crate) fn dollars(text: &str) -> Result<f64, String> {
    let dollars = text.parse::<f64>().ok().filter(|dollars| is_sum(*dollars));
    dollars.ok_or_else(|| "it must be a number greater than 0".into())
}

/// Returns whether a budget can have this cost, in dollars.
pub(crate) fn is_sum(dollars: f64) -> bool {
    dollars.is_finite() && dollars > 0.0
}
