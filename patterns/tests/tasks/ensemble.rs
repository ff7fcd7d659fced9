//! Task 9: an ensemble. Several models are asked at the same time, and the majority wins.

// [pattern]
use loopwright_core::message::AssistantMessage;
use loopwright_core::{Ask, BehaviorPattern, StepContext, StepEnd, StepError, async_trait};

#[derive(PartialEq, serde::Deserialize, schemars::JsonSchema)]
struct Vote {
    answer: String,
}

struct Ensemble([&'static str; 3]);

#[async_trait]
impl BehaviorPattern for Ensemble {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        loop {
            if step.is_answered() {
                step.take_messages().await?;
            }
            if step.is_answered() {
                return Ok(StepEnd::Done);
            }
            // [essential]
            let asks = self.0.map(|model| Ask::detached().model(model).key(model));
            let all: Vec<Vote> = step.ask_for_all(asks).await?;
            let best = all.iter().max_by_key(|v| all.iter().filter(|o| o == v).count());
            step.remember(AssistantMessage::from(best.map_or("", |vote| &vote.answer))).await?;
            // [/essential]
        }
    }
}
// [/pattern]

use std::time::Duration;

use loopwright_core::limits::{Budget, Limit, Resource};
use loopwright_core::message::Usage;
use loopwright_core::testing::{Harness, Script, ScriptedModel, ScriptedSession};
use loopwright_core::{AgentBuilder, model::ChatRequest};
use serde_json::json;
use tokio::time::Instant;

use crate::kit::{assert_conforms, assert_survives_crashes, scenario, scenarios_without_calls};

fn pattern() -> Ensemble {
    Ensemble(["a", "b", "c"])
}

fn vote(answer: &str) -> Script {
    Script::text(&json!({ "answer": answer }).to_string())
}

/// Adds three models. Each takes ten seconds and uses 100 tokens.
fn with_models(agent: AgentBuilder) -> AgentBuilder {
    [("a", "A"), ("b", "B"), ("c", "A")].into_iter().fold(agent, |agent, (name, answer)| {
        let text = json!({ "answer": answer }).to_string();
        let reply = Script::new().wait(Duration::from_secs(10)).say(&text);
        agent.model_named(name, ScriptedModel::new([reply.usage(Usage::new(90, 10))]))
    })
}

#[tokio::test(start_paused = true)]
async fn the_models_answer_at_the_same_time_and_are_counted() {
    let harness = Harness::new(pattern(), [], with_models).await;
    let start = Instant::now();
    let outcome = harness.handle.prompt("Which?").await.unwrap();
    assert_eq!((&*outcome.text, outcome.usage.total()), ("A", 300));
    assert_eq!(start.elapsed(), Duration::from_secs(10));
    assert_eq!(harness.transcript().await, ["U:Which?", "A:A/Stop"]);
    harness.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_limit_is_noticed_before_the_first_request() {
    let limited = |agent| with_models(agent).limits(Budget::default().turns(2));
    let harness = Harness::new(pattern(), [], limited).await;
    assert_eq!(
        harness.handle.prompt("Which?").await.unwrap().limit,
        Some(Limit::Run(Resource::Turns))
    );
}

#[tokio::test(start_paused = true)]
async fn it_conforms() {
    let value = |_: &ChatRequest| json!({ "answer": "A" });
    let votes = scenario("votes", value).request("Which?").request("And then?");
    let all = scenarios_without_calls(value).into_iter().chain([votes]).collect();
    assert_conforms(pattern, all).await;
    let replies = ["A", "B", "A", "C", "C", "B"].map(vote);
    let two = ScriptedSession::new(replies).request("Which?").request("And then?");
    assert_survives_crashes(pattern, two).await;
}

/// C177
#[tokio::test(start_paused = true)]
async fn it_is_recorded() {
    crate::cassettes::assert_is_recorded(pattern, ["A", "B", "A"].map(vote), &["Which?"]).await;
}
