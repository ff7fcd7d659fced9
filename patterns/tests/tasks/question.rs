//! Task 10, first form: the pattern asks the user, then another pattern answers.

// [pattern]
use loopwright_core::tool::Question;
use loopwright_core::{BehaviorPattern, StepContext, StepEnd, StepError, async_trait};

struct Painter<P>(P);

#[async_trait]
impl<P: BehaviorPattern> BehaviorPattern for Painter<P> {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        // [essential]
        step.question("q", Question::choice("Which?", ["red", "blue"]).shown()).await?.answer()?;
        // [/essential]
        self.0.next_step(step).await
    }
}
// [/pattern]

use loopwright_core::event::{Decision, Provided, RunStatus};
use loopwright_core::testing::{Harness, Script, ScriptedSession};
use loopwright_patterns::{PiPattern, conformance};
use serde_json::json;

use crate::kit::{assert_conforms, assert_survives_crashes};

fn blue() -> Decision {
    Decision::Provide(Provided::Input(json!("blue")))
}

/// The question needs no request and survives a restart, and the model sees the answer.
#[tokio::test(start_paused = true)]
async fn the_pattern_asks_and_continues_with_the_answer() {
    let harness = Harness::new(Painter(PiPattern), [Script::text("Blue it is.")], |a| a).await;
    let outcome = harness.handle.prompt("Paint it.").await.unwrap();
    assert_eq!((outcome.end, harness.model.requests().len()), (RunStatus::AwaitingAction, 0));
    let harness = harness.restart().await;
    assert_eq!(harness.pending().await[0].question().unwrap().question, "Which?");
    harness.resolve(0, blue()).await.unwrap();
    harness.handle.wait_for_idle().await;
    let expected = ["U:Paint it.", "A:[ask_user]/ToolCalls", "R:ask_user/Ok", "A:Blue it is./Stop"];
    assert_eq!(harness.transcript().await, expected);
    let seen = &harness.model.requests()[0].messages;
    assert!(seen.last().unwrap().text().contains("blue"));
    harness.check().await;
}

/// A message instead of an answer supersedes the question.
#[tokio::test(start_paused = true)]
async fn another_message_is_answered_instead() {
    let harness = Harness::new(Painter(PiPattern), [Script::text("Fine.")], |a| a).await;
    harness.handle.prompt("Paint it.").await.unwrap();
    harness.handle.steer("Leave it as it is.").await.unwrap();
    harness.handle.wait_for_idle().await;
    assert_eq!(harness.transcript().await.last().unwrap(), "A:Fine./Stop");
    assert_eq!(harness.pending().await.len(), 0);
    harness.check().await;
}

#[tokio::test(start_paused = true)]
async fn it_conforms() {
    assert_conforms(|| Painter(PiPattern), conformance::scenarios()).await;
    let replies = ["Blue it is.", "Red it is."].map(Script::text);
    let two = ScriptedSession::new(replies).request("Paint it.").request("And the door.");
    assert_survives_crashes(|| Painter(PiPattern), two.decisions(|_| blue())).await;
}

/// C177
#[tokio::test(start_paused = true)]
async fn it_is_recorded() {
    crate::cassettes::assert_is_recorded(
        || Painter(PiPattern),
        [Script::text("Blue it is.")],
        &["Paint."],
    )
    .await;
}
