//! An agent that waits for an event: an order is handled when a webhook says that it is paid.
//!
//! `cargo run --example wait_for_event`
//!
//! The wait is in the session's log, so it may last for days. Meanwhile the user can talk to the
//! agent.

use std::error::Error;

use loopwright::log::InMemoryStore;
use loopwright::message::UserMessage;
use loopwright::patterns::PiPattern;
use loopwright::testing::{Script, ScriptedModel};
use loopwright::{BehaviorPattern, GenericAgent, StepContext, StepEnd, StepError, async_trait};
use serde_json::json;

/// Answers, and continues when the order is paid, or when nobody has paid for a day.
struct Order;

#[async_trait]
impl BehaviorPattern for Order {
    fn inner(&self) -> Option<&dyn BehaviorPattern> {
        Some(&PiPattern)
    }

    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        let end = PiPattern.next_step(step).await?;
        if end != StepEnd::Done || step.state("handled") == Some(true) {
            return Ok(end);
        }
        let tomorrow = step.now() + 24 * 60 * 60 * 1_000;
        let paid = step.wait_for_event("paid", tomorrow).await?;
        step.set_state("handled", true)?; // is written with the message
        let text = paid.map_or("Nobody has paid.".into(), |paid| format!("[paid: {paid}]"));
        step.remember(UserMessage::from(text)).await?;
        PiPattern.next_step(step).await
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let replies = ["Please pay 20 €.", "Not yet.", "Thank you. The book is on its way."];
    let agent = GenericAgent::builder(ScriptedModel::new(replies.map(Script::text)), Order);
    let (agent, store) = (agent.build()?, InMemoryStore::new()); // a program has a store on disk
    let session = agent.open(&store, "order-17").await?;
    println!("{:?}", session.prompt("I want the book.").await?.end);
    println!("{}", session.prompt("Is it paid?").await?.text);

    // A webhook of the bank would send this, over HTTP: POST /api/sessions/order-17/signal
    session.signal("paid", json!({ "euros": 20 })).await?;
    session.wait_for_idle().await;
    for message in session.state().await?.messages.iter() {
        println!("{:?}: {}", message.role(), message.text());
    }
    Ok(())
}
