//! The rows `limit`, `sleep` and `map` with loopwright. The lines between marks are counted.

use std::error::Error;

use compare_common::{self as common, Setup};
use loopwright::limits::{Budget, Limits, WrapUp};
use loopwright::memory::Sqlite;
use loopwright::message::UserMessage;
use loopwright::model::Prices;
use loopwright::patterns::{Branches, Graph, Next, PiPattern};
use loopwright::providers::OpenAiChat;
use loopwright::tool::Effect;
use loopwright::{
    Ask, BehaviorPattern, GenericAgent, StepContext, StepEnd, StepError, ToolError, async_trait,
    tool_fn,
};
use serde_json::Value;

type Fallible<T> = Result<T, Box<dyn Error>>;

/// The prices are for the row `map`: US dollars for a million tokens.
fn model(setup: &Setup) -> Fallible<OpenAiChat> {
    let model = OpenAiChat::builder("mock").base_url(&setup.url);
    Ok(model.prices(Prices::new(2.5, 10.0)).build()?)
}

pub(crate) async fn run(setup: &Setup) -> Fallible<Value> {
    Ok(match setup.row.as_str() {
        "limit" => common::end_of(limit(setup)).await,
        "map" => common::end_of(map(setup)).await,
        row => common::end_of(sleep(setup, row == "sleep")).await,
    })
}

async fn limit(setup: &Setup) -> Fallible<String> {
    let model = model(setup)?;
    let look = tool_fn("look", "Looks.", async |_: super::Nothing, _cx| {
        Ok::<_, ToolError>("There is more to look at.")
    });
    let look = look.effect(Effect::ReadOnly);
    // [limit]
    let limits = Limits::from(Budget::default().turns(5)).wrap_up(WrapUp::new());
    let agent = GenericAgent::builder(model, PiPattern).tool(look).limits(limits).build()?;
    Ok(agent.prompt("AGAIN look {}").await?.text)
    // [/limit]
}

// [sleep]
struct Later;

#[async_trait]
impl BehaviorPattern for Later {
    fn inner(&self) -> Option<&dyn BehaviorPattern> {
        Some(&PiPattern)
    }

    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        let end = PiPattern.next_step(step).await?;
        if end != StepEnd::Done || step.state("reported") == Some(true) {
            return Ok(end);
        }
        step.sleep_for("report", common::sleep()).await?;
        step.set_state("reported", true)?;
        step.remember(UserMessage::from("Write the report now.")).await?;
        PiPattern.next_step(step).await
    }
}
// [/sleep]

async fn sleep(setup: &Setup, first: bool) -> Fallible<String> {
    let (model, path) = (model(setup)?, setup.dir.join("sessions.db"));
    // [sleep]
    let agent = GenericAgent::builder(model, Later).build()?;
    let store = Sqlite::open(path)?;
    if first {
        let session = agent.open(&store, "report").await?;
        session.prompt("Report later.").await?;
        session.close().await;
    }
    match agent.keep_running_due(&store).await {}
    // [/sleep]
}

async fn map(setup: &Setup) -> Fallible<String> {
    let (model, documents) = (model(setup)?, common::documents());
    // [map]
    let read = Branches::new(move |_step, _: &()| {
        let ask = |text: &String| Ask::detached().messages([UserMessage::from(&**text).into()]);
        documents.iter().map(|text| ask(text).max_tokens(200)).collect()
    });
    let read = read.at_most(4).budget(Budget::default().cost(common::DOLLARS));
    let graph = Graph::<()>::new("read")
        .branches("read", read, |_, notes| {
            let all = notes.len();
            let notes: Vec<String> = notes.into_iter().flatten().map(|note| note.text()).collect();
            let text = format!("Answer from {} of {all} notes:\n{}", notes.len(), notes.join("\n"));
            Ok(Some(UserMessage::from(text).into()))
        })
        .leads_to("read", [Next::To("answer")])
        .pattern("answer", PiPattern);
    let agent = GenericAgent::builder(model, graph).build()?;
    Ok(agent.prompt("What do they say?").await?.text)
    // [/map]
}
