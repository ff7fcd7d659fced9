//! `PiPattern`: a steer changes the work in progress, a follow-up waits until it is done.
//!
//! The user sends both while a tool runs. The steer is part of the next request. The follow-up is
//! delivered when the agent would otherwise stop, and gets its own reply. `generic.rs` has the same
//! conversation with `GenericPattern`.

use std::error::Error;

use loopwright::event::Role::{Assistant, ToolResult, User};
use loopwright::patterns::PiPattern;
use loopwright::testing::{Gate, Script, ScriptedModel, TestTool};
use loopwright::{AgentEvent, GenericAgent};

pub(crate) async fn run() -> Result<(), Box<dyn Error>> {
    let model = ScriptedModel::new([
        Script::new().say("I look it up.").call("a", "timetable", "{}"),
        Script::text("On Sunday at 22:10."),
        Script::text("A ticket costs 40 €."),
    ]);
    let gate = Gate::new(); // the tool returns once it is open
    let timetable = TestTool::new("timetable").waits(&gate);
    let agent = GenericAgent::builder(model.clone(), PiPattern).tool(timetable).build()?;
    let handle = agent.session().await?;

    let mut roles = Vec::new();
    let mut run = handle.prompt_stream("When does the last train leave?").await?;
    while let Some(event) = run.next().await {
        match &event.event {
            AgentEvent::ToolExecutionStart { .. } => {
                handle.steer("On Sunday, please.").await?;
                handle.follow_up("And what does a ticket cost?").await?;
                gate.open();
            }
            AgentEvent::MessageEnd { message } => {
                println!("{:?}: {}", message.role(), message.text());
                roles.push(message.role());
            }
            _ => {}
        }
    }

    assert_eq!(roles, [User, Assistant, ToolResult, User, Assistant, User, Assistant]);
    assert_eq!(model.requests().len(), 3);
    Ok(())
}
