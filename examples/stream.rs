//! Streaming: the text of a reply, and the start and end of tool calls, printed as they come.
//!
//! `cargo run --example stream`

use std::error::Error;
use std::io::{Write, stdout};

use loopwright::model::Update;
use loopwright::patterns::PiPattern;
use loopwright::providers::Offline;
use loopwright::{AgentEvent, GenericAgent, tool};

/// Returns the weather.
#[tool(read_only)]
fn weather(city: &str) -> String {
    format!("Sunny in {city}.")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let agent = GenericAgent::builder(Offline::new(), PiPattern).tool(weather()).build()?;
    let handle = agent.session().await?;

    let mut run = handle.prompt_stream("use weather with city=Rome").await?;
    while let Some(event) = run.next().await {
        match &event.event {
            AgentEvent::MessageUpdate { update: Update::Text { delta, .. }, .. } => {
                print!("{delta}|");
                stdout().flush()?;
            }
            AgentEvent::ToolExecutionStart { name, arguments, .. } => {
                println!("[{name} {arguments} …]")
            }
            AgentEvent::ToolExecutionEnd { name, status, result, .. } => {
                println!("[{name} {status:?}: {}]", result.text())
            }
            AgentEvent::AgentEnd(outcome) => println!("\n({:?})", outcome.end),
            _ => {}
        }
    }
    Ok(())
}
