//! The rows of the comparison with everruns.

#[cfg(feature = "stored")]
mod stored;

use std::error::Error;
use std::path::PathBuf;

use compare_common::{self as common, Setup};
use everruns::providers::openai::OpenAICompletionsChatDriver;
use everruns::{Agent, BearerAuth, Engine, Provider, Session};
use serde_json::json;

/// Returns the text.
#[everruns::tool]
async fn echo(text: String) -> Result<String, String> {
    Ok(text)
}

/// Fails.
#[everruns::tool]
async fn boom() -> Result<String, String> {
    if true {
        panic!("boom");
    }
    Ok(String::new())
}

/// Never returns.
#[everruns::tool]
async fn hang() -> Result<String, String> {
    std::future::pending::<()>().await;
    Ok(String::new())
}

async fn take(euros: i64) -> Result<String, String> {
    let dir = PathBuf::from(std::env::args().nth(2).unwrap_or_default());
    common::record(&dir, euros).map_err(|error| error.to_string())?;
    tokio::time::sleep(common::slow()).await;
    Ok(format!("charged {euros} euros"))
}

/// Charges a card.
#[everruns::tool]
async fn charge(euros: i64) -> Result<String, String> {
    take(euros).await
}

/// Pays, if approved.
#[everruns::tool(needs_approval)]
async fn pay(euros: i64) -> Result<String, String> {
    take(euros).await
}

type Fallible<T> = Result<T, Box<dyn Error>>;

/// Builds the agent with the driver for Chat Completions. The default is the Responses API.
fn agent(setup: &Setup) -> Fallible<Agent> {
    let provider = Provider::new("openai", OpenAICompletionsChatDriver::new())
        .base_url(&setup.url)
        .auth(BearerAuth::new("none"));
    let builder = Agent::builder()
        .instructions("You call the tools.")
        .provider(provider)
        .model("mock")
        .tool(echo())
        .tool(boom())
        .tool(hang())
        .tool(charge());
    let approves = matches!(setup.row.as_str(), "ask" | "approve");
    let builder = if approves { builder.tool(pay()).durable_approvals() } else { builder };
    Ok(builder.build()?)
}

async fn prompt(session: &Session, text: &str) -> Fallible<String> {
    let turn = session.send_and_wait(text).await?;
    Ok(if turn.success { turn.response } else { format!("{:?}", turn.stop_reason) })
}

#[tokio::main]
async fn main() -> Fallible<()> {
    let setup = Setup::read()?;
    let agent = agent(&setup)?;
    let engine = Engine::new();
    let result = match setup.row.as_str() {
        "turns" => {
            let session = engine.create(agent);
            let turn = async |text: String| prompt(&session, &text).await.map(drop);
            common::turns(turn).await?
        }
        "agents" => {
            let start = async |_, text: String| {
                let session = engine.create(agent.clone());
                prompt(&session, &text).await?;
                Ok::<_, Box<dyn Error>>(session)
            };
            common::agents(start).await?
        }
        #[cfg(feature = "stored")]
        "kill" | "resume" | "ask" | "approve" => stored::run(&setup, agent).await?,
        "steer" => {
            let session = engine.create(agent);
            let steer = async {
                common::wait_for_effect(&setup.dir).await;
                session.send("STEER in dollars").await.map(drop)
            };
            let run = prompt(&session, r#"CALL charge {"euros": 20}"#);
            let (end, sent) = tokio::join!(common::end_of(run), steer);
            sent?;
            end
        }
        "hang_limited" => json!({"not_offered": true}),
        row => {
            let text = match row {
                "panic" => "CALL boom {}",
                "hang" => "CALL hang {}",
                "args" => r#"CALL charge {"euros": "twenty"}"#,
                "args_text" => r#"CALL charge {"euros": "20"}"#,
                _ => return Err("no such row".into()),
            };
            let session = engine.create(agent);
            common::end_of(prompt(&session, text)).await
        }
    };
    println!("{result}");
    std::process::exit(0) // a session that waits for ever is not waited for
}
