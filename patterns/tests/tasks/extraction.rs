//! Task 11: a Rust value is extracted from a text. A reply that does not fit is sent back with its
//! mistakes; the conversation gets only the value.

// [pattern]
use loopwright_core::message::{AssistantMessage, UserMessage};
use loopwright_core::{Ask, BehaviorPattern, StepContext, StepEnd, StepError, async_trait};

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
struct Person {
    name: String,
    age: u8,
}

struct Extract {
    text: &'static str,
}

#[async_trait]
impl BehaviorPattern for Extract {
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
            let ask = Ask::detached().key("person").also(UserMessage::from(self.text));
            let Person { name, age } = step.ask_for(ask).await?;
            // [/essential]
            step.remember(AssistantMessage::from(format!("{name}, {age}"))).await?;
        }
    }
}
// [/pattern]

use loopwright_core::event::RunStatus;
use loopwright_core::testing::{Harness, Script, ScriptedSession};
use loopwright_patterns::PiPattern;
use serde_json::json;

use crate::kit::{assert_conforms, assert_survives_crashes, scenario, scenarios_without_calls};

fn pattern() -> Extract {
    Extract { text: "Ada Lovelace died at thirty-six." }
}

fn replies() -> [Script; 3] {
    [r#"{"name": "Ada"}"#, "36", r#"{"name": "Ada", "age": 36}"#].map(Script::text)
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_does_not_fit_is_sent_back_with_the_reason() {
    let harness = Harness::new(pattern(), replies(), |agent| agent).await;
    assert_eq!(harness.handle.prompt("Who?").await.unwrap().text, "Ada, 36");
    assert_eq!(harness.transcript().await, ["U:Who?", "A:Ada, 36/Stop"]);
    let last = harness.model.requests().pop().unwrap();
    let texts: Vec<String> = last.messages.iter().map(|message| message.text()).collect();
    assert_eq!(texts[..3], ["Who?", pattern().text, r#"{"name": "Ada"}"#]);
    assert!(texts[3].contains("/age: is required, but missing"), "{}", texts[3]);
    assert_eq!(texts.len(), 6);
    harness.check().await;
}

#[tokio::test(start_paused = true)]
async fn the_retries_are_bounded() {
    let harness = Harness::new(pattern(), ["1", "2", "3"].map(Script::text), |agent| agent).await;
    let outcome = harness.handle.prompt("Who?").await.unwrap();
    assert_eq!((outcome.end, harness.model.requests().len()), (RunStatus::Error, 3));
    assert!(outcome.error.unwrap().contains("the answer does not fit the output schema"));
}

/// An agent needs one option to answer the user with a value.
#[tokio::test(start_paused = true)]
async fn the_answer_of_an_agent_can_be_a_value() {
    let harness = Harness::new(PiPattern, replies(), |agent| agent.output::<Person>()).await;
    let person: Person = harness.handle.prompt("Who?").await.unwrap().output().unwrap();
    assert_eq!((&*person.name, person.age), ("Ada", 36));
}

#[tokio::test(start_paused = true)]
async fn it_conforms() {
    let value = |_: &_| json!({ "name": "Ada", "age": 36 });
    let two = scenario("two values", value).request("Who?").request("And who?");
    assert_conforms(pattern, scenarios_without_calls(value).into_iter().chain([two]).collect())
        .await;
    let two = ScriptedSession::new(replies().into_iter().chain(replies()))
        .request("Who?")
        .request("Who?");
    assert_survives_crashes(pattern, two).await;
}

/// C177
#[tokio::test(start_paused = true)]
async fn it_is_recorded() {
    crate::cassettes::assert_is_recorded(pattern, replies(), &["Who?"]).await;
}
