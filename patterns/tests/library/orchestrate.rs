//! Requests that are divided among sub-agents.

use loopwright_core::message::Usage;
use loopwright_core::testing::{Script, ScriptedModel};
use loopwright_core::{AgentBuilder, GenericAgent};
use loopwright_patterns::{Orchestrate, PiPattern};
use serde_json::json;

use crate::family::{self, Family, NAMES};
use crate::kit::{assert_conforms, scenario, scenarios};
use crate::values::value;

fn sub_agent(text: &str) -> GenericAgent {
    GenericAgent::builder(ScriptedModel::new([Script::text(text)]), PiPattern).build().unwrap()
}

/// Asks an agent with two shops. Returns its answer and its model.
async fn ask(replies: [&str; 2], text: &str) -> (String, ScriptedModel) {
    let model = ScriptedModel::new(replies.map(Script::text));
    let agent = GenericAgent::builder(model.clone(), Orchestrate::new(["east", "west"], PiPattern))
        .child("east", "A shop.", sub_agent("30 €"))
        .child("west", "A shop.", sub_agent("20 €"))
        .build()
        .unwrap();
    let handle = agent.session().await.unwrap();
    (handle.prompt(text).await.unwrap().text.to_string(), model)
}

#[tokio::test(start_paused = true)]
async fn sub_agents_work_on_their_tasks_and_the_answer_follows_from_their_results() {
    let task = |agent: &str| json!({ "agent": agent, "task": "The price?" });
    // `rm` is not a sub-agent, so it is not called.
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

/// An agent that gives each sub-agent of the family its task, and takes an offer.
fn with_family(family: &Family) -> AgentBuilder {
    let reply = |request: &loopwright_core::model::ChatRequest| {
        let task = |name| json!({ "agent": name, "task": family::TASK });
        let tasks = json!({ "tasks": NAMES.map(task) }).to_string();
        let text = if request.output.is_some() { &tasks } else { "I take it." };
        Script::text(text).usage(Usage::new(100, 10))
    };
    let pattern = Orchestrate::new(NAMES, PiPattern);
    let agent = GenericAgent::builder(ScriptedModel::new([]).reply_with(reply), pattern);
    NAMES.iter().fold(agent, |agent, name| agent.child(*name, "Offers lamps.", family.child(name)))
}

#[tokio::test(start_paused = true)]
async fn approvals_of_sub_agents_are_decided_at_the_root() {
    let texts = family::run_with_approvals(with_family, 2).await;
    assert_eq!(texts.last().unwrap(), "I take it.");
}

/// C195: After a crash at every pair of cuts of the logs of the root and of a sub-agent, the result
/// is the same.
#[tokio::test(start_paused = true)]
async fn it_survives_a_crash_at_every_pair_of_cuts() {
    family::assert_survives_crashes(with_family).await;
}

/// C177
#[tokio::test(start_paused = true)]
async fn it_is_recorded_with_its_sub_agents() {
    family::assert_is_recorded(with_family).await;
}
