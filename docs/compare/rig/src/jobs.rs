//! The rows `limit`, `tests`, `debate` and `map` with rig. The lines between marks are counted.

use std::sync::atomic::{AtomicU64, Ordering};

use compare_common::{self as common, Setup};
use futures::{StreamExt, stream};
use rig::agent::{AgentHook, CompletionCallAction, CompletionCallEvent, HookContext};
use rig::message::ToolChoice;
use rig::prelude::*;
use rig::providers::openai::OpenAIConfig;
use rig::run::RequestPatch;
use rig::tool::ToolExecutionError;
use serde_json::{Value, json};

use super::Fallible;

/// Looks.
#[rig::rig_tool]
fn look() -> Result<String, ToolExecutionError> {
    Ok("There is more to look at.".to_owned())
}

/// Replaces the code.
#[rig::rig_tool]
fn write_code(
    /// The code.
    code: String,
) -> Result<String, ToolExecutionError> {
    let dir = std::path::PathBuf::from(std::env::args().nth(2).unwrap_or_default());
    let written = common::write_code(&dir, &code);
    Ok(written.map_err(|error| ToolExecutionError::other(error.to_string()))?.to_owned())
}

fn builder(setup: &Setup) -> AgentBuilder {
    named(setup, "mock")
}

fn named(setup: &Setup, name: &str) -> AgentBuilder {
    AgentBuilder::new(OpenAIConfig::new("none").with_base_url(&setup.url).client().chat(name))
}

pub(crate) async fn run(setup: &Setup) -> Fallible<Value> {
    Ok(match setup.row.as_str() {
        "limit" => common::end_of(limit(setup)).await,
        "limit_hook" => common::end_of(limit_hook(setup)).await,
        "tests" => common::end_of(until_tests_pass(setup)).await,
        "debate" => common::end_of(debate(setup)).await,
        "map" => common::end_of(map(setup)).await,
        _ => json!({"not_offered": true}), // there is no timer
    })
}

/// The library's limit, which ends the run with an error.
async fn limit(setup: &Setup) -> Fallible<String> {
    let agent = builder(setup).tool(Look).build();
    Ok(agent.prompt("AGAIN look {}").max_turns(5).await?.output())
}

// [limit]
struct LastAnswer {
    turns: usize,
}

impl AgentHook for LastAnswer {
    async fn on_completion_call(
        &self,
        _cx: &HookContext,
        event: CompletionCallEvent<'_>,
    ) -> CompletionCallAction {
        if event.turn < self.turns {
            return CompletionCallAction::continue_run();
        }
        let note = "No tool can be called any more. Answer now with what you have.";
        let patch = RequestPatch::new().tool_choice(ToolChoice::None).preamble(note);
        CompletionCallAction::patch(patch)
    }
}
// [/limit]

/// A hook of one's own forbids calls in the last request.
async fn limit_hook(setup: &Setup) -> Fallible<String> {
    let builder = builder(setup);
    // [limit]
    let agent = builder.tool(Look).build();
    let run = agent.prompt("AGAIN look {}").max_turns(5).add_hook(LastAnswer { turns: 5 });
    Ok(run.await?.output())
    // [/limit]
}

async fn until_tests_pass(setup: &Setup) -> Fallible<String> {
    let builder = builder(setup);
    // [tests]
    let agent = builder.tool(WriteCode).build();
    let (mut text, mut history) = (common::TASK.to_owned(), Vec::new());
    for _ in 0..5 {
        let run = agent.prompt(text.as_str()).history(history.clone()).max_turns(10).await?;
        history.extend_from_slice(run.messages());
        match common::run_tests(&setup.dir) {
            Ok(_) => return Ok(run.output()),
            Err(output) => text = format!("The tests fail:\n{output}"),
        }
    }
    let run = agent.prompt(text + "\nSum up.").history(history).tool_choice(ToolChoice::None);
    Ok(run.await?.output())
    // [/tests]
}

async fn debate(setup: &Setup) -> Fallible<String> {
    let [pro, contra, judge] = ["pro", "contra", "judge"].map(|name| named(setup, name));
    // [debate]
    let sides = [("pro", pro.build()), ("contra", contra.build())];
    let mut said = "Ban cars?\n".to_owned();
    for _ in 0..2 {
        for (side, agent) in &sides {
            let speech = agent.prompt(format!("You argue {side}. So far:\n{said}")).await?;
            said += &format!("{side}: {}\n", speech.output());
        }
    }
    let verdict = judge.build().prompt(format!("The debate:\n{said}Who wins, and why?"));
    Ok(verdict.await?.output())
    // [/debate]
}

/// The library has no budget of several runs, so a branch looks at the usage before its request.
async fn map(setup: &Setup) -> Fallible<String> {
    let (builder, documents) = (builder(setup), common::documents());
    // [map]
    let agent = builder.build();
    let used = AtomicU64::new(0);
    let read = async |text: &String| {
        if used.load(Ordering::Relaxed) >= common::TOKENS {
            return None;
        }
        let note = agent.prompt(text.as_str()).await.ok()?;
        used.fetch_add(note.usage().total_tokens.unwrap_or(0), Ordering::Relaxed);
        Some(note.output())
    };
    let replies: Vec<_> = stream::iter(&documents).map(read).buffered(4).collect().await;
    let notes: Vec<String> = replies.into_iter().flatten().collect();
    let all = documents.len();
    let text = format!("Answer from {} of {all} notes:\n{}", notes.len(), notes.join("\n"));
    Ok(agent.prompt(text).await?.output())
    // [/map]
}
