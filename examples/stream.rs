//! Streaming: the text of a reply, and the start and end of tool calls, printed as they come.
//!
//! `cargo run --example stream`

use std::error::Error;
use std::io::{Write, stdout};

use loopwright::event::Update;
use loopwright::patterns::PiPattern;
use loopwright::providers::Offline;
use loopwright::tool::Effect;
use loopwright::{AgentEvent, GenericAgent, RunContext, ToolError, tool_fn};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Weather {
    city: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let weather = tool_fn("weather", "Returns the weather.", async |args: Weather, _cx| {
        Ok::<_, ToolError>(format!("Sunny in {}.", args.city))
    });
    let agent = GenericAgent::builder(Offline::new(), PiPattern)
        .tool(weather.effect(Effect::ReadOnly))
        .build()?;
    let (handle, _events) = agent.run(RunContext::new()).await?;

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
