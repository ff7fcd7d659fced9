//! The cost of a reply, as gateways and some providers report it beside the token counts.

use serde::Deserialize;
use serde_json::Value;

/// The number of xAI's ticks in a US dollar.
const TICKS: f64 = 1e10;

/// The fields of a `usage` object that tell a cost.
#[derive(Debug, Deserialize, Default, Clone)]
pub(crate) struct ReportedCost {
    /// A number, or Perplexity's object.
    #[serde(default)]
    cost: Value,
    #[serde(default)]
    cost_in_usd_ticks: Value,
    /// `true` if OpenRouter used the customer's own key, and `cost` is only its fee.
    #[serde(default)]
    is_byok: Value,
    #[serde(default)]
    cost_details: Value,
}

impl ReportedCost {
    /// Returns the cost in US dollars, or zero if none is known.
    pub(crate) fn dollars(&self) -> f64 {
        let total = self.cost.get("total_cost").unwrap_or(&self.cost);
        let upstream = &self.cost_details["upstream_inference_cost"];
        match (number(&self.cost_in_usd_ticks), self.is_byok == true) {
            (0.0, false) => number(total),
            // Without the price of the customer's own contract, the fee alone would be too low.
            (0.0, true) if number(upstream) == 0.0 => 0.0,
            (0.0, true) => number(total) + number(upstream),
            (ticks, _) => ticks / TICKS,
        }
    }
}

/// Returns a number that is not negative, which may be in a string.
fn number(value: &Value) -> f64 {
    let number = value.as_f64().or_else(|| value.as_str()?.parse().ok());
    number.filter(|number| number.is_finite() && *number > 0.0).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_form_of_a_cost_is_read() {
        for (usage, dollars) in [
            (json!({}), 0.0),
            (json!({"cost": null, "cost_in_usd_ticks": "?"}), 0.0),
            (json!({"cost": -1.0}), 0.0),
            (json!({"cost": 3.6e-6, "is_byok": false}), 3.6e-6),
            (json!({"cost": "0.25", "total_tokens": 7}), 0.25),
            (json!({"cost": {"request_cost": 0.5, "total_cost": 0.75}}), 0.75),
            (json!({"num_sources_used": 0, "cost_in_usd_ticks": 5_000_000_000_u64}), 0.5),
            (
                json!({"cost": 0.25, "is_byok": true,
                    "cost_details": {"upstream_inference_cost": 1.0}}),
                1.25,
            ),
            (json!({"cost": 0.25, "is_byok": true, "cost_details": null}), 0.0),
        ] {
            let cost: ReportedCost = serde_json::from_value(usage.clone()).unwrap();
            assert_eq!(cost.dollars(), dollars, "{usage}");
        }
    }
}
