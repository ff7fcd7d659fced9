//! The rows of the comparison with adk-rust.

use std::collections::HashMap;
use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use adk_rust::ToolConfirmationDecision;
use adk_rust::prelude::*;
use adk_rust::session::{CreateRequest, SessionService};
use adk_tool::{AdkError, tool};
use compare_common::{self as common, Setup};
use futures::StreamExt;
use serde_json::{Value, json};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Text {
    text: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Money {
    euros: i64,
}

type ToolResult = std::result::Result<Value, AdkError>;
type Fallible<T> = std::result::Result<T, Box<dyn Error>>;

/// Returns the text.
#[tool]
async fn echo(args: Text) -> ToolResult {
    Ok(json!(args.text))
}

/// Fails.
#[tool]
async fn boom() -> ToolResult {
    if true {
        panic!("boom");
    }
    Ok(Value::Null)
}

/// Never returns.
#[tool]
async fn hang() -> ToolResult {
    std::future::pending::<()>().await;
    Ok(Value::Null)
}

async fn take(euros: i64) -> ToolResult {
    let dir = PathBuf::from(std::env::args().nth(2).unwrap_or_default());
    common::record(&dir, euros).map_err(|error| AdkError::tool(error.to_string()))?;
    tokio::time::sleep(common::slow()).await;
    Ok(json!(format!("charged {euros} euros")))
}

/// Charges a card.
#[tool]
async fn charge(args: Money) -> ToolResult {
    take(args.euros).await
}

/// Pays, if approved.
#[tool]
async fn pay(args: Money) -> ToolResult {
    take(args.euros).await
}

fn runner(setup: &Setup, sessions: Arc<dyn SessionService>) -> Fallible<Runner> {
    let config = OpenAIConfig::compatible("none", &setup.url, "mock");
    let builder = LlmAgentBuilder::new("agent")
        .instruction("You call the tools.")
        .model(Arc::new(OpenAIClient::new(config)?))
        .tool(Arc::new(Echo))
        .tool(Arc::new(Boom))
        .tool(Arc::new(Hang))
        .tool(Arc::new(Charge))
        .tool(Arc::new(Pay))
        .require_tool_confirmation("pay");
    let builder = match setup.row.as_str() {
        "hang_limited" => builder.tool_timeout(Duration::from_secs(1)),
        _ => builder,
    };
    let runner = Runner::builder().app_name("compare").agent(Arc::new(builder.build()?));
    Ok(runner.session_service(sessions).build()?)
}

async fn create(sessions: &Arc<dyn SessionService>, id: &str) -> Fallible<()> {
    let request = CreateRequest {
        app_name: "compare".into(),
        user_id: "user".into(),
        session_id: Some(id.into()),
        state: HashMap::new(),
    };
    sessions.create(request).await?;
    Ok(())
}

/// Runs a prompt to its end. Returns its text, and the call that waits for an approval.
async fn prompt(
    runner: &Runner,
    id: &str,
    text: &str,
    approved: Option<String>,
) -> Fallible<(String, Option<String>)> {
    let content = Content::new("user").with_text(text);
    let decisions = approved.map(|call| (call, ToolConfirmationDecision::Approve));
    let config = RunConfig {
        tool_confirmation_decisions: decisions.into_iter().collect(),
        ..RunConfig::default()
    };
    let (user, session) = ("user".try_into()?, id.try_into()?);
    let mut events = runner.run_with_config(user, session, content, Some(config)).await?;
    let (mut text, mut waits) = (String::new(), None);
    while let Some(event) = events.next().await {
        let event = event?;
        if let Some(request) = &event.actions.tool_confirmation {
            waits = request.function_call_id.clone();
        }
        for part in event.llm_response.content.iter().flat_map(|content| &content.parts) {
            text.push_str(part.text().unwrap_or_default());
        }
    }
    Ok((text, waits))
}

#[tokio::main]
async fn main() -> Fallible<()> {
    let setup = Setup::read()?;
    let sessions: Arc<dyn SessionService> = match setup.row.as_str() {
        #[cfg(feature = "stored")]
        "kill" | "resume" | "ask" | "approve" => {
            let path = setup.dir.join("sessions.db");
            let service = adk_session::SqliteSessionService::new(&format!(
                "sqlite:{}?mode=rwc",
                path.display()
            ))
            .await?;
            service.migrate().await?;
            Arc::new(service)
        }
        _ => Arc::new(InMemorySessionService::new()),
    };
    let runner = runner(&setup, sessions.clone())?;
    if !matches!(setup.row.as_str(), "resume" | "approve" | "agents") {
        create(&sessions, "s").await?;
    }
    let text = match setup.row.as_str() {
        "turns" => {
            let turn = async |text: String| prompt(&runner, "s", &text, None).await.map(drop);
            println!("{}", common::turns(turn).await?);
            return Ok(());
        }
        "agents" => {
            let start = async |number: usize, text: String| {
                let id = format!("s{number}");
                create(&sessions, &id).await?;
                prompt(&runner, &id, &text, None).await
            };
            println!("{}", common::agents(start).await?);
            return Ok(());
        }
        "ask" => {
            let (_, waits) = prompt(&runner, "s", r#"CALL pay {"euros": 20}"#, None).await?;
            let waits = waits.ok_or("no call waits for an approval")?;
            fs::write(setup.dir.join("call"), &waits)?;
            println!("{}", json!({"pending": 1, "call": waits}));
            return Ok(());
        }
        "approve" => {
            // A decision is for the id of a call. The first run has no text, in case it runs the
            // waiting call. The second run asks the model again.
            let call = fs::read_to_string(setup.dir.join("call"))?;
            let run = async {
                prompt(&runner, "s", "", Some(call.clone())).await?;
                let text = "Approved. Call it again now.";
                prompt(&runner, "s", text, Some(call)).await.map(|(text, waits)| {
                    format!("{text}{}", if waits.is_some() { " (waits again)" } else { "" })
                })
            };
            println!("{}", common::end_of(run).await);
            return Ok(());
        }
        "panic" => "CALL boom {}",
        "hang" | "hang_limited" => "CALL hang {}",
        "kill" => r#"CALL charge {"euros": 20}"#,
        "resume" => "Go on.",
        "args" => r#"CALL charge {"euros": "twenty"}"#,
        "args_text" => r#"CALL charge {"euros": "20"}"#,
        // A run of the runner takes no input except an interruption.
        _ => {
            println!("{}", json!({"not_offered": true}));
            return Ok(());
        }
    };
    let run = async { prompt(&runner, "s", text, None).await.map(|(text, _)| text) };
    println!("{}", common::end_of(run).await);
    Ok(())
}
