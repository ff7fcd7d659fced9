//! Testing an agent: scripted replies, checks of its requests, and a crash after every write.
//!
//! `cargo run --example test_your_agent`
//!
//! The functions here would be tests, with `#[tokio::test(start_paused = true)]`, in which waiting
//! takes no time; this attribute needs tokio's feature `test-util`. Everything else comes from the
//! crate's feature `testing`.

use std::error::Error;

use loopwright::patterns::PiPattern;
use loopwright::testing::{
    Harness, Script, ScriptedSession, TestTool, check_events, crash_at_every_append,
};
use loopwright::tool::Effect;
use loopwright::{AgentBuilder, GenericAgent};
use serde_json::json;

/// Builds the agent under test around any model.
fn with_tools(agent: AgentBuilder) -> AgentBuilder {
    let pay = TestTool::new("pay").effect(Effect::AtMostOnce).answers("Paid 20 €.");
    agent.system("You pay bills.").tool(pay)
}

fn replies() -> [Script; 2] {
    [Script::calls([("call-1", "pay", json!({"euros": 20}))]), Script::text("The bill is paid.")]
}

/// Checks that a payment waits for an approval, and runs once it has one.
async fn a_payment_needs_an_approval() -> Result<(), Box<dyn Error>> {
    let mut harness = Harness::new(PiPattern, replies(), with_tools).await;
    harness.handle.prompt("Pay the bill.").await?;
    assert_eq!(harness.pending().await.len(), 1);
    harness.resolve(0, loopwright::event::Decision::Approve).await?;
    harness.handle.wait_for_idle().await;
    let conversation =
        ["U:Pay the bill.", "A:[call-1]/ToolCalls", "R:call-1/Ok", "A:The bill is paid./Stop"];
    assert_eq!(harness.transcript().await, conversation);
    assert_eq!(&*harness.model.requests()[0].system, "You pay bills.");
    check_events(&harness.drain_events())?;
    harness.check().await;
    Ok(())
}

/// Checks that the bill is never paid twice, for a crash after any write.
async fn a_crash_pays_nothing_twice() -> Result<(), Box<dyn Error>> {
    let agent = |model| with_tools(GenericAgent::builder(model, PiPattern));
    let session = ScriptedSession::new(replies()).request("Pay the bill.");
    println!("{}", crash_at_every_append(agent, session).await?);
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    a_payment_needs_an_approval().await?;
    println!("a payment needs an approval: passed");
    a_crash_pays_nothing_twice().await?;
    println!("a crash pays nothing twice: passed");
    Ok(())
}
