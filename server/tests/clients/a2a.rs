//! The official clients of A2A, from npm and PyPI.

use std::time::Duration;

use loopwright_core::log::InMemoryStore;
use loopwright_core::testing::{Script, ScriptedModel};
use loopwright_core::tool::{AskUser, Effect};
use loopwright_core::{AgentEvent, GenericAgent, Tool, ToolError, tool_fn};
use loopwright_patterns::PiPattern;
use loopwright_server::{RemoteAgent, Server};
use serde_json::json;

use crate::run::{run, serve, start};

const TOKEN: &str = "a-token-of-the-server";

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Sell {
    what: String,
}

/// Returns the replies of the model, in the order of both scripts' requests.
fn replies() -> Vec<Script> {
    let sells = || Script::new().say("I sell.").call("s", "sell", r#"{"what": "sheep"}"#);
    let question = json!({ "question": "Which field?", "options": ["north", "south"] });
    vec![
        Script::text("Nine."),
        Script::new().stream(["Ni", "ne."], Duration::ZERO),
        sells(),
        Script::text("Sold."),
        sells(),
        Script::text("Not sold."),
        Script::new().call("q", "ask_user", &question.to_string()),
        Script::text("North it is."),
        sells(),
        Script::new().say("half").hang(),
    ]
}

async fn drive(script: &str) {
    let sell = tool_fn("sell", "Sells animals.", async |sell: Sell, _| {
        Ok::<_, ToolError>(format!("sold the {}", sell.what))
    });
    let model = ScriptedModel::new(replies());
    let agent = GenericAgent::builder(model.clone(), PiPattern).tool(sell).tool(AskUser::new());
    let server = Server::builder(InMemoryStore::new())
        .agent("shepherd", agent.build().unwrap())
        .token(TOKEN);
    let address = serve(server.build().unwrap()).await;
    run(script, &[&address, TOKEN]).await;
    assert_eq!(model.requests().len(), replies().len());
}

/// C377: the client of npm.
#[tokio::test]
async fn the_client_of_npm_talks_to_an_agent() {
    drive("a2a.mjs").await;
}

/// C377: the client of PyPI.
#[tokio::test]
async fn the_client_of_pypi_talks_to_an_agent() {
    drive("a2a_client.py").await;
}

/// C378: An agent sends messages to an agent that the official server of npm serves. It reads the
/// answer, a failure, and the information that the other agent needs. A cancelled call cancels the
/// task.
#[tokio::test]
async fn an_agent_asks_a_remote_agent() {
    let (lines, _server) = start("a2a_server.mjs", &[TOKEN]).await;
    tokio::pin!(lines);
    let address = lines.next_line().await.unwrap().unwrap();
    assert!(RemoteAgent::connect(&address, Some("wrong")).await.is_err());
    let remote = RemoteAgent::connect(&address, Some(TOKEN)).await.unwrap();
    assert_eq!((&*remote.spec().name, remote.spec().effect), ("flock_keeper", Effect::default()));
    assert!(remote.spec().description.contains("count: Counts."));
    let asks = |message: &str| {
        let arguments = json!({ "message": message }).to_string();
        Script::new().call(message, "flock_keeper", &arguments)
    };
    let model = ScriptedModel::new([asks("Count!"), asks("Fail."), asks("Which?"), asks("Hang.")]);
    let agent = GenericAgent::builder(model.clone(), PiPattern).tool(remote).approve_all();
    let handle = agent.build().unwrap().session().await.unwrap();
    let mut events = handle.prompt_stream("Ask.").await.unwrap();
    let mut results = Vec::new();
    while let Some(event) = events.next().await {
        match &event.event {
            AgentEvent::ToolExecutionEnd { is_error, result, .. } => {
                results.push((*is_error, result.text()));
            }
            AgentEvent::ToolExecutionStart { call, .. } if **call == *"Hang." => {
                assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("hangs"));
                handle.abort().await.unwrap();
            }
            _ => {}
        }
    }
    assert_eq!(results[0], (false, "To Count! nine.".to_owned()));
    assert_eq!(results[1], (true, "The wolf came.".to_owned()));
    let (needs_input, text) = &results[2];
    assert!(!needs_input && text.contains("Which field?") && text.contains("`task`"), "{text}");
    assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("cancelled"));
}
