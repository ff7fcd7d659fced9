//! Limits of a run: the number of turns, a budget in tokens, a budget in dollars, an answer at the
//! limit, and a guard against a model that is stuck.
//!
//! `cargo run --example limits`
//!
//! The model would call its tool forever. `Limits::session` is such a budget for a whole session.

use std::error::Error;

use loopwright::GenericAgent;
use loopwright::limits::{Budget, Limits, LoopGuard, WrapUp};
use loopwright::message::Usage;
use loopwright::model::{ModelInfo, Prices, ToolChoice};
use loopwright::patterns::PiPattern;
use loopwright::testing::{Script, ScriptedModel, TestTool};
use serde_json::json;

/// Runs the agent with these limits, and prints how the run ends.
async fn run(limits: impl Into<Limits>) -> Result<(), Box<dyn Error>> {
    let model = ScriptedModel::new([])
        .reply_with(|request| match request.tool_choice {
            ToolChoice::None => Script::text("I have searched one archive of two."),
            _ => Script::calls([("c", "search", json!({}))]).usage(Usage::new(1_000, 500)),
        })
        .info(ModelInfo::new("test/endless").with_prices(Prices::new(3.0, 15.0))); // per million
    let agent = GenericAgent::builder(model.clone(), PiPattern)
        .tool(TestTool::new("search").answers("nothing"))
        .limits(limits)
        .build()?;
    let handle = agent.session().await?;
    let outcome = handle.prompt("Search until you find it.").await?;
    println!(
        "{:?} {:?}: {} requests, {} tokens, ${:.4} {}",
        outcome.end,
        outcome.limit,
        model.requests().len(),
        outcome.usage.total(),
        outcome.cost,
        outcome.text
    );
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    run(Budget::default().turns(3)).await?;
    run(Budget::default().tokens(5_000)).await?;
    run(Budget::default().cost(0.10)).await?;

    // The last request within the budget may call no tool, and asks how far the agent came.
    run(Limits::from(Budget::default().turns(3)).wrap_up(WrapUp::new())).await?;
    // The same call has the same result five times: the model is stuck.
    run(Limits::default().loop_guard(LoopGuard::new())).await?;
    run(Limits::default().loop_guard(LoopGuard::new()).wrap_up(WrapUp::new())).await?;
    Ok(())
}
