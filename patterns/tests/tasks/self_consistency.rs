//! Task 1: self-consistency. The model is asked several times at once, and the most frequent answer
//! wins.

// [pattern]
use loopwright_core::message::AssistantMessage;
use loopwright_core::{Ask, BehaviorPattern, StepContext, StepEnd, StepError, async_trait};

#[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
struct Sample {
    /// The reasoning, step by step.
    reasoning: String,
    /// The answer alone.
    value: String,
}

struct SelfConsistency {
    samples: usize,
}

#[async_trait]
impl BehaviorPattern for SelfConsistency {
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
            let ask = |n| Ask::detached().key(format!("sample-{n}")).temperature(0.9);
            let all: Vec<Sample> = step.ask_for_all((0..self.samples).map(ask)).await?;
            let best = all.iter().max_by_key(|a| all.iter().filter(|b| b.value == a.value).count());
            step.remember(AssistantMessage::from(best.map_or("", |sample| &sample.value))).await?;
            // [/essential]
        }
    }
}
// [/pattern]

use loopwright_core::log::LogEntry;
use loopwright_core::testing::{Harness, Script, ScriptedSession};
use serde_json::json;

use crate::kit::{assert_conforms, assert_survives_crashes, scenario, scenarios_without_calls};

fn pattern() -> SelfConsistency {
    SelfConsistency { samples: 3 }
}

fn replies() -> [Script; 3] {
    ["4", "5", "4"].map(|answer| Script::text(&sample(answer)))
}

fn sample(answer: &str) -> String {
    json!({ "reasoning": "2 and 2", "value": answer }).to_string()
}

#[tokio::test(start_paused = true)]
async fn the_most_frequent_answer_is_the_answer() {
    let harness = Harness::new(pattern(), replies(), |agent| agent).await;
    assert_eq!(harness.handle.prompt("2 + 2?").await.unwrap().text, "4");
    assert_eq!(harness.transcript().await, ["U:2 + 2?", "A:4/Stop"]);
    let requests = harness.model.requests();
    assert_eq!(requests.len(), 3);
    assert!(requests.iter().all(|request| request.temperature == Some(0.9)));
    harness.check().await;
}

/// Votes are paid for once: after a crash behind the first one, only two are requested.
#[tokio::test(start_paused = true)]
async fn a_vote_in_the_log_is_not_requested_once_more() {
    let first = Harness::new(pattern(), replies(), |agent| agent).await;
    first.handle.prompt("2 + 2?").await.unwrap();
    let mut log = first.memory.entries();
    let voted = log.iter().position(|entry| matches!(entry, LogEntry::Detached { .. })).unwrap();
    log.truncate(voted + 1);
    let fresh = Harness::new(pattern(), ["6", "6"].map(|a| Script::text(&sample(a))), |a| a).await;
    let harness = fresh.restart_from(log).await;
    assert_eq!(harness.handle.continue_run().await.unwrap().text, "6");
    assert_eq!(harness.model.requests().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn it_conforms() {
    let value = |_: &_| json!({ "reasoning": "", "value": "4" });
    let replies = || replies().into_iter().chain(replies());
    let votes = scenario("votes", value).request("2 + 2?").request("And again?");
    let all = scenarios_without_calls(value).into_iter().chain([votes]).collect();
    assert_conforms(pattern, all).await;
    let two = ScriptedSession::new(replies()).request("2 + 2?").request("And again?");
    assert_survives_crashes(pattern, two).await;
}

/// C177
#[tokio::test(start_paused = true)]
async fn it_is_recorded() {
    let replies = replies().into_iter().chain(replies());
    crate::cassettes::assert_is_recorded(pattern, replies, &["2 + 2?", "And again?"]).await;
}
