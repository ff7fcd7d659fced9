//! Follow-ups: messages that wait until the agent would otherwise stop, one after the other.
//!
//! `cargo run --example follow_ups`
//!
//! `steering` shows the other kind of message, which changes the work in progress.

use std::error::Error;

use loopwright::event::InputEvent;
use loopwright::patterns::PiPattern;
use loopwright::testing::{Gate, Script, ScriptedModel};
use loopwright::{AgentEvent, GenericAgent};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let gate = Gate::new(); // the first reply ends when it is open
    let model = ScriptedModel::new([
        Script::text("The tests pass.").gate(&gate),
        Script::text("It is released."),
        Script::text("Everybody knows."),
    ]);
    let agent = GenericAgent::builder(model, PiPattern).build()?;
    let handle = agent.session().await?;
    let mut events = handle.subscribe();

    handle.send(InputEvent::UserRequest("Run the tests.".into())).await?;
    handle.follow_up("Then release it.").await?;
    handle.follow_up("Then tell everybody.").await?;
    println!("{} follow-ups wait", handle.state().await?.follow_up_queue.len());
    gate.open();

    while let Some(event) = events.next().await {
        match &event.event {
            AgentEvent::MessageEnd { message } => {
                println!("{:?}: {}", message.role(), message.text())
            }
            AgentEvent::AgentEnd(outcome) => {
                println!("{:?}, one run", outcome.end);
                break;
            }
            _ => {}
        }
    }
    Ok(())
}
