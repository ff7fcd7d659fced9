//! A custom pattern: write a draft, let a second model criticise it, revise it.
//!
//! The critic is called with a *detached* request: its reply is counted and logged, but stays out
//! of the conversation. The round is part of the request's state: it is logged together with the
//! message that starts it, so the pattern continues correctly after a crash, and the next request
//! begins without it.

use std::error::Error;

use async_trait::async_trait;
use loopwright::message::UserMessage;
use loopwright::testing::{Script, ScriptedModel};
use loopwright::{
    AgentEvent, Ask, BehaviorPattern, GenericAgent, RunContext, StepContext, StepEnd, StepError,
};

struct Revise {
    rounds: u32,
}

#[async_trait]
impl BehaviorPattern for Revise {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        loop {
            let draft = step.ask().await?;
            let round: u32 = step.state("round").unwrap_or(0);
            if draft.should_stop() || round == self.rounds {
                return draft.finish();
            }
            let question = UserMessage::from("Criticise the last answer in one sentence.");
            let critique = step.ask_with(Ask::detached().model("critic").also(question)).await?;
            if critique.should_stop() {
                return critique.finish();
            }
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
    let agent = GenericAgent::builder(ScriptedModel::new(writer), Revise { rounds: 2 })
        .model_named("critic", ScriptedModel::new(critic))
        .build()?;
    let (handle, mut events) = agent.run(RunContext::new()).await?;
    handle.prompt("A line about the sea, please.").await?;
    while let Some(event) = events.try_next() {
        if let AgentEvent::MessageEnd { message } = &event.event {
            println!("{:?}: {}", message.role(), message.text());
        }
    }
    Ok(())
}
