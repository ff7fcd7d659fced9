//! The rows of the comparison with everruns.

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use compare_common::{self as common, Setup};
use everruns::hosting::{AgentBuild, ApprovalCommit, SqliteHosting, ToolApprovalDecision};
use everruns::providers::groq::Groq;
use everruns::{Agent, CancellationToken, Engine, MessageId, Session, SessionId};
use serde_json::{Value, json};

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

/// Builds the agent, with the provider of Groq because it uses Chat Completions.
fn agent(setup: &Setup) -> Fallible<Agent> {
    let builder = Agent::builder()
        .instructions("You call the tools.")
        .provider(Groq::new("none").base_url(&setup.url))
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
        "kill" | "resume" | "ask" | "approve" => stored(&setup, agent).await?,
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

/// The rows in which a second process continues what the first one has begun.
async fn stored(setup: &Setup, agent: Agent) -> Fallible<Value> {
    let build = AgentBuild::new("agent", "1");
    let hosting = SqliteHosting::open(setup.dir.join("authority.db"))?;
    let engine =
        Engine::builder().hosting(hosting.clone()).register(build.clone(), agent).build();
    let id: SessionId = "session_00000000000000000000000000000001".parse()?;
    let message: MessageId = "message_00000000000000000000000000000001".parse()?;
    let supervised = hosting.supervise(engine.clone(), CancellationToken::new());
    tokio::spawn(supervised);
    let first = matches!(setup.row.as_str(), "kill" | "ask");
    let session = match first {
        true => engine.create_registered(id, &build).await?,
        false => engine.resume(id).await?,
    };
    if setup.row == "kill" {
        let sent = session.send_with_id(message, r#"CALL charge {"euros": 20}"#).await?;
        let run = async { sent.wait().await.map(|turn| turn.response) };
        return Ok(common::end_of(run).await);
    }
    if setup.row == "ask" {
        session.send_with_id(message, r#"CALL pay {"euros": 20}"#).await?;
        while session.pending_tools().await?.is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        return Ok(json!({"pending": session.pending_tools().await?.len()}));
    }
    if setup.row == "approve" {
        let turn_id = engine.session_status(id).await?.open_turn.ok_or("no turn is open")?;
        for call in session.pending_tools().await? {
            // A decision has no arguments: Allow, AllowAlways, Reject, RejectAlways.
            let decision = ToolApprovalDecision::Allow;
            let commit = ApprovalCommit { turn_id, request_id: call.id, decision };
            session.approve_tools(uuid::Uuid::new_v4(), vec![commit]).await?;
        }
    }
    let admission = session.admission(message).await?.ok_or("the message is lost")?;
    let run = async { admission.wait().await.map(|turn| turn.response) };
    Ok(common::end_of(run).await)
}
