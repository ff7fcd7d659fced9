//! `ReAct`: tools for a model that has no tool calling.
//!
//! The model writes its actions as text and gets the results as observations. The requests offer no
//! tools, yet the actions are real calls: validated, logged, and approved if necessary.

use std::error::Error;

use loopwright::patterns::ReAct;
use loopwright::testing::{Script, ScriptedModel};
use loopwright::tool::Effect;
use loopwright::{GenericAgent, ToolError, tool_fn};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Weather {
    city: String,
}

pub(crate) async fn run() -> Result<(), Box<dyn Error>> {
    let weather = tool_fn("weather", "Returns the weather.", async |weather: Weather, _cx| {
        Ok::<_, ToolError>(if weather.city == "Bergen" { "heavy rain" } else { "dry" })
    })
    .effect(Effect::ReadOnly);
    let replies = [
        "I need the weather.\nAction: weather\nAction Input: {\"city\": \"Bergen\"}",
        "It rains heavily.\nFinal Answer: Yes, take one.",
    ];
    let model = ScriptedModel::new(replies.map(Script::text));
    let agent = GenericAgent::builder(model.clone(), ReAct).tool(weather).build()?;
    let handle = agent.session().await?;
    let outcome = handle.prompt("Do I need an umbrella in Bergen?").await?;

    let requests = model.requests();
    for message in requests[1].messages.iter() {
        println!("{:?}: {}", message.role(), message.text());
    }
    println!("Assistant: {}", outcome.text);
    assert_eq!(requests[1].messages[2].text(), "Observation: heavy rain");
    assert!(requests.iter().all(|request| request.tools.iter().next().is_none()));
    assert!(outcome.text.ends_with("Final Answer: Yes, take one."));
    Ok(())
}
