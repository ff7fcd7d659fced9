//! The rows `limit`, `tests`, `debate`, `sleep` and `map` with loopwright. The lines between marks
//! are counted.

use std::error::Error;

use compare_common::{self as common, Setup};
use loopwright::limits::{Budget, Limits, WrapUp};
use loopwright::memory::Sqlite;
use loopwright::message::UserMessage;
use loopwright::model::Prices;
use loopwright::patterns::{Branches, Goal, Graph, Next, PiPattern};
use loopwright::providers::OpenAiChat;
use loopwright::session::Call;
use loopwright::tool::{Approval, Effect};
use loopwright::{
    Ask, BehaviorPattern, GenericAgent, StepContext, StepEnd, StepError, ToolError, async_trait,
    tool_fn, tool_with,
};
use serde_json::{Value, json};

type Fallible<T> = Result<T, Box<dyn Error>>;

/// The prices are for the row `map`: US dollars for a million tokens.
fn model(setup: &Setup) -> Fallible<OpenAiChat> {
    let model = OpenAiChat::builder("mock").base_url(&setup.url);
    Ok(model.prices(Prices::new(2.5, 10.0)).build()?)
}

fn named(setup: &Setup, name: &str) -> Fallible<OpenAiChat> {
    Ok(OpenAiChat::builder(name).base_url(&setup.url).build()?)
}

pub(crate) async fn run(setup: &Setup) -> Fallible<Value> {
    Ok(match setup.row.as_str() {
        "limit" => common::end_of(limit(setup)).await,
        "tests" => common::end_of(until_tests_pass(setup)).await,
        "debate" => common::end_of(debate(setup)).await,
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

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Code {
    code: String,
}

async fn until_tests_pass(setup: &Setup) -> Fallible<String> {
    let (model, dir) = (model(setup)?, setup.dir.clone());
    let write = async |dir: std::path::PathBuf, args: Code, _cx| {
        Ok::<_, ToolError>(common::write_code(&dir, &args.code)?)
    };
    let write = tool_with(dir.clone(), "write_code", "Replaces the code.", write);
    let write = write.effect(Effect::Idempotent).approval(Approval::Never);
    let test = async |dir: std::path::PathBuf, _: super::Nothing, _cx| {
        common::run_tests(&dir).map_err(ToolError::failed)
    };
    let test = tool_with(dir, "run_tests", "Runs the tests.", test).effect(Effect::ReadOnly);
    // [tests]
    let goal = Goal::call(Call::new("run_tests", json!({})), PiPattern).rounds(5);
    let agent = GenericAgent::builder(model, goal).tool(write).tool(test).build()?;
    Ok(agent.prompt(common::TASK).await?.text)
    // [/tests]
}

// [debate]
struct Debate;

#[async_trait]
impl BehaviorPattern for Debate {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        while !step.all_answered().await? {
            let mut debate = String::new();
            for round in 0..2 {
                for side in ["pro", "contra"] {
                    let text = UserMessage::from(format!("You argue {side}. So far:\n{debate}"));
                    let ask = Ask::detached().model(side).also(text).shown(side);
                    let said = step.ask_with(ask.key(format!("{side}-{round}"))).await?.or_end()?;
                    debate += &format!("{side}: {}\n", said.text());
                }
            }
            let text = UserMessage::from(format!("The debate:\n{debate}Who wins, and why?"));
            step.ask_with(Ask::new().also(text)).await?.or_end()?;
        }
        Ok(StepEnd::Done)
    }
}
// [/debate]

async fn debate(setup: &Setup) -> Fallible<String> {
    let [pro, contra, judge] = ["pro", "contra", "judge"].map(|name| named(setup, name));
    let (pro, contra, judge) = (pro?, contra?, judge?);
    // [debate]
    let agent = GenericAgent::builder(judge, Debate).model_named("pro", pro);
    let agent = agent.model_named("contra", contra).build()?;
    Ok(agent.prompt("Ban cars?").await?.text)
    // [/debate]
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
