//! A loop of one's own with work that is shown: two models argue, and a third one decides.
//!
//! `cargo run --example debate`
//!
//! The speeches are detached requests: the conversation gets only the verdict. They are shown, so
//! they stream to the user under the names of the speakers, and stand in the history and exports.

use std::error::Error;

use loopwright::log::InMemoryStore;
use loopwright::memory::to_markdown;
use loopwright::message::UserMessage;
use loopwright::model::Update;
use loopwright::testing::{Script, ScriptedModel};
use loopwright::{
    AgentEvent, Ask, BehaviorPattern, GenericAgent, SessionStore, StepContext, StepEnd, StepError,
    async_trait,
};

struct Debate {
    rounds: usize,
}

#[async_trait]
impl BehaviorPattern for Debate {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        while !step.all_answered().await? {
            let mut debate = String::new();
            for round in 0..self.rounds {
                for side in ["pro", "contra"] {
                    let text = UserMessage::from(format!("You argue {side}. So far:\n{debate}"));
                    let ask = Ask::detached().model(side).also(text).shown(side);
                    let said = step.ask_with(ask.key(format!("{side}-{round}"))).await?.or_end()?;
                    debate += &format!("{side}: {}\n", said.text());
                }
            }
            let text = UserMessage::from(format!("The debate:\n{debate}Who wins, and why?"));
            step.ask_with(Ask::new().also(text)).await?.or_end()?;
        }
        Ok(StepEnd::Done)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let [pro, contra, judge] = [
        &["They are loud.", "A train is, for a minute."][..],
        &["So are trains.", "A car is, for a second."],
        &["Pro: the minute has passed."],
    ]
    .map(|texts| ScriptedModel::new(texts.iter().map(|text| Script::text(text))));
    let agent = GenericAgent::builder(judge, Debate { rounds: 2 })
        .model_named("pro", pro)
        .model_named("contra", contra)
        .build()?;
    let store = InMemoryStore::new();
    let handle = agent.open(&store, "cars").await?;

    let mut run = handle.prompt_stream("Ban cars?").await?;
    while let Some(event) = run.next().await {
        match &event.event {
            AgentEvent::DetachedUpdate { speaker, update: Update::Text { delta, .. }, .. } => {
                println!("<{speaker}> {delta}");
            }
            AgentEvent::MessageUpdate { update: Update::Text { delta, .. }, .. } => {
                println!("{delta}");
            }
            _ => {}
        }
    }
    println!("{}", to_markdown(&store.session("cars").await?, &store.read("cars", 0).await?));
    Ok(())
}
