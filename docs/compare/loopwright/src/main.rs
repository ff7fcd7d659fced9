//! The rows of the comparison with loopwright.

mod jobs;

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use compare_common::{self as common, Setup};
use loopwright::event::Decision;
use loopwright::memory::Sqlite;
use loopwright::patterns::PiPattern;
use loopwright::providers::OpenAiChat;
use loopwright::session::AgentHandle;
use loopwright::tool::{Approval, Effect};
use loopwright::{GenericAgent, RunContext, ToolError, tool_fn, tool_with};
use serde_json::{Value, json};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    text: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Money {
    euros: i64,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

/// Builds the agent. `limit` is the hanging tool's own time limit, if it has one.
fn agent(setup: &Setup, limit: Option<Duration>) -> Result<GenericAgent, Box<dyn Error>> {
    let model = OpenAiChat::builder("mock").base_url(&setup.url).build()?;
    let echo =
        tool_fn("echo", "Returns the text.", async |args: Echo, _cx| Ok::<_, ToolError>(args.text));
    let boom = tool_fn("boom", "Fails.", async |_: Nothing, _cx| {
        if true {
            panic!("boom");
        }
        Ok::<_, ToolError>("")
    });
    let hang = tool_fn("hang", "Never returns.", async |_: Nothing, _cx| {
        std::future::pending::<()>().await;
        Ok::<_, ToolError>("")
    });
    let hang = match limit {
        Some(limit) => hang.spec(|spec| spec.timeout(limit)),
        None => hang,
    };
    let charge = async |dir: PathBuf, args: Money, _cx| {
        common::record(&dir, args.euros)?;
        tokio::time::sleep(common::slow()).await;
        Ok::<_, ToolError>(format!("charged {} euros", args.euros))
    };
    let pay = tool_with(setup.dir.clone(), "pay", "Pays, if approved.", charge);
    let charge = tool_with(setup.dir.clone(), "charge", "Charges a card.", charge);
    let agent = GenericAgent::builder(model, PiPattern)
        .system("You call the tools.")
        .tool(echo.effect(Effect::ReadOnly))
        .tool(boom.effect(Effect::ReadOnly))
        .tool(hang.effect(Effect::ReadOnly))
        .tool(charge.approval(Approval::Never))
        .tool(pay.approval(Approval::Always));
    Ok(agent.build()?)
}

async fn prompt(handle: &AgentHandle, text: &str) -> Result<String, Box<dyn Error>> {
    let outcome = handle.prompt(text).await?;
    Ok(if outcome.text.is_empty() { format!("{:?}", outcome.end) } else { outcome.text })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let setup = Setup::read()?;
    let limit = (setup.row == "hang_limited").then(|| Duration::from_secs(1));
    let agent = agent(&setup, limit)?;
    let result = match setup.row.as_str() {
        "turns" => {
            let handle = agent.session().await?;
            let turn = async |text: String| prompt(&handle, &text).await.map(drop);
            common::turns(turn).await?
        }
        "agents" => {
            let start = async |_, text: String| {
                let run = agent.run(RunContext::new()).await?;
                prompt(&run.0, &text).await?;
                Ok::<_, Box<dyn Error>>(run)
            };
            common::agents(start).await?
        }
        "limit" | "tests" | "debate" | "sleep" | "wake" | "map" => jobs::run(&setup).await?,
        "kill" | "resume" | "ask" | "approve" => stored(&setup, &agent).await?,
        "steer" => {
            let handle = agent.session().await?;
            let steer = async {
                common::wait_for_effect(&setup.dir).await;
                handle.steer("STEER in dollars").await
            };
            let run = prompt(&handle, r#"CALL charge {"euros": 20}"#);
            let (end, sent) = tokio::join!(common::end_of(run), steer);
            sent?;
            end
        }
        row => {
            let handle = agent.session().await?;
            let text = match row {
                "panic" => "CALL boom {}",
                "hang" | "hang_limited" => "CALL hang {}",
                "args" => r#"CALL charge {"euros": "twenty"}"#,
                "args_text" => r#"CALL charge {"euros": "20"}"#,
                _ => return Err("no such row".into()),
            };
            common::end_of(prompt(&handle, text)).await
        }
    };
    println!("{result}");
    Ok(())
}

/// Runs the rows in which a second process continues the work of the first.
async fn stored(setup: &Setup, agent: &GenericAgent) -> Result<Value, Box<dyn Error>> {
    let store = Sqlite::open(setup.dir.join("sessions.db"))?;
    let handle = agent.open(&store, "s").await?;
    Ok(match setup.row.as_str() {
        "kill" => common::end_of(prompt(&handle, r#"CALL charge {"euros": 20}"#)).await,
        "ask" => {
            let end = common::end_of(prompt(&handle, r#"CALL pay {"euros": 20}"#)).await;
            json!({"pending": handle.pending().await?.len(), "first": end})
        }
        "resume" => {
            let run = async { handle.continue_run().await.map(|outcome| outcome.text) };
            common::end_of(run).await
        }
        _ => {
            for action in handle.pending().await? {
                let edited = Decision::ApproveWith(json!({"euros": 5}));
                handle.resolve(&action, edited).await?;
            }
            handle.wait_for_idle().await;
            let state = handle.state().await?;
            json!({"end": state.messages.last().map(|message| message.text())})
        }
    })
}
