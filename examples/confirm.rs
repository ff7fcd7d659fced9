//! Approvals: a call of a tool with side effects waits for a decision of the user.
//!
//! `cargo run --example confirm`
//!
//! The run ends with `AwaitingAction`. The pending calls are in the session's memory, so the
//! decision may come days later and from another process. It contains the digest of the call that
//! the user saw, so it cannot approve another call.

use std::error::Error;

use loopwright::event::Decision;
use loopwright::log::InMemory;
use loopwright::patterns::GenericPattern;
use loopwright::testing::{Script, ScriptedModel};
use loopwright::{GenericAgent, RunContext, tool};
use serde_json::json;

/// Transfers money.
#[tool] // not `read_only`, so each call needs an approval
fn transfer(to: &str, euros: u32) -> String {
    format!("{euros} € are on their way to {to}")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let pay = |id, to, euros| (id, "transfer", json!({"to": to, "euros": euros}));
    let model = ScriptedModel::new([
        Script::calls([pay("a", "Ann", 20), pay("b", "a stranger", 9000)]),
        Script::text("Ann has her 20 €; the other transfer was refused."),
    ]);
    let agent = GenericAgent::builder(model, GenericPattern).tool(transfer()).build()?;
    let memory = InMemory::new();

    let (handle, _events) =
        agent.run(RunContext::new().session("bank").memory(memory.clone())).await?;
    let outcome = handle.prompt("Pay my bills.").await?;
    println!("{:?}, {} calls wait", outcome.end, handle.pending().await?.len());
    drop(handle); // the process could end here

    let (handle, _events) = agent.run(RunContext::new().session("bank").memory(memory)).await?;
    for action in handle.pending().await? {
        let small = action.arguments["euros"].as_u64().is_some_and(|euros| euros <= 100);
        let decision =
            if small { Decision::Approve } else { Decision::Deny("that is too much".into()) };
        println!("{} {}: {}", action.name, action.arguments, decision.name());
        handle.resolve(&action, decision).await?;
    }
    handle.wait_for_idle().await;
    let state = handle.state().await?;
    for result in state.messages.iter().filter_map(|message| message.as_tool_result()) {
        println!("{}: {}", result.call, result.text());
    }
    println!("{}", state.messages.last().map(|message| message.text()).unwrap_or_default());
    Ok(())
}
