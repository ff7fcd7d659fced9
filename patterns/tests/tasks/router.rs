//! Task 6: a router, and agents that hand the conversation over to each other with a tool.

// [pattern]
use std::collections::BTreeMap;

use loopwright_core::message::UserMessage;
use loopwright_core::session::Profile;
use loopwright_core::tool::Effect;
use loopwright_core::{
    Ask, BehaviorPattern, StepContext, StepEnd, StepError, Tool, ToolError, async_trait, tool_fn,
};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct To {
    /// The name of the agent.
    to: String,
}

fn hand_over() -> impl Tool {
    let name = "hand_over";
    tool_fn(name, "Hands over to another agent.", async |to: To, _| Ok::<_, ToolError>(to.to))
        .effect(Effect::ReadOnly)
}

struct Team(BTreeMap<&'static str, Profile>);

/// Returns the agent that last got the conversation, since the user's request.
fn handed_over(step: &StepContext<'_>) -> Option<String> {
    let request = step.user_request().map(|message| message.id);
    let history = step.history();
    let since = history.iter().rev().take_while(|message| Some(message.id) != request);
    let mut results = since.filter_map(|message| message.as_tool_result());
    results.find(|r| *r.name == *"hand_over" && !r.is_error()).map(|result| result.text())
}

#[async_trait]
impl BehaviorPattern for Team {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        // [essential]
        if step.state::<String>("route").is_none() {
            let names: Vec<&str> = self.0.keys().copied().collect();
            let question = UserMessage::from(format!("Who answers? {}", names.join(", ")));
            let router = Ask::detached().model("router").key("route").also(question);
            let To { to } = step.ask_for(router).await?;
            step.set_state("route", to)?;
        }
        loop {
            step.take_messages().await?;
            let name = handed_over(step).or(step.state("route")).unwrap_or_default();
            let agent = self.0.get(&*name).or(self.0.values().next()).cloned().unwrap_or_default();
            let reply = step.ask_with(Ask::new().profile(&agent)).await?.or_end()?;
            let batch = step.call_tools(&reply).await?.or_end()?;
            if !batch.wants_reply() && !step.has_messages() {
                return Ok(StepEnd::Done);
            }
        }
        // [/essential]
    }
}
// [/pattern]

use loopwright_core::event::Decision;
use loopwright_core::model::ChatRequest;
use loopwright_core::testing::{self, Harness, Script, ScriptedModel, TestTool};
use loopwright_core::{AgentBuilder, GenericAgent};
use serde_json::json;

use crate::kit::{assert_conforms, scenario, scenarios};

fn team() -> Team {
    let sales = Profile::new().system("You sell.").tools(["hand_over"]);
    let billing = Profile::new().system("You bill.").tools([
        "hand_over",
        "refund",
        "look",
        "send",
        "pay",
        "login",
        "finish",
    ]);
    Team(BTreeMap::from([("billing", billing), ("sales", sales)]))
}

fn with_tools(agent: AgentBuilder) -> AgentBuilder {
    agent.tool(hand_over()).tool(TestTool::new("refund").effect(Effect::AtMostOnce))
}

fn replies() -> [Script; 4] {
    [
        Script::text(&json!({ "to": "sales" }).to_string()),
        Script::calls([("h", "hand_over", json!({ "to": "billing" }))]),
        Script::calls([("r", "refund", json!({}))]),
        Script::text("Refunded."),
    ]
}

#[tokio::test(start_paused = true)]
async fn the_agent_with_the_conversation_answers() {
    let [route, rest @ ..] = replies();
    let router = ScriptedModel::new([route]);
    let options = |agent| with_tools(agent).model_named("router", router);
    let harness = Harness::new(team(), rest, options).await;
    harness.handle.prompt("My money back.").await.unwrap();
    harness.resolve(0, Decision::Approve).await.unwrap();
    harness.handle.wait_for_idle().await;
    let expected = [
        "U:My money back.",
        "A:[h]/ToolCalls",
        "R:h/Ok",
        "A:[r]/ToolCalls",
        "R:r/Ok",
        "A:Refunded./Stop",
    ];
    assert_eq!(harness.transcript().await, expected);
    let requests = harness.model.requests();
    let systems: Vec<&str> = requests.iter().map(|request| &*request.system).collect();
    assert_eq!(systems, ["You sell.", "You bill.", "You bill."]);
    let offered = requests[0].tools.iter().map(|tool| tool.name.to_string());
    assert_eq!(offered.collect::<Vec<_>>(), ["hand_over"]);
    harness.check().await;
}

#[tokio::test(start_paused = true)]
async fn it_conforms() {
    let value = |_: &ChatRequest| json!({ "to": "billing" });
    let all = scenarios(value)
        .into_iter()
        .chain([scenario("thanks", value).request("Please pay.").request("Thanks.")]);
    let all = all.map(|scenario| scenario.agent(|agent, _| with_tools(agent)));
    assert_conforms(team, all.collect()).await;
    let agent = |model: ScriptedModel| {
        with_tools(GenericAgent::builder(model.clone(), team()).model_named("router", model))
    };
    let two = testing::ScriptedSession::new(replies().into_iter().chain(replies()))
        .request("My money back.")
        .request("And for the other one.");
    // A crash during the refund makes its outcome unknown, and its result is not compared.
    let report = testing::crash_at_every_append(agent, two).await.unwrap();
    assert_eq!((report.requests, report.calls), (8, 4), "{report}");
}

/// C177
#[tokio::test(start_paused = true)]
async fn it_is_recorded() {
    let agent = |model: ScriptedModel| {
        with_tools(GenericAgent::builder(model.clone(), team()).model_named("router", model))
    };
    crate::cassettes::assert_agent_is_recorded(agent, replies(), &["My money back."]).await;
}
