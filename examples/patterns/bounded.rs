//! `Bounded` inside `Graph`: research gets a budget, and the report is written whatever it finds.
//!
//! The researcher would look at every shop. After two of its three requests it has to say what it
//! has found, and the writer goes on with that.

use std::error::Error;

use loopwright::limits::Budget;
use loopwright::message::UserMessage;
use loopwright::patterns::{Bounded, Graph, Next, PiPattern};
use loopwright::testing::{Script, ScriptedModel};
use loopwright::tool::Effect;
use loopwright::{Ask, GenericAgent, ToolError, tool_fn};
use serde_json::json;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Shop {
    name: String,
}

pub(crate) async fn run() -> Result<(), Box<dyn Error>> {
    let price = tool_fn("price", "Returns a shop's price.", async |shop: Shop, _cx| {
        Ok::<_, ToolError>(format!("{}: 30 €", shop.name))
    })
    .effect(Effect::ReadOnly);
    let look = |name| Script::calls([(name, "price", json!({ "name": name }))]);
    let found = "A and B ask 30 €. I have not looked at C.";
    let model = ScriptedModel::new([
        look("A"),
        look("B"),
        Script::text(found),
        Script::text("The lamp costs about 30 €; not all shops were checked."),
    ]);

    let research = Bounded::new("research", Budget::default().turns(3), PiPattern);
    let pattern = Graph::<()>::new("research")
        .pattern("research", research)
        .edge("research", |_, _| Next::To("report"))
        .node("report", |step, _| {
            Box::pin(async move {
                let ask = Ask::new().also(UserMessage::from("Write the report."));
                step.ask_with(ask).await?.or_end()?;
                Ok(None)
            })
        });
    let agent = GenericAgent::builder(model.clone(), pattern).tool(price).build()?;
    let outcome = agent.session().await?.prompt("What does the lamp cost?").await?;

    println!("{} requests: {}", outcome.requests, outcome.text);
    assert_eq!(outcome.requests, 4);
    assert!(outcome.text.ends_with("not all shops were checked."));
    Ok(())
}
