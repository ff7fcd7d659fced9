//! An agent that waits: it answers now, and reports when its timer rings, in another process.
//!
//! `cargo run --example sleep`
//!
//! The timer is in the session's log. Between the two halves of `main` the process could end, and
//! the report could be due tomorrow at nine.

use std::error::Error;
use std::time::Duration;

use loopwright::log::InMemoryStore;
use loopwright::message::UserMessage;
use loopwright::patterns::PiPattern;
use loopwright::testing::{Script, ScriptedModel};
use loopwright::{BehaviorPattern, GenericAgent, StepContext, StepEnd, StepError, async_trait};

/// Answers, and reports after a while.
struct Later(Duration);

#[async_trait]
impl BehaviorPattern for Later {
    fn inner(&self) -> Option<&dyn BehaviorPattern> {
        Some(&PiPattern)
    }

    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        let end = PiPattern.next_step(step).await?;
        if end != StepEnd::Done || step.state("reported") == Some(true) {
            return Ok(end);
        }
        step.sleep_for("report", self.0).await?; // what follows happens at that time
        step.set_state("reported", true)?;
        step.remember(UserMessage::from("Write the report now.")).await?;
        PiPattern.next_step(step).await
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let replies = ["I will report.", "Yes, I am only waiting.", "The report: all is well."];
    let model = ScriptedModel::new(replies.map(Script::text));
    let agent = GenericAgent::builder(model, Later(Duration::from_millis(300))).build()?;
    let store = InMemoryStore::new(); // a program has a store on disk

    let session = agent.open(&store, "report").await?;
    println!("{:?}", session.prompt("Report in a while.").await?.end);
    println!("{}", session.prompt("Are you there?").await?.text);
    session.close().await;

    // A program that only wakes sleeping agents calls `keep_running_due`.
    while agent.run_due(&store).await?.is_some() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    let session = agent.open(&store, "report").await?;
    for message in session.state().await?.messages.iter() {
        println!("{}", message.text());
    }
    Ok(())
}
