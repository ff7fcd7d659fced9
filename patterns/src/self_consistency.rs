//! [`SelfConsistency`]: several samples at the same time; the most frequent answer wins.

use async_trait::async_trait;
use loopwright_core::message::AssistantMessage;
use loopwright_core::{Ask, BehaviorPattern, StepContext, StepEnd, StepError};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::vote::most_frequent;

/// A pattern that asks the model several times at once and answers with the most frequent answer.
///
/// ```text
///              ┌─▶ sample 1 ─┐
/// take_input ──┼─▶ sample 2 ─┼─▶ vote ─▶ remember the answer ─▶ messages? ── no ─▶ done
///      ▲       └─▶ sample 3 ─┘                                     │ yes
///      └───────────────────────────────────────────────────────────┘
/// ```
///
/// Each sample is a detached request for the reasoning and the answer; the conversation gets the
/// winning answer. Answers count as equal if they differ only in case and in white space at the
/// ends. The samples are in the log under keys, so that a crash does not pay for any sample twice.
/// The answer does not stream.
///
/// From: Wang et al., *Self-Consistency Improves Chain of Thought Reasoning in Language Models*,
/// 2022.
///
/// **Use it** where an answer is short and either right or wrong: a number, a label, a choice.
/// **Do not use it** for free text, where no two samples are equal, or where tools are needed: the
/// samples cannot call any.
///
/// ```
/// use loopwright_core::testing::{Script, ScriptedModel};
/// use loopwright_core::{GenericAgent, RunContext};
/// use loopwright_patterns::SelfConsistency;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let samples = ["41", "42", "42"].map(|answer| {
///     Script::text(&format!(r#"{{"reasoning": "6 times 7", "answer": "{answer}"}}"#))
/// });
/// let model = ScriptedModel::new(samples);
/// let agent = GenericAgent::builder(model, SelfConsistency::new(3)).build()?;
/// let handle = agent.session().await?;
/// assert_eq!(handle.prompt("What is 6 times 7?").await?.text, "42");
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct SelfConsistency {
    samples: usize,
    temperature: f32,
}

#[derive(Deserialize, JsonSchema)]
struct Sample {
    /// The reasoning, step by step.
    #[serde(rename = "reasoning")]
    _reasoning: String,
    /// The answer alone.
    answer: String,
}

impl SelfConsistency {
    /// Creates a pattern that takes this many samples, at least one.
    pub fn new(samples: usize) -> Self {
        SelfConsistency { samples: samples.max(1), temperature: 0.8 }
    }

    /// Sets the sampling temperature. Defaults to 0.8. Models without a temperature ignore it.
    pub fn temperature(mut self, temperature: f32) -> Self {
        self.temperature = temperature;
        self
    }
}

#[async_trait]
impl BehaviorPattern for SelfConsistency {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        while !step.all_answered().await? {
            let ask = |n| {
                Ask::detached().key(format!("self_consistency-{n}")).temperature(self.temperature)
            };
            let samples: Vec<Sample> = step.ask_for_all((1..=self.samples).map(ask)).await?;
            let answers: Vec<String> = samples.into_iter().map(|sample| sample.answer).collect();
            let best = most_frequent(&answers).unwrap_or_default();
            step.remember(AssistantMessage::from(best)).await?;
        }
        Ok(StepEnd::Done)
    }
}
