//! `GenericPattern`: all messages of the user during a run are delivered before the next request.
//!
//! The user sends a steer and a follow-up while a tool runs, and one reply answers both. With
//! `PiPattern`, which `pi.rs` shows with the same conversation, the follow-up waits for the answer.

use std::error::Error;

use loopwright::event::Role::{Assistant, ToolResult, User};
use loopwright::patterns::GenericPattern;
use loopwright::testing::{Gate, Script, ScriptedModel, TestTool};
use loopwright::{AgentEvent, GenericAgent};

pub(crate) async fn run() -> Result<(), Box<dyn Error>> {
    let model = ScriptedModel::new([
        Script::new().say("I look it up.").call("a", "timetable", "{}"),
        Script::text("On Sunday at 22:10. A ticket costs 40 €."),
    ]);
    let gate = Gate::new(); // the tool returns once it is open
    let timetable = TestTool::new("timetable").waits(&gate);
    let agent = GenericAgent::builder(model.clone(), GenericPattern).tool(timetable).build()?;
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

    assert_eq!(roles, [User, Assistant, ToolResult, User, User, Assistant]);
    assert_eq!(model.requests().len(), 2);
    Ok(())
}
