//! Sub-agents: agents that get tasks from a model or a pattern. Two of them work at the same time,
//! each in its own session.
//!
//! `cargo run --example sub_agents`
//!
//! Their approvals are decided in the root session. An approved sub-agent continues, whether or not
//! the other is still waiting. If the process ended in between, another one would show the same
//! actions.

use std::error::Error;

use loopwright::log::InMemoryStore;
use loopwright::patterns::GenericPattern;
use loopwright::testing::{Script, ScriptedModel};
use loopwright::{GenericAgent, tool};
use serde_json::json;

/// Books it.
#[tool]
fn book(what: &str) -> String {
    format!("{what} is booked")
}

/// Builds an agent that books one thing, for which it needs an approval.
fn booker(what: &str) -> Result<GenericAgent, Box<dyn Error>> {
    let model = ScriptedModel::new([
        Script::calls([("b", "book", json!({"what": what}))]),
        Script::text(&format!("Booked: {what}.")),
    ]);
    Ok(GenericAgent::builder(model, GenericPattern).tool(book()).build()?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let task = |id, agent, task| (id, agent, json!({"task": task}));
    let model = ScriptedModel::new([
        Script::calls([
            task("t", "trains", "To Rome."),
            task("h", "hotels", "Two nights in Rome."),
        ]),
        Script::text("Train and hotel are booked."),
    ]);
    let agent = GenericAgent::builder(model, GenericPattern)
        .child("trains", "Finds and books trains.", booker("the night train")?)
        .child("hotels", "Finds and books hotels.", booker("a room")?)
        .build()?;
    let store = InMemoryStore::new();
    let handle = agent.open(&store, "trip").await?;
    let mut tree = handle.subscribe_tree();

    println!("{:?}", handle.prompt("Plan my trip to Rome.").await?.end);
    while let Some(action) = handle.pending().await?.into_iter().next() {
        println!("{}: {} {}", action.path.join("/"), action.name, action.arguments);
        handle.approve(&action).await?;
        handle.wait_for_idle().await;
    }
    let state = handle.state().await?;
    for result in state.messages.iter().filter_map(|message| message.as_tool_result()) {
        println!("{}: {}", result.name, result.text());
    }
    println!("{}", state.messages.last().map(|message| message.text()).unwrap_or_default());

    let mut sessions: Vec<_> =
        std::iter::from_fn(|| tree.try_next()).map(|event| event.session_id.to_string()).collect();
    sessions.sort();
    sessions.dedup();
    println!("sessions: {}", sessions.join(", "));
    Ok(())
}
