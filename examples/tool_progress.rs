//! Progress of a tool, and an idle timeout: a tool that reports nothing for too long is cancelled.
//!
//! `cargo run --example tool_progress`

use std::error::Error;
use std::time::Duration;

use loopwright::patterns::PiPattern;
use loopwright::testing::{Script, ScriptedModel};
use loopwright::tool::ToolUpdate;
use loopwright::{AgentEvent, GenericAgent, RunContext, ToolContext, ToolError, tool_fn};
use serde_json::json;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Copy {
    files: u64,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let copy = tool_fn("copy", "Copies files.", async |args: Copy, cx: ToolContext| {
        for done in 1..=args.files.min(3) {
            cx.progress(done, Some(args.files), format!("file {done}")).await;
        }
        if args.files > 3 {
            std::future::pending::<()>().await; // the disk hangs
        }
        Ok::<_, ToolError>(format!("{} files are copied", args.files))
    })
    .spec(|spec| spec.idle_timeout(Duration::from_millis(100)));
    let call = |id, files| (id, "copy", json!({"files": files}));
    let model = ScriptedModel::new([
        Script::calls([call("a", 3)]),
        Script::calls([call("b", 9)]),
        Script::text("The second copy hangs."),
    ]);
    let agent = GenericAgent::builder(model, PiPattern).tool(copy).auto_all().build()?;
    let (handle, _events) = agent.run(RunContext::new()).await?;

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
