//! Task 5: a judge and rounds. A second model judges each answer of another pattern, and asks for a
//! better one.

// [pattern]
use loopwright_core::message::UserMessage;
use loopwright_core::{Ask, BehaviorPattern, StepContext, StepEnd, StepError, async_trait};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Verdict {
    is_good: bool,
    reason: String,
}

struct Judged<P> {
    writer: P,
    rounds: u32,
    rubric: &'static str,
}

#[async_trait]
impl<P: BehaviorPattern> BehaviorPattern for Judged<P> {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        // [essential]
        loop {
            let end = self.writer.next_step(step).await?;
            let round: u32 = step.state("round").unwrap_or(0);
            if end != StepEnd::Done || round == self.rounds || !step.is_answered() {
                return Ok(end);
            }
            let judge = Ask::detached().model("judge").key("verdict");
            let judge = judge.also(UserMessage::from(self.rubric));
            let Verdict { is_good, reason } = step.ask_for(judge).await?;
            if step.has_messages() {
                continue; // the writer answers them
            }
            if is_good {
                return Ok(StepEnd::Done);
            }
            step.set_state("round", round + 1)?;
            step.remember(UserMessage::from(format!("Not yet: {reason} Improve it."))).await?;
        }
        // [/essential]
    }
}
// [/pattern]

use loopwright_core::message::MessageKind;
use loopwright_core::model::ChatRequest;
use loopwright_core::testing::{Harness, Script, ScriptedModel, ScriptedSession};
use loopwright_patterns::PiPattern;
use serde_json::{Value, json};

use crate::kit::{assert_conforms, assert_survives_crashes, scenario, scenarios};

fn pattern() -> Judged<PiPattern> {
    Judged { writer: PiPattern, rounds: 2, rubric: "Is the last answer long enough?" }
}

fn verdict(is_good: bool) -> Script {
    Script::text(&json!({ "is_good": is_good, "reason": "too short." }).to_string())
}

/// Rejects every answer, except answers to a request for a better one.
fn judge(request: &ChatRequest) -> Value {
    let messages = request.messages.iter().rev();
    let mut of_user = messages.filter(|m| matches!(m.body, MessageKind::User(_)));
    let answered = of_user.nth(1).map(|message| message.text());
    json!({ "is_good": answered.is_some_and(|text| text.contains("Not yet")), "reason": "No." })
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_improved_until_it_is_good() {
    let judge = ScriptedModel::new([verdict(false), verdict(true)]);
    let named = judge.clone();
    let drafts = ["A draft.", "A longer draft."].map(Script::text);
    let harness = Harness::new(pattern(), drafts, |a| a.model_named("judge", named)).await;
    assert_eq!(harness.handle.prompt("Write.").await.unwrap().text, "A longer draft.");
    let expected = [
        "U:Write.",
        "A:A draft./Stop",
        "U:Not yet: too short. Improve it.",
        "A:A longer draft./Stop",
    ];
    assert_eq!(harness.transcript().await, expected);
    assert_eq!(judge.requests().len(), 2);
    harness.check().await;
}

#[tokio::test(start_paused = true)]
async fn the_rounds_are_bounded() {
    let judge = ScriptedModel::new([]).default_reply(verdict(false));
    let named = judge.clone();
    let drafts = ["One.", "Two.", "Three."].map(Script::text);
    let harness = Harness::new(pattern(), drafts, |a| a.model_named("judge", named)).await;
    assert_eq!(harness.handle.prompt("Write.").await.unwrap().text, "Three.");
    assert_eq!(judge.requests().len(), 2);
}

/// The rounds of an aborted request do not count for the next one.
#[tokio::test(start_paused = true)]
async fn it_conforms() {
    let own = scenario("rounds", judge).request("Write.").request("Write more.");
    assert_conforms(pattern, scenarios(judge).into_iter().chain([own]).collect()).await;
    let replies = [
        Script::text("A draft."),
        verdict(false),
        Script::text("Longer."),
        verdict(false),
        Script::text("Longest."),
        Script::text("Another."),
        verdict(true),
    ];
    let two = ScriptedSession::new(replies).request("Write.").request("Write more.");
    assert_survives_crashes(pattern, two).await;
}

/// C177
#[tokio::test(start_paused = true)]
async fn it_is_recorded() {
    let draft = |text| Script::text(text);
    let replies = [draft("One."), verdict(false), draft("Two."), verdict(true)];
    crate::cassettes::assert_is_recorded(pattern, replies, &["Write."]).await;
}
