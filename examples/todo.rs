//! A todo list that the model keeps, and that an app shows while the agent works.
//!
//! `cargo run --example todo`

use std::error::Error;

use loopwright::patterns::PiPattern;
use loopwright::testing::{Script, ScriptedModel};
use loopwright::tool::{Todo, TodoList};
use loopwright::{AgentEvent, GenericAgent};
use serde_json::json;

/// Returns a reply that writes the list, with the status of each item.
fn write(id: &str, statuses: [&str; 2]) -> Script {
    let [read, fix] = statuses;
    let todos = json!({ "todos": [
        { "content": "Read the log", "status": read },
        { "content": "Fix the leak", "status": fix },
    ]});
    Script::calls([(id, "write_todos", todos)])
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let model = ScriptedModel::new([
        write("1", ["in_progress", "pending"]),
        write("2", ["completed", "in_progress"]),
        Script::text("The log names a file that is never closed. Shall I close it?"),
    ]);
    let agent = GenericAgent::builder(model, PiPattern).tool(Todo::new()).build()?;
    let handle = agent.session().await?;

    let mut run = handle.prompt_stream("Find the leak, and fix it.").await?;
    while let Some(event) = run.next().await {
        if let AgentEvent::ToolExecutionEnd { result, .. } = &event.event
            && let Some(list) = TodoList::written(result)
        {
            println!("{} of {} done\n{list}", list.completed(), list.items.len());
        }
    }
    // The list is a part of the conversation, so it is there when the session is opened again.
    let list = TodoList::of(&handle.state().await?.messages);
    println!("to do: {}", list.is_open());
    Ok(())
}
