//! A custom pattern: write a draft, let a second model criticise it, revise it.
//!
//! `cargo run --example custom_pattern`
//!
//! It wraps the pattern that writes, which takes the user's messages and runs the tools. The critic
//! is called with a *detached* request: its reply is counted and logged, but stays out of the
//! conversation. The round is part of the request's state. It is logged together with the message
//! that starts it, so the pattern continues correctly after a crash. The next request begins
//! without it. `tests/spec/examples.rs` checks the pattern with the conformance suite.

use std::error::Error;

use async_trait::async_trait;
use loopwright::message::UserMessage;
use loopwright::patterns::PiPattern;
use loopwright::testing::{Script, ScriptedModel};
use loopwright::{AgentEvent, Ask, BehaviorPattern, GenericAgent, StepContext, StepEnd, StepError};

pub(crate) struct Revise<P> {
    pub(crate) rounds: u32,
    pub(crate) writer: P,
}

#[async_trait]
impl<P: BehaviorPattern> BehaviorPattern for Revise<P> {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        loop {
            let end = self.writer.next_step(step).await?;
            let round: u32 = step.state("round").unwrap_or(0);
            if end != StepEnd::Done || !step.is_answered() || round == self.rounds {
                return Ok(end);
            }
            let question = UserMessage::from("Criticise the last answer in one sentence.");
            let ask = Ask::detached().model("critic").also(question);
            let critique = step.ask_with(ask).await?.or_end()?; // ends the step, if it has to end
            let request = format!("Revise it. A critic says: {}", critique.text());
            step.set_state("round", round + 1)?;
            step.remember(UserMessage::from(request)).await?;
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let writer =
        ["The sea is big.", "The sea is big and grey.", "Grey, the sea goes on."].map(Script::text);
    let critic = ["Which colour?", "Shorter, and begin with the colour."].map(Script::text);
    let agent =
        GenericAgent::builder(ScriptedModel::new(writer), Revise { rounds: 2, writer: PiPattern })
            .model_named("critic", ScriptedModel::new(critic))
            .build()?;
    let handle = agent.session().await?;
    let mut events = handle.subscribe();
    handle.prompt("A line about the sea, please.").await?;
    while let Some(event) = events.try_next() {
        if let AgentEvent::MessageEnd { message } = &event.event {
            println!("{:?}: {}", message.role(), message.text());
        }
    }
    Ok(())
}
