//! The smallest agent: a model, a pattern, a prompt. The reply is printed while it streams.
//!
//! `cargo run --example hello` needs no API key, since `Offline` is a rule-based stand-in. For a
//! real model, replace it by `loopwright::model("openai/gpt-4o-mini")?`.

use std::error::Error;
use std::io::Write;

use loopwright::model::Update;
use loopwright::patterns::GenericPattern;
use loopwright::providers::Offline;
use loopwright::{AgentEvent, GenericAgent};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let agent =
        GenericAgent::builder(Offline::new(), GenericPattern).system("You are brief.").build()?;
    let handle = agent.session().await?;

    let mut run = handle.prompt_stream("Hello! What are you?").await?;
    while let Some(event) = run.next().await {
        match &event.event {
            AgentEvent::MessageUpdate { update: Update::Text { delta, .. }, .. } => {
                print!("{delta}");
                std::io::stdout().flush()?;
            }
            AgentEvent::AgentEnd(outcome) => {
                println!("\n({:?}, {} tokens)", outcome.end, outcome.usage.total())
            }
            _ => {}
        }
    }
    Ok(())
}
