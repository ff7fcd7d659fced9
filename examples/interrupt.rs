//! Aborting a run: the tool in progress is cancelled, and the session can be used at once.
//!
//! `cargo run --example interrupt`
//!
//! A program would call `abort` on Ctrl-C or when the user presses a button.

use std::error::Error;

use loopwright::patterns::PiPattern;
use loopwright::testing::{Script, ScriptedModel};
use loopwright::{AgentEvent, GenericAgent, ToolContext, ToolError, tool};
use serde_json::json;

/// Builds the project.
#[tool(approval = never)]
async fn build(cx: &ToolContext) -> Result<(), ToolError> {
    cx.cancelled().await; // the work would stop here
    Err(ToolError::Cancelled)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let model = ScriptedModel::new([
        Script::calls([("b", "build", json!({}))]),
        Script::text("I have stopped the build."),
    ]);
    let agent = GenericAgent::builder(model, PiPattern).tool(build()).build()?;
    let handle = agent.session().await?;

    let mut run = handle.prompt_stream("Build it.").await?;
    while let Some(event) = run.next().await {
        match &event.event {
            AgentEvent::ToolExecutionStart { name, .. } => {
                println!("{name} starts, the user aborts");
                handle.abort().await?;
            }
            AgentEvent::ToolExecutionEnd { name, status, .. } => println!("{name}: {status:?}"),
            AgentEvent::AgentEnd(outcome) => println!("the run: {:?}", outcome.end),
            _ => {}
        }
    }
    println!("{}", handle.prompt("What happened?").await?.text);
    Ok(())
}
