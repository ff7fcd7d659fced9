//! [`PlanExecute`]: a planner makes a plan, and a new one after each step.

use async_trait::async_trait;
use loopwright_core::message::UserMessage;
use loopwright_core::session::Profile;
use loopwright_core::{Ask, BehaviorPattern, StepContext, StepEnd, StepError};
use schemars::JsonSchema;
use serde::Deserialize;

/// A pattern that makes a plan, lets another pattern do its first step, and plans again with the
/// result.
///
/// ```text
/// take_input ─▶ plan ── steps are left ─▶ then: do the first step
///                 ▲                              │
///                 └──────────────────────────────┘
///               plan ── no steps are left ─▶ then: sum up ─▶ done
/// ```
///
/// The planner is a detached request with the whole conversation. The plan is a value of the
/// request ([`StepContext::state`], key `plan_execute`), which front ends can show. Messages that
/// the user sends while the planner works are delivered before the next step, and change the plan.
///
/// From: Wang et al., *Plan-and-Solve Prompting*, 2023; LangGraph's *plan-and-execute* with
/// re-planning.
///
/// **Use it** for requests of many steps, where a model loses sight of the goal, or with a strong
/// planner and a cheaper model for the steps. **Do not use it** for short requests: the planner is
/// asked at least twice. If the user should see a plan first, use [`PlanFirst`](crate::PlanFirst).
///
/// ```
/// use loopwright_core::testing::{Script, ScriptedModel};
/// use loopwright_core::{GenericAgent, RunContext};
/// use loopwright_patterns::{PiPattern, PlanExecute};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = ScriptedModel::new([
///     Script::text(r#"{"steps": ["Find the price."]}"#),
///     Script::text("It costs 30 €."),
///     Script::text(r#"{"steps": []}"#),
///     Script::text("A lamp costs 30 €."),
/// ]);
/// let agent = GenericAgent::builder(model, PlanExecute::new(PiPattern)).build()?;
/// let handle = agent.session().await?;
/// assert_eq!(handle.prompt("What does a lamp cost?").await?.text, "A lamp costs 30 €.");
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct PlanExecute<P> {
    planner: Profile,
    then: P,
}

#[derive(Deserialize, JsonSchema)]
struct Plan {
    /// The steps that are left, in order. Empty if the request is done.
    steps: Vec<String>,
}

impl<P: BehaviorPattern> PlanExecute<P> {
    /// Creates a pattern that plans, and does each step with `then`.
    pub fn new(then: P) -> Self {
        PlanExecute { planner: Profile::new(), then }
    }

    /// Sets the profile of the planner. Defaults to the agent's own model and prompt.
    pub fn planner(mut self, planner: Profile) -> Self {
        self.planner = planner;
        self
    }
}

#[async_trait]
impl<P: BehaviorPattern> BehaviorPattern for PlanExecute<P> {
    fn inner(&self) -> Option<&dyn BehaviorPattern> {
        Some(&self.then)
    }

    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        loop {
            if let Some(plan) = step.state::<Vec<String>>("plan_execute") {
                let end = self.then.next_step(step).await?; // the first step of the plan
                if end != StepEnd::Done || plan.is_empty() || step.last_reply().is_none() {
                    return Ok(end);
                }
            }
            let text = "Which steps does the request need from here on? None if it is done.";
            let ask = Ask::detached().profile(&self.planner).key("plan_execute");
            let Plan { steps } = step.ask_for(ask.also(UserMessage::from(text))).await?;
            if step.has_messages() {
                step.take_messages().await?;
                continue; // they may change the plan
            }
            let next = steps.first().map(|next| format!("Now do this step: {next}"));
            let next = next.unwrap_or_else(|| "Answer the request with what came of it.".into());
            step.set_state("plan_execute", &steps)?;
            step.remember(UserMessage::from(next)).await?;
        }
    }
}
