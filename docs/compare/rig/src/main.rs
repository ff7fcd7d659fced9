//! The rows of the comparison with rig.

mod jobs;

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use compare_common::{self as common, Setup};
use rig::agent::{AgentHook, DispatchAction, DispatchEvent, HookContext};
use rig::memory::{AsyncStore, DirStore, MemoryStore};
use rig::prelude::*;
use rig::providers::openai::OpenAIConfig;
use rig::run::{AgentRun, AgentRunStep, ModelTurn, prepare_request};
use rig::tool::ToolExecutionError;
use serde_json::{Value, json};

/// Returns the text.
#[rig::rig_tool]
fn echo(
    /// The text.
    text: String,
) -> Result<String, ToolExecutionError> {
    Ok(text)
}

/// Fails.
#[rig::rig_tool]
fn boom() -> Result<String, ToolExecutionError> {
    if true {
        panic!("boom");
    }
    Ok(String::new())
}

/// Never returns.
#[rig::rig_tool]
async fn hang() -> Result<String, ToolExecutionError> {
    std::future::pending::<()>().await;
    Ok(String::new())
}

async fn take(euros: i64) -> Result<String, ToolExecutionError> {
    let dir = PathBuf::from(std::env::args().nth(2).unwrap_or_default());
    common::record(&dir, euros).map_err(|error| ToolExecutionError::other(error.to_string()))?;
    tokio::time::sleep(common::slow()).await;
    Ok(format!("charged {euros} euros"))
}

/// Charges a card.
#[rig::rig_tool]
async fn charge(
    /// How much.
    euros: i64,
) -> Result<String, ToolExecutionError> {
    take(euros).await
}

/// Pays, if approved.
#[rig::rig_tool]
async fn pay(
    /// How much.
    euros: i64,
) -> Result<String, ToolExecutionError> {
    take(euros).await
}

/// A hook that runs the approved call with other arguments.
struct Edit;

impl AgentHook for Edit {
    async fn on_dispatch(&self, _cx: &HookContext, event: DispatchEvent<'_>) -> DispatchAction {
        match event.tool_name() {
            Some("pay") => DispatchAction::rewrite_tool_args(event.kind, json!({"euros": 5})),
            _ => DispatchAction::proceed(),
        }
    }
}

type Fallible<T> = Result<T, Box<dyn Error>>;

fn builder(setup: &Setup) -> AgentBuilder {
    let model = OpenAIConfig::new("none").with_base_url(&setup.url).client().chat("mock");
    AgentBuilder::new(model)
        .preamble("You call the tools.")
        .default_max_turns(10)
        .tool(Echo)
        .tool(Boom)
        .tool(Hang)
        .tool(Charge)
        .tool(Pay)
}

fn with<S: AsyncStore + Send + Sync + 'static>(setup: &Setup, store: S) -> Agent {
    builder(setup).memory(store).build()
}

async fn prompt(agent: &Agent, session: &str, text: &str) -> Fallible<String> {
    Ok(agent.prompt(text).conversation(session).await?.output())
}

#[tokio::main]
async fn main() -> Fallible<()> {
    let setup = Setup::read()?;
    let agent = match setup.row.as_str() {
        "kill" | "resume" => with(&setup, DirStore::open(setup.dir.join("sessions"))?),
        _ => with(&setup, MemoryStore::default()),
    };
    let text = match setup.row.as_str() {
        "turns" => {
            let turn = async |text: String| prompt(&agent, "s", &text).await.map(drop);
            println!("{}", common::turns(turn).await?);
            return Ok(());
        }
        "agents" => {
            let start = async |number: usize, text: String| {
                prompt(&agent, &format!("s{number}"), &text).await
            };
            println!("{}", common::agents(start).await?);
            return Ok(());
        }
        "limit" | "limit_hook" | "tests" | "debate" | "sleep" | "map" => {
            println!("{}", jobs::run(&setup).await?);
            return Ok(());
        }
        "ask" => {
            println!("{}", ask(&setup, r#"CALL pay {"euros": 20}"#).await?);
            return Ok(());
        }
        "approve" | "kill_saved" | "resume_saved" => {
            if setup.row == "kill_saved" {
                ask(&setup, r#"CALL charge {"euros": 20}"#).await?;
            }
            let saved = fs::read_to_string(setup.dir.join("run.json"))?;
            let run: AgentRun = serde_json::from_str(&saved)?;
            let runner = builder(&setup).build().resume(run).add_hook(Edit);
            let run = async { runner.await.map(|response| response.output()) };
            println!("{}", common::end_of(run).await);
            return Ok(());
        }
        "panic" => "CALL boom {}",
        "hang" => "CALL hang {}",
        "kill" => r#"CALL charge {"euros": 20}"#,
        "resume" => "Go on.",
        "args" => r#"CALL charge {"euros": "twenty"}"#,
        "args_text" => r#"CALL charge {"euros": "20"}"#,
        // A run of rig-agent takes no input, and tools have no time limit.
        _ => {
            println!("{}", json!({"not_offered": true}));
            return Ok(());
        }
    };
    println!("{}", common::end_of(prompt(&agent, "s", text)).await);
    Ok(())
}

/// Drives a run by hand to its first tool call and saves it, like a host that approves calls.
async fn ask(setup: &Setup, text: &str) -> Fallible<Value> {
    let agent = builder(setup).build();
    let model = OpenAIConfig::new("none").with_base_url(&setup.url).client().chat("mock");
    let spec = agent.run_spec();
    let mut run = AgentRun::from_spec(&spec, text, None);
    loop {
        match run.next_step()? {
            AgentRunStep::CallModel { prompt, history, turn } => {
                let tools = agent.tool_definitions(None).await?;
                run.advertise_tools(turn, tools.clone());
                let caps = Default::default();
                let prepared = prepare_request(&spec, &caps, &history, tools, None, None)?;
                let request = rig::completion::CompletionRequest::new((*prompt).clone());
                let response = model.call(prepared.clone().apply(request)).await?;
                run.model_response(ModelTurn::from_response(&response, &prepared))?;
            }
            AgentRunStep::CallTools { calls } => {
                // The pending step is part of the saved state, so the next process gets it again.
                fs::write(setup.dir.join("run.json"), serde_json::to_string(&run)?)?;
                return Ok(json!({"pending": calls.len()}));
            }
            AgentRunStep::Done(response) => return Ok(json!({"end": response.output()})),
        }
    }
}
