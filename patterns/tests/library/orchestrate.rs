//! Requests that are divided among sub-agents.

use loopwright_core::testing::{Script, ScriptedModel};
use loopwright_core::{GenericAgent, RunContext};
use loopwright_patterns::{Orchestrate, PiPattern};
use serde_json::json;

use crate::kit::{assert_conforms, scenario, scenarios};
use crate::values::value;

fn sub_agent(text: &str) -> GenericAgent {
    GenericAgent::builder(ScriptedModel::new([Script::text(text)]), PiPattern).build().unwrap()
}

/// Asks an agent with two shops, and returns its answer and its model.
async fn ask(replies: [&str; 2], text: &str) -> (String, ScriptedModel) {
    let model = ScriptedModel::new(replies.map(Script::text));
    let agent = GenericAgent::builder(model.clone(), Orchestrate::new(["east", "west"], PiPattern))
        .child("east", "A shop.", sub_agent("30 €"))
        .child("west", "A shop.", sub_agent("20 €"))
        .build()
        .unwrap();
    let (handle, _events) = agent.run(RunContext::new()).await.unwrap();
    (handle.prompt(text).await.unwrap().text.to_string(), model)
}

#[tokio::test(start_paused = true)]
async fn sub_agents_work_on_their_tasks_and_the_answer_follows_from_their_results() {
    let task = |agent: &str| json!({ "agent": agent, "task": "The price?" });
    // `rm` is no sub-agent, and no call.
    let tasks = json!({ "tasks": [task("east"), task("rm"), task("west")] }).to_string();
    let (text, model) = ask([&tasks, "West."], "Who is cheaper?").await;
    assert_eq!(text, "West.");
    let requests = model.requests();
    let asked = requests[0].messages.last().unwrap().text();
    assert!(asked.ends_with(":\neast: A shop.\nwest: A shop."), "{asked}");
    let results = requests[1].messages.iter().filter_map(|message| message.as_tool_result());
    let results: Vec<String> = results.map(|result| result.text()).collect();
    assert_eq!(results, ["30 €", "20 €"]);
}

#[tokio::test(start_paused = true)]
async fn a_request_without_tasks_is_answered_at_once() {
    let (text, model) = ask([r#"{"tasks": []}"#, "Good day."], "Hello.").await;
    assert_eq!((&*text, model.requests().len()), ("Good day.", 2));
}

/// The suite knows one session, so tools stand in for the sub-agents.
#[tokio::test(start_paused = true)]
async fn it_conforms() {
    let own = scenario("two requests", value).request("One?").request("Two?");
    let all = scenarios(value).into_iter().chain([own]).collect();
    assert_conforms(|| Orchestrate::new(["look", "send"], PiPattern), all).await;
}
