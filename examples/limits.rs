//! Limits of a run: the number of turns, a budget in tokens, a budget in dollars.
//!
//! `cargo run --example limits`
//!
//! The model would call its tool forever. `Limits::session` is such a budget for a whole session.

use std::error::Error;

use loopwright::GenericAgent;
use loopwright::limits::Budget;
use loopwright::message::Usage;
use loopwright::model::{ModelInfo, Prices};
use loopwright::patterns::PiPattern;
use loopwright::testing::{Script, ScriptedModel, TestTool};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let budgets =
        [Budget::default().turns(3), Budget::default().tokens(5_000), Budget::default().cost(0.10)];
    for budget in budgets {
        let call = Script::calls([("c", "search", json!({}))]).usage(Usage::new(1_000, 500));
        let prices = Prices::new(3.0, 15.0); // dollars per million tokens
        let model = ScriptedModel::new([])
            .default_reply(call)
            .info(ModelInfo::new("test/endless").with_prices(prices));
        let agent = GenericAgent::builder(model.clone(), PiPattern)
            .tool(TestTool::new("search"))
            .limits(budget)
            .build()?;
        let handle = agent.session().await?;
        let outcome = handle.prompt("Search until you find it.").await?;
        println!(
            "{:?} {:?}: {} requests, {} tokens, ${:.4}",
            outcome.end,
            outcome.limit,
            model.requests().len(),
            outcome.usage.total(),
            outcome.cost
        );
    }
    Ok(())
}
