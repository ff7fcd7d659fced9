//! [`Reflect`]: a judge checks the answer of another pattern, which improves it in rounds.

use async_trait::async_trait;
use loopwright_core::message::UserMessage;
use loopwright_core::session::Profile;
use loopwright_core::{Ask, BehaviorPattern, StepContext, StepEnd, StepError};
use schemars::JsonSchema;
use serde::Deserialize;

/// A pattern with a judge that checks each answer of another pattern, and sends it back with a
/// reason until it is good or the rounds are used up.
///
/// ```text
/// then ─▶ judge ── good, or no rounds left ─▶ done
///   ▲       │ not yet
///   └── the reason
/// ```
///
/// The judge is a detached request with a rubric. Its verdict and the number of the round are in
/// the log, so that a crash does not repeat a judgement. Messages that the user sends while the
/// judge works are answered first.
///
/// From: Shinn et al., *Reflexion*, 2023; Madaan et al., *Self-Refine*, 2023; "evaluator-optimizer"
/// in Anthropic's *Building effective agents*, 2024.
///
/// **Use it** where the quality of an answer is easier to judge than to produce, and a rubric can
/// define a good answer. **Do not use it** where a test can decide: give the agent a tool that runs
/// the test.
///
/// ```
/// use loopwright_core::testing::{Script, ScriptedModel};
/// use loopwright_core::{GenericAgent, RunContext};
/// use loopwright_patterns::{PiPattern, Reflect};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = ScriptedModel::new([
///     Script::text("Roses are red."),
///     Script::text(r#"{"is_good": false, "reason": "It has one line."}"#),
///     Script::text("Roses are red,\nviolets are blue."),
///     Script::text(r#"{"is_good": true, "reason": "It has two lines."}"#),
/// ]);
/// let pattern = Reflect::new("A poem has two lines.", PiPattern).rounds(2);
/// let agent = GenericAgent::builder(model, pattern).build()?;
/// let handle = agent.session().await?;
/// assert_eq!(handle.prompt("A poem?").await?.text, "Roses are red,\nviolets are blue.");
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Reflect<P> {
    rubric: String,
    rounds: u32,
    judge: Profile,
    then: P,
}

#[derive(Deserialize, JsonSchema)]
struct Verdict {
    /// `true` if the answer can stay as it is.
    is_good: bool,
    /// The points to improve.
    reason: String,
}

impl<P: BehaviorPattern> Reflect<P> {
    /// Creates a pattern that judges the answers of `then` by a rubric, with at most two rounds.
    pub fn new(rubric: impl Into<String>, then: P) -> Self {
        Reflect { rubric: rubric.into(), rounds: 2, judge: Profile::new(), then }
    }

    /// Sets the maximum number of times that an answer is sent back.
    pub fn rounds(mut self, rounds: u32) -> Self {
        self.rounds = rounds;
        self
    }

    /// Sets the profile of the judge. Defaults to the agent's own model and prompt.
    pub fn judge(mut self, judge: Profile) -> Self {
        self.judge = judge;
        self
    }
}

#[async_trait]
impl<P: BehaviorPattern> BehaviorPattern for Reflect<P> {
    fn inner(&self) -> Option<&dyn BehaviorPattern> {
        Some(&self.then)
    }

    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        loop {
            let end = self.then.next_step(step).await?;
            let round: u32 = step.state("reflect").unwrap_or(0);
            if end != StepEnd::Done || round == self.rounds || step.last_reply().is_none() {
                return Ok(end);
            }
            let text = format!("Judge the last answer. {}", self.rubric);
            let ask = Ask::detached().profile(&self.judge).key("reflect");
            let verdict: Verdict = step.ask_for(ask.also(UserMessage::from(text))).await?;
            if step.has_messages() {
                continue; // the other pattern answers them
            }
            if verdict.is_good {
                return Ok(StepEnd::Done);
            }
            step.set_state("reflect", round + 1)?;
            let text = format!("The answer is not good enough yet: {} Improve it.", verdict.reason);
            step.remember(UserMessage::from(text)).await?;
        }
    }
}
