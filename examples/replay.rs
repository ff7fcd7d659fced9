//! A replay: the log of a real session becomes a test of a changed agent.
//!
//! `cargo run --example replay`
//!
//! The log has what the user, the model, the tools and the person who approves did. A replay
//! repeats it all, so no model is asked, no tool runs, and the test sends no inputs. It reports the
//! first point at which the changed agent does something else.

use std::error::Error;

use async_trait::async_trait;
use loopwright::log::InMemoryStore;
use loopwright::memory::to_jsonl;
use loopwright::message::UserMessage;
use loopwright::patterns::PiPattern;
use loopwright::testing::{Replay, Script, ScriptedModel};
use loopwright::{
    Ask, BehaviorPattern, GenericAgent, SessionStore, StepContext, StepEnd, StepError, tool,
};
use serde_json::json;

/// Answers, and with `checks` asks once more whether the answer is right.
struct Support {
    checks: bool,
}

#[async_trait]
impl BehaviorPattern for Support {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        let end = PiPattern.next_step(step).await?;
        if self.checks && end == StepEnd::Done {
            let question = UserMessage::from("Is this answer right?");
            step.ask_with(Ask::detached().also(question)).await?.or_end()?;
        }
        Ok(end)
    }
}

/// Pays money back.
#[tool]
fn refund(euros: u32) -> String {
    println!("the tool pays {euros} € back");
    format!("{euros} € are on their way.")
}

/// Returns the log of the session to replay, as `loopwright sessions export` writes it.
async fn real_session() -> Result<String, Box<dyn Error>> {
    let model = ScriptedModel::new([
        Script::calls([("call-1", "refund", json!({"euros": 20}))]),
        Script::text("You get 20 € back."),
    ]);
    let agent = GenericAgent::builder(model, Support { checks: false }).tool(refund()).build()?;
    let store = InMemoryStore::new();
    let handle = agent.open(&store, "lamp").await?;
    handle.prompt("The lamp is broken.").await?;
    for action in handle.pending().await? {
        handle.approve(&action).await?;
    }
    handle.wait_for_idle().await;
    Ok(to_jsonl("lamp", &store.read("lamp", 0).await?)?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let replay = Replay::from_jsonl(&real_session().await?)?;
    let agent = |checks, system| {
        let agent = GenericAgent::builder(replay.model(), Support { checks });
        agent.tools(replay.tools()).system(system).build()
    };
    let (today, with_check) = (agent(false, "Be kind.")?, agent(true, "Be kind.")?);
    println!("today's agent: {:?}", replay.run(&today).await);
    if let Err(difference) = replay.run(&with_check).await {
        println!("with a check: {difference}");
    }

    // A log has no system prompts, so two agents are compared with each other.
    let brief = agent(false, "Be kind and brief.")?;
    if let Err(difference) = replay.compare(&today, &brief).await {
        println!("with another prompt: {difference}");
    }
    Ok(())
}
