//! `FirstCall`: the model must look something up before it answers.
//!
//! A support agent tends to answer from memory. Its first turn is forced to call `search_manual`.
//! From the second turn on, the model is free to answer.

use std::error::Error;

use loopwright::model::ToolChoice;
use loopwright::patterns::{FirstCall, PiPattern};
use loopwright::testing::{Script, ScriptedModel};
use loopwright::tool::Effect;
use loopwright::{GenericAgent, ToolError, tool_fn};
use serde_json::json;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Search {
    words: String,
}

pub(crate) async fn run() -> Result<(), Box<dyn Error>> {
    let search = tool_fn("search_manual", "Searches the manual.", async |search: Search, _cx| {
        Ok::<_, ToolError>(format!("{}: hold the button for ten seconds.", search.words))
    })
    .effect(Effect::ReadOnly);
    let model = ScriptedModel::new([
        Script::calls([("a", "search_manual", json!({"words": "reset"}))]),
        Script::text("Hold the button for ten seconds."),
    ]);
    let search_first = ToolChoice::Tool("search_manual".into());
    let agent =
        GenericAgent::builder(model.clone(), FirstCall::new(search_first.clone(), PiPattern))
            .tool(search)
            .build()?;
    let handle = agent.session().await?;
    let outcome = handle.prompt("How do I reset the router?").await?;

    let choices: Vec<_> = model.requests().into_iter().map(|request| request.tool_choice).collect();
    println!("tool choices: {choices:?}");
    println!("{}", outcome.text);
    assert_eq!(choices, [search_first, ToolChoice::Auto]);
    assert_eq!(outcome.text, "Hold the button for ten seconds.");
    Ok(())
}
