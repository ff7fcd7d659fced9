//! [`Orchestrate`]: a request is divided among sub-agents that work at the same time.

use async_trait::async_trait;
use loopwright_core::message::UserMessage;
use loopwright_core::session::{Call, Profile};
use loopwright_core::{Ask, BehaviorPattern, StepContext, StepEnd, StepError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A pattern that divides each request among sub-agents, which work at the same time, and lets
/// another pattern answer with their results.
///
/// ```text
///                             ┌─▶ sub-agent ─┐
/// take_input ─▶ orchestrator ─┼─▶ sub-agent ─┼─▶ then: answer with the results ─▶ done
///                             └─▶ sub-agent ─┘
/// ```
///
/// The orchestrator is a detached request for a list of tasks, each for one of the agent's named
/// sub-agents ([`AgentBuilder::child`](loopwright_core::AgentBuilder::child)). The tasks are one
/// batch of calls: they survive a crash and share the budgets of the root. Their approvals are
/// decided at the root, each while the others work. Without tasks, `then` answers at once. A task
/// for a name that was not given or is not offered is dropped.
///
/// From: "orchestrator-workers" in Anthropic's *Building effective agents*, 2024.
///
/// **Use it** for research and other work whose parts do not depend on each other.
/// **Do not use it** where one part needs the result of another. Then the model should call the
/// sub-agents itself, one after the other, with [`PiPattern`](crate::PiPattern).
///
/// ```
/// use loopwright_core::testing::{Script, ScriptedModel};
/// use loopwright_core::{GenericAgent, RunContext};
/// use loopwright_patterns::{Orchestrate, PiPattern};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let shop = |price| {
///     GenericAgent::builder(ScriptedModel::new([Script::text(price)]), PiPattern).build()
/// };
/// let tasks = r#"{"tasks": [{"agent": "east", "task": "The price of a lamp?"},
///                           {"agent": "west", "task": "The price of a lamp?"}]}"#;
/// let model = ScriptedModel::new([Script::text(tasks), Script::text("West is cheaper.")]);
/// let agent = GenericAgent::builder(model, Orchestrate::new(["east", "west"], PiPattern))
///     .child("east", "A shop in the east.", shop("30 €")?)
///     .child("west", "A shop in the west.", shop("20 €")?)
///     .build()?;
/// let handle = agent.session().await?;
/// assert_eq!(handle.prompt("Who is cheaper?").await?.text, "West is cheaper.");
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Orchestrate<P> {
    agents: Vec<String>,
    orchestrator: Profile,
    then: P,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Tasks {
    /// The tasks, which are done at the same time. Empty if none is needed.
    tasks: Vec<Task>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Task {
    /// The name of the agent.
    agent: String,
    /// The task, with everything that the agent has to know: it does not see the conversation.
    task: String,
}

impl<P: BehaviorPattern> Orchestrate<P> {
    /// Creates a pattern that divides requests among the sub-agents of these names and answers with
    /// `then`.
    pub fn new<S: Into<String>>(agents: impl IntoIterator<Item = S>, then: P) -> Self {
        let agents = agents.into_iter().map(Into::into).collect();
        Orchestrate { agents, orchestrator: Profile::new(), then }
    }

    /// Sets the profile of the orchestrator. Defaults to the agent's own model and prompt.
    pub fn orchestrator(mut self, orchestrator: Profile) -> Self {
        self.orchestrator = orchestrator;
        self
    }
}

#[async_trait]
impl<P: BehaviorPattern> BehaviorPattern for Orchestrate<P> {
    fn inner(&self) -> Option<&dyn BehaviorPattern> {
        Some(&self.then)
    }

    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        let tasks = match step.state::<Tasks>("orchestrate") {
            Some(tasks) => tasks,
            None => {
                let request = step.context().generate(&Ask::new().tools(&self.agents)).await?;
                let agents = request.tools.iter();
                let agents = agents.map(|spec| format!("\n{}: {}", spec.name, spec.description));
                let agents: String = agents.collect();
                let text = format!("Divide the request among these agents:{agents}");
                let ask = Ask::detached().profile(&self.orchestrator).key("orchestrate");
                let mut tasks: Tasks = step.ask_for(ask.also(UserMessage::from(text))).await?;
                let is_offered = |name: &str| request.tools.iter().any(|spec| *spec.name == *name);
                tasks.tasks.retain(|task| is_offered(&task.agent));
                step.set_state("orchestrate", &tasks)?;
                tasks
            }
        };
        if step.state("orchestrated") != Some(true) {
            let calls =
                tasks.tasks.into_iter().enumerate().map(|(n, one)| {
                    Call::child(one.agent, one.task).key(format!("orchestrate-{n}"))
                });
            step.call_all(calls).await?.ok_or(StepEnd::AwaitingAction)?;
            step.set_state("orchestrated", true)?; // also if a steer skipped some
        }
        self.then.next_step(step).await
    }
}
