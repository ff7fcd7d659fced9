//! Progress of a tool, and an idle timeout: a tool that reports nothing for too long is cancelled.
//!
//! `cargo run --example tool_progress`

use std::error::Error;

use loopwright::patterns::PiPattern;
use loopwright::testing::{Script, ScriptedModel};
use loopwright::tool::ToolUpdate;
use loopwright::{AgentEvent, GenericAgent, ToolContext, tool};
use serde_json::json;

/// Copies files.
#[tool(approval = never, idle_timeout = "100ms")]
async fn copy(files: u64, cx: &ToolContext) -> String {
    for done in 1..=files.min(3) {
        cx.progress(done, Some(files), format!("file {done}")).await;
    }
    if files > 3 {
        std::future::pending::<()>().await; // the disk hangs
    }
    format!("{files} files are copied")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let call = |id, files| (id, "copy", json!({"files": files}));
    let model = ScriptedModel::new([
        Script::calls([call("a", 3)]),
        Script::calls([call("b", 9)]),
        Script::text("The second copy hangs."),
    ]);
    let agent = GenericAgent::builder(model, PiPattern).tool(copy()).build()?;
    let handle = agent.session().await?;

    let mut run = handle.prompt_stream("Copy them.").await?;
    while let Some(event) = run.next().await {
        match &event.event {
            AgentEvent::ToolExecutionUpdate { call, update: ToolUpdate::Progress(progress) } => {
                let total = progress.total.unwrap_or_default();
                println!("{call}: {} of {total}, {}", progress.done, progress.message);
            }
            AgentEvent::ToolExecutionEnd { call, status, result, .. } => {
                println!("{call}: {status:?}, {}", result.text())
            }
            _ => {}
        }
    }
    Ok(())
}
