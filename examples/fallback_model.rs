//! Models that fail: `Retry` sends a request again, `Fallback` asks the next model.
//!
//! `cargo run --example fallback_model`

use std::error::Error;
use std::time::Duration;

use loopwright::model::{ModelErrorKind, ModelInfo};
use loopwright::patterns::PiPattern;
use loopwright::providers::{Fallback, Retry};
use loopwright::testing::{Script, ScriptedModel};
use loopwright::{AgentEvent, GenericAgent};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let busy = || Script::error(ModelErrorKind::Overloaded, "too many users");
    let primary = ScriptedModel::new([busy(), busy(), Script::text("From the first model.")])
        .info(ModelInfo::new("first/large"));
    let backup = ScriptedModel::new([Script::text("From the second model.")])
        .info(ModelInfo::new("second/small"));

    let retried = Retry::new(primary.clone()).attempts(2).base_delay(Duration::from_millis(1));
    let model = Fallback::new(retried).or(backup);
    let agent = GenericAgent::builder(model, PiPattern).build()?;
    let handle = agent.session().await?;
    let mut events = handle.subscribe();
    for _ in 0..2 {
        println!("{}", handle.prompt("Hello").await?.text);
    }
    while let Some(event) = events.try_next() {
        match &event.event {
            AgentEvent::Retry(notice) => {
                println!("attempt {} of {}: {}", notice.attempt, notice.max_attempts, notice.reason)
            }
            AgentEvent::MessageEnd { message } => {
                if let Some(reply) = message.as_assistant() {
                    println!("{} replied", reply.model);
                }
            }
            _ => {}
        }
    }
    println!("the first model got {} requests", primary.requests().len());
    Ok(())
}
