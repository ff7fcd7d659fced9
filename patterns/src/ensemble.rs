//! [`Ensemble`]: several models answer at the same time, and they vote or one of them decides.

use async_trait::async_trait;
use loopwright_core::message::{AssistantMessage, UserMessage};
use loopwright_core::{Ask, BehaviorPattern, StepContext, StepEnd, StepError};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::vote::most_frequent;

/// A pattern that asks several models at once and answers with the most frequent answer, or with a
/// judge's conclusion from all answers.
///
/// ```text
///              ┌─▶ model a ─┐
/// take_input ──┼─▶ model b ─┼─▶ vote or judge ─▶ remember the answer ─▶ messages? ── no ─▶ done
///      ▲       └─▶ model c ─┘                                             │ yes
///      └──────────────────────────────────────────────────────────────────┘
/// ```
///
/// The models are the agent's named ones
/// ([`AgentBuilder::model_named`](loopwright_core::AgentBuilder::model_named)). Each answers in a
/// detached request, which counts against the agent's budgets and is in the log under a key, so
/// that a crash does not pay for any request twice. Answers count as equal if they differ only in
/// case and in white space at the ends. The answer does not stream. The agent's own model is not
/// asked. An unknown name ends the run with an error.
///
/// From: majority voting of ensembles; with a judge, Wang et al., *Mixture-of-Agents Enhances Large
/// Language Model Capabilities*, 2024.
///
/// **Use it** where one model is not reliable enough: with a vote for short answers, with a judge
/// for free text. **Do not use it** where one good model is: it costs as much as all models
/// together, and the models have no tools.
///
/// ```
/// use loopwright_core::testing::{Script, ScriptedModel};
/// use loopwright_core::{GenericAgent, RunContext};
/// use loopwright_patterns::Ensemble;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = |answer: &str| {
///     ScriptedModel::new([Script::text(&format!(r#"{{"answer": "{answer}"}}"#))])
/// };
/// let agent = GenericAgent::builder(model("?"), Ensemble::new(["a", "b", "c"]))
///     .model_named("a", model("spam"))
///     .model_named("b", model("ham"))
///     .model_named("c", model("spam"))
///     .build()?;
/// let handle = agent.session().await?;
/// assert_eq!(handle.prompt("You have won! Spam or ham?").await?.text, "spam");
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Ensemble {
    models: Vec<String>,
    judge: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct Opinion {
    /// The answer to the user.
    answer: String,
}

impl Ensemble {
    /// Creates a pattern that asks the models of these names. They vote.
    pub fn new<S: Into<String>>(models: impl IntoIterator<Item = S>) -> Self {
        Ensemble { models: models.into_iter().map(Into::into).collect(), judge: None }
    }

    /// Lets the model of this name write the answer from all answers, instead of a vote.
    pub fn judge(mut self, model: impl Into<String>) -> Self {
        self.judge = Some(model.into());
        self
    }
}

#[async_trait]
impl BehaviorPattern for Ensemble {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        while !step.all_answered().await? {
            let ask = |(n, name)| Ask::detached().model(name).key(format!("ensemble-{n}"));
            let asks = self.models.iter().enumerate().map(ask);
            let opinions: Vec<Opinion> = step.ask_for_all(asks).await?;
            let answers: Vec<String> = opinions.into_iter().map(|one| one.answer).collect();
            let best = match &self.judge {
                None => most_frequent(&answers).unwrap_or_default().to_owned(),
                Some(judge) => {
                    let all = answers.join("\n\n---\n\n");
                    let text = format!("Write the best answer. These were proposed:\n\n{all}");
                    let ask = Ask::detached().model(judge).key("ensemble-judge");
                    step.ask_for::<Opinion>(ask.also(UserMessage::from(text))).await?.answer
                }
            };
            step.remember(AssistantMessage::from(best)).await?;
        }
        Ok(StepEnd::Done)
    }
}
