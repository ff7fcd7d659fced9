//! The memory of the process: messages from clients and streams of tools do not fill it.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a failed check is a failed test")]

use std::sync::Arc;

use async_trait::async_trait;
use loopwright_core::event::AgentEvent;
use loopwright_core::testing::{Gate, Script, ScriptedModel, TestTool};
use loopwright_core::tool::{Tool, ToolContext, ToolOutput, ToolSpec};
use loopwright_core::{AgentHandle, EventStream, GenericAgent, RunContext, ToolError};
use loopwright_patterns::PiPattern;
use serde_json::{Value, json};

/// The maximum growth of the process, in KiB.
const MAX_GROWTH_KIB: u64 = 64 * 1024;

/// Returns the resident memory of this process in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Checks the growth of the process since it had `before` KiB.
fn check_growth(before: u64, what: &str) {
    let growth = resident().saturating_sub(before);
    assert!(growth < MAX_GROWTH_KIB, "{what}: {growth} KiB more");
    println!("{what}: {growth} KiB more");
}

/// Starts a run that calls this tool, and waits until the call has started. The second stream is
/// never read.
async fn started(tool: impl Tool + 'static) -> (AgentHandle, EventStream) {
    let call = Script::calls([("a", "work", json!({}))]);
    let model = ScriptedModel::new([call, Script::text("ok")]).default_reply(Script::text("ok"));
    let agent = GenericAgent::builder(model, PiPattern).tool(tool).approve_all().build().unwrap();
    let (handle, unread) = agent.run(RunContext::new()).await.unwrap();
    let mut events = handle.prompt_stream("go").await.unwrap();
    while !matches!(events.next().await.unwrap().event, AgentEvent::ToolExecutionStart { .. }) {}
    (handle, unread)
}

/// A tool that streams 200 MB of output.
struct Flood(Arc<ToolSpec>);

#[async_trait]
impl Tool for Flood {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.0
    }

    async fn call(&self, _: &Value, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let chunk = "x".repeat(200_000);
        for _ in 0..1_000 {
            cx.update(chunk.as_str()).await;
        }
        Ok(ToolOutput::text("done"))
    }
}

/// C52, C60: In each case the process grows by less than 64 MiB. The cases run one at a time,
/// because they measure the whole process.
#[tokio::test]
async fn the_process_does_not_grow_with_what_is_sent_to_it() {
    let (before, gate) = (resident(), Gate::new());
    let (handle, unread) = started(TestTool::new("work").waits(&gate)).await;
    let long = "x".repeat(60_000);
    let mut accepted = 0;
    for _ in 0..400 {
        accepted += usize::from(handle.follow_up(long.as_str()).await.is_ok());
    }
    assert!((1..400).contains(&accepted));
    handle.state().await.unwrap();
    check_growth(before, "400 follow-ups of 60 KB");
    gate.open();
    handle.abort().await.unwrap();
    handle.wait_for_idle().await;
    drop(unread);

    let (before, gate) = (resident(), Gate::new());
    let (handle, unread) = started(TestTool::new("work").waits(&gate)).await;
    for n in 0..8_000 {
        let sent = handle.steer(format!("steer {n} of eight thousand, unread")).await;
        assert_eq!(sent.is_ok(), n < 1_000);
    }
    check_growth(before, "8,000 steers with an unread stream");
    gate.open();
    handle.abort().await.unwrap();
    handle.wait_for_idle().await;
    drop(unread);

    let before = resident();
    let spec = ToolSpec::with_schema("work", "Streams.", json!({ "type": "object" }));
    let (handle, unread) = started(Flood(spec.into())).await;
    handle.wait_for_idle().await;
    check_growth(before, "a tool that streams 200 MB");
    drop(unread);
}
