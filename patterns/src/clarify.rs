//! [`Clarify`]: unclear requests are cleared up with the user before another pattern answers.

use std::collections::BTreeSet;

use async_trait::async_trait;
use loopwright_core::message::UserMessage;
use loopwright_core::session::Profile;
use loopwright_core::tool::Question;
use loopwright_core::{Ask, BehaviorPattern, StepContext, StepEnd, StepError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A pattern that asks the user back while a request is unclear, then lets another pattern answer
/// it.
///
/// ```text
/// take_input ─▶ is it clear? ── yes, or no rounds left ─▶ then ─▶ done
///                  ▲    │ no
///                  │    ▼
///                  └── ask the user
/// ```
///
/// A detached request decides whether the request is clear. A question is a pending action: any
/// front end can answer it, even days later and from another process, and the model sees it with
/// its answer. It is a choice if the model gives several options, and a text otherwise. If the user
/// declines to answer, or steers, the request is answered unchanged. Another request is checked
/// separately.
///
/// From: "ask clarifying questions", as in OpenAI's *Deep Research* and in Rao and Daumé III,
/// *Learning to Ask Good Questions*, 2018.
///
/// **Use it** where work on the wrong request is expensive. **Do not use it** in a chat with a
/// capable model: give the model the tool [`AskUser`](loopwright_core::tool::AskUser), so that it
/// can ask whenever something is unclear.
///
/// ```
/// use loopwright_core::event::{Decision, Provided};
/// use loopwright_core::testing::{Harness, Script};
/// use loopwright_patterns::{Clarify, PiPattern};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let replies = [
///     r#"{"question": "For how many people?", "options": []}"#,
///     r#"{"question": null, "options": []}"#,
///     "A table for two is booked.",
/// ];
/// let harness = Harness::new(Clarify::new(PiPattern), replies.map(Script::text), |a| a).await;
/// harness.handle.prompt("Book a table.").await.unwrap();
/// assert_eq!(harness.pending().await[0].question().unwrap().question, "For how many people?");
/// harness.resolve(0, Decision::Provide(Provided::Input("two".into()))).await.unwrap();
/// harness.handle.wait_for_idle().await;
/// assert_eq!(harness.transcript().await.last().unwrap(), "A:A table for two is booked./Stop");
/// # }
/// ```
#[derive(Clone)]
pub struct Clarify<P> {
    rounds: usize,
    checker: Profile,
    then: P,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Check {
    /// The question to the user, or null if the request is clear.
    question: Option<String>,
    /// Answers to choose from, or none if any text is an answer.
    options: Vec<String>,
}

impl<P: BehaviorPattern> Clarify<P> {
    /// Creates a pattern that asks the user at most three times before `then` answers.
    pub fn new(then: P) -> Self {
        Clarify { rounds: 3, checker: Profile::new(), then }
    }

    /// Sets the maximum number of questions for a request.
    pub fn rounds(mut self, rounds: usize) -> Self {
        self.rounds = rounds;
        self
    }

    /// Sets the profile of the request that decides whether anything is unclear. Defaults to the
    /// agent's own model and prompt.
    pub fn checker(mut self, checker: Profile) -> Self {
        self.checker = checker;
        self
    }
}

#[async_trait]
impl<P: BehaviorPattern> BehaviorPattern for Clarify<P> {
    fn inner(&self) -> Option<&dyn BehaviorPattern> {
        Some(&self.then)
    }

    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        let mut checks: Vec<Check> = step.state("clarify").unwrap_or_default();
        loop {
            if let Some(Check { question, options }) = checks.last() {
                let Some(question) = question else { break }; // it is clear
                let options: BTreeSet<&String> = options.iter().collect();
                let question = match options.len() {
                    0 | 1 => Question::text(question),
                    _ => Question::choice(question, options),
                };
                let key = format!("clarify-{}", checks.len());
                if step.question(&key, question.shown()).await?.answer()?.is_none() {
                    break;
                }
            }
            if checks.len() == self.rounds {
                break;
            }
            let text = "Is something unclear that only the user can say? Then ask for it.";
            let ask = Ask::detached().profile(&self.checker).key("clarify");
            checks.push(step.ask_for(ask.also(UserMessage::from(text))).await?);
            step.set_state("clarify", &checks)?;
        }
        self.then.next_step(step).await
    }
}
