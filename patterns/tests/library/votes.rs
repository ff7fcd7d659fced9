//! Patterns that answer with a value: samples, ensembles, extraction.

use loopwright_core::message::MessageKind;
use loopwright_core::testing::{Harness, Script, ScriptedModel};
use loopwright_patterns::{Ensemble, Extract, SelfConsistency};
use serde_json::json;

use crate::kit::{assert_conforms, scenario, scenarios_without_calls};
use crate::values::value;

#[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
struct Person {
    name: String,
    age: u8,
}

fn opinion(answer: &str) -> Script {
    Script::text(&json!({ "answer": answer }).to_string())
}

#[tokio::test(start_paused = true)]
async fn samples_are_taken_with_a_temperature_and_answer_follow_ups() {
    let sample = |answer: &str| json!({ "reasoning": "", "answer": answer }).to_string();
    let replies = ["4", "5", "4", "9", "9", "8"].map(|answer| Script::text(&sample(answer)));
    let pattern = SelfConsistency::new(3).temperature(0.5);
    let harness = Harness::new(pattern, replies, |agent| agent).await;
    assert_eq!(harness.handle.prompt("2 + 2?").await.unwrap().text, "4");
    assert_eq!(harness.handle.prompt("3 * 3?").await.unwrap().text, "9");
    assert!(harness.model.requests().iter().all(|request| request.temperature == Some(0.5)));
    assert_eq!(harness.transcript().await, ["U:2 + 2?", "A:4/Stop", "U:3 * 3?", "A:9/Stop"]);
    harness.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_judge_writes_the_answer_from_those_of_the_models() {
    let judge = ScriptedModel::new([opinion("Both.")]);
    let named = judge.clone();
    let harness = Harness::new(Ensemble::new(["a", "b"]).judge("judge"), [], |agent| {
        agent
            .model_named("a", ScriptedModel::new([opinion("One.")]))
            .model_named("b", ScriptedModel::new([opinion("Two.")]))
            .model_named("judge", named)
    });
    let harness = harness.await;
    assert_eq!(harness.handle.prompt("Which?").await.unwrap().text, "Both.");
    let asked = judge.requests()[0].messages.last().unwrap().text();
    assert!(asked.contains("One.") && asked.contains("Two."), "{asked}");
    harness.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_value_that_does_not_fit_is_sent_back_and_the_conversation_has_the_value_only() {
    let replies = [r#"{"name": "Ada"}"#, "```json\n{\"name\": \"Ada\", \"age\": 36}\n```"];
    let pattern = Extract::<Person>::with_instruction("Who is it?");
    let harness = Harness::new(pattern, replies.map(Script::text), |agent| agent).await;
    let outcome = harness.handle.prompt("Ada Lovelace, 36.").await.unwrap();
    let person: Person = serde_json::from_str(&outcome.text).unwrap();
    assert_eq!((&*person.name, person.age), ("Ada", 36));
    assert_eq!(harness.transcript().await[1], r#"A:{"name":"Ada","age":36}/Stop"#);
    let messages = &harness.model.requests()[0].messages;
    let last = messages.last().map(|message| (message.text(), message.body.clone()));
    assert!(matches!(last, Some((text, MessageKind::User(_))) if text == "Who is it?"));
    harness.check().await;
}

#[tokio::test(start_paused = true)]
async fn they_conform() {
    let two = || scenario("two requests", value).request("2 + 2?").request("And again?");
    let all = || scenarios_without_calls(value).into_iter().chain([two()]).collect();
    assert_conforms(|| SelfConsistency::new(3), all()).await;
    assert_conforms(|| Ensemble::new(["a", "b", "c"]), all()).await;
    assert_conforms(|| Ensemble::new(["a", "b"]).judge("judge"), all()).await;
    assert_conforms(Extract::<Person>::new, all()).await;
}
