//! `Orchestrate`: a request is divided among three sub-agents, which work at the same time.
//!
//! The sub-agent for hotels needs an approval to book. The user decides in the root session, where
//! the pending action names the sub-agent that asks. The others do not wait for it.

use std::error::Error;

use loopwright::event::RunStatus;
use loopwright::patterns::{GenericPattern, Orchestrate, PiPattern};
use loopwright::testing::{Script, ScriptedModel};
use loopwright::{GenericAgent, ToolError, tool_fn};
use serde_json::json;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Book {
    room: String,
}

pub(crate) async fn run() -> Result<(), Box<dyn Error>> {
    let sub_agent =
        |replies: Vec<Script>| GenericAgent::builder(ScriptedModel::new(replies), GenericPattern);
    let weather = sub_agent(vec![Script::text("Sunny, 24 °C.")]).build()?;
    let trains = sub_agent(vec![Script::text("A train leaves at 9:00.")]).build()?;
    // The tool is not declared read-only, so each call needs an approval.
    let book = tool_fn("book", "Books a room.", async |book: Book, _cx| {
        Ok::<_, ToolError>(format!("{} is booked", book.room))
    });
    let hotels = sub_agent(vec![
        Script::calls([("b", "book", json!({"room": "Room 7"}))]),
        Script::text("Room 7 is yours."),
    ]);
    let hotels = hotels.tool(book).build()?;

    let task = |agent, task| json!({"agent": agent, "task": task});
    let tasks = [
        task("weather", "Rome, on Friday."),
        task("trains", "To Rome, on Friday."),
        task("hotels", "One night in Rome."),
    ];
    let model = ScriptedModel::new([
        Script::text(&json!({"tasks": tasks}).to_string()),
        Script::text("Friday: the train at 9:00, sun, and room 7."),
    ]);
    let pattern = Orchestrate::new(["weather", "trains", "hotels"], PiPattern);
    let agent = GenericAgent::builder(model, pattern)
        .child("weather", "Knows the weather.", weather)
        .child("trains", "Finds trains.", trains)
        .child("hotels", "Books hotels.", hotels)
        .build()?;
    let handle = agent.session().await?;
    let outcome = handle.prompt("A night in Rome, on Friday.").await?;
    assert_eq!(outcome.end, RunStatus::AwaitingAction);

    let action = handle.pending().await?.remove(0);
    println!("{} needs an approval: {} {}", action.path.join("/"), action.name, action.arguments);
    assert_eq!(action.path.join("/"), "hotels");
    handle.approve(&action).await?;
    handle.wait_for_idle().await;

    let messages = handle.state().await?.messages;
    for message in messages.iter().filter(|message| !message.text().is_empty()) {
        println!("{:?}: {}", message.role(), message.text());
    }
    let results: Vec<String> =
        messages.iter().filter_map(|message| Some(message.as_tool_result()?.text())).collect();
    assert_eq!(results, ["Sunny, 24 °C.", "A train leaves at 9:00.", "Room 7 is yours."]);
    Ok(())
}
