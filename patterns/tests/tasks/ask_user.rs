//! Task 10, second form: the model asks the user with a tool.

// [pattern]
use loopwright_core::model::ChatModel;
use loopwright_core::tool::AskUser;
use loopwright_core::{AgentBuilder, GenericAgent};
use loopwright_patterns::PiPattern;

fn agent(model: impl ChatModel + 'static) -> AgentBuilder {
    // [essential]
    GenericAgent::builder(model, PiPattern).tool(AskUser::new())
    // [/essential]
}
// [/pattern]

use loopwright_core::RunContext;
use loopwright_core::event::{Decision, Provided, RunStatus};
use loopwright_core::log::InMemory;
use loopwright_core::testing::{Script, ScriptedModel, ScriptedSession, crash_at_every_append};
use loopwright_patterns::conformance;
use serde_json::json;

use crate::kit::assert_conforms;

fn replies() -> [Script; 2] {
    let arguments = json!({ "question": "Which?", "options": ["red", "blue"] });
    [Script::calls([("q", "ask_user", arguments)]), Script::text("Blue it is.")]
}

fn blue() -> Decision {
    Decision::Provide(Provided::Input(json!("blue")))
}

#[tokio::test(start_paused = true)]
async fn the_model_asks_and_the_answer_is_the_result() {
    let model = ScriptedModel::new(replies());
    let agent = agent(model.clone()).build().unwrap();
    let memory = InMemory::new();
    let (handle, _events) = agent.run(RunContext::new().memory(memory.clone())).await.unwrap();
    let outcome = handle.prompt("Paint it.").await.unwrap();
    assert_eq!(outcome.end, RunStatus::AwaitingAction);
    drop((handle, _events));
    // The process may end here: the session that is opened from its log gets the answer.
    let memory = InMemory::from_entries(memory.entries());
    let (handle, _events) = agent.run(RunContext::new().memory(memory)).await.unwrap();
    let action = handle.pending().await.unwrap().remove(0);
    assert!(action.question().unwrap().read("green").is_err());
    handle.resolve(&action, blue()).await.unwrap();
    handle.wait_for_idle().await;
    let state = handle.state().await.unwrap();
    let texts: Vec<String> = state.messages.iter().map(|message| message.text()).collect();
    assert_eq!(texts, ["Paint it.", "", "blue", "Blue it is."]);
    assert_eq!(model.requests().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn it_conforms() {
    let own = conformance::Scenario::new("a question", replies()).request("Paint it.");
    let own = own.agent(|agent, _| agent.tool(AskUser::new())).decisions(|_| blue());
    assert_conforms(|| PiPattern, vec![own]).await;
    let scenario = ScriptedSession::new(replies()).request("Paint it.").decisions(|_| blue());
    let report = crash_at_every_append(agent, scenario).await.unwrap();
    assert_eq!((report.requests, report.compared), (2, report.appends), "{report}");
}

/// C177
#[tokio::test(start_paused = true)]
async fn it_is_recorded() {
    crate::cassettes::assert_agent_is_recorded(agent, replies(), &["Paint it."]).await;
}
