//! [`Handoff`]: roles that hand the conversation over to each other.

use std::sync::Arc;

use async_trait::async_trait;
use loopwright_core::message::{Message, ToolResult};
use loopwright_core::session::Profile;
use loopwright_core::tool::Effect;
use loopwright_core::{
    BehaviorPattern, StepContext, StepEnd, StepError, Tool, ToolContext, ToolError, tool_with,
};
use schemars::JsonSchema;
use serde::Deserialize;

const HAND_OVER: &str = "hand_over";

/// A pattern whose roles hand the conversation over to each other with a tool. The current one
/// answers.
///
/// ```text
/// take_input ─▶ then, as the current role ── hand_over(to)? ── no ─▶ done
///                      ▲                          │ yes
///                      └── the other role ◀───────┘
/// ```
///
/// All roles see the whole conversation. The current role keeps it for the next requests, until it
/// hands it over. The current role follows from the results of `hand_over` in the conversation. So
/// a restart changes nothing, and a rewind returns to the earlier role. The pattern provides the
/// tool `hand_over`, which the tools of a profile must contain ([`Profile::tools`]). If the current
/// role no longer exists, the first one answers.
///
/// From: OpenAI's *Swarm* and *Agents SDK* (handoffs).
///
/// **Use it** where the model in a role finds out that another role should answer.
/// **Do not use it** if a request can be classified at its start ([`Route`](crate::Route)), or if
/// another agent should do some work and report back
/// ([`AgentBuilder::child`](loopwright_core::AgentBuilder::child)).
///
/// ```
/// use loopwright_core::session::Profile;
/// use loopwright_core::testing::{Script, ScriptedModel};
/// use loopwright_core::{GenericAgent, RunContext};
/// use loopwright_patterns::{Handoff, PiPattern};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pattern = Handoff::new(PiPattern)
///     .role("desk", "Answers first.", Profile::new().system("You are the desk."))
///     .role("billing", "Invoices and refunds.", Profile::new().system("You are billing."));
/// let model = ScriptedModel::new([
///     Script::calls([("c1", "hand_over", serde_json::json!({ "to": "billing" }))]),
///     Script::text("You get it back."),
/// ]);
/// let agent = GenericAgent::builder(model.clone(), pattern).build()?;
/// let handle = agent.session().await?;
/// assert_eq!(handle.prompt("I want a refund.").await?.text, "You get it back.");
/// assert_eq!(&*model.requests()[1].system, "You are billing.");
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Handoff<P> {
    roles: Vec<(String, String, Profile)>,
    then: P,
}

#[derive(Deserialize, JsonSchema)]
struct HandOver {
    /// The name of the role that continues.
    to: String,
}

impl<P: BehaviorPattern> Handoff<P> {
    /// Creates a pattern that answers with `then`; [`Handoff::role`] adds the roles.
    pub fn new(then: P) -> Self {
        Handoff { roles: Vec::new(), then }
    }

    /// Adds a role: a name, its purpose, and the profile for `then`. The first role has the
    /// conversation at the start.
    pub fn role(
        mut self,
        name: impl Into<String>,
        description: impl Into<String>,
        profile: Profile,
    ) -> Self {
        self.roles.push((name.into(), description.into(), profile));
        self
    }
}

/// Returns the role to which a message hands the conversation over, if it is such a result.
fn handed_over(message: &Arc<Message>) -> Option<String> {
    let is_hand_over = |result: &&ToolResult| *result.name == *HAND_OVER && !result.is_error();
    message.as_tool_result().filter(is_hand_over).map(ToolResult::text)
}

#[async_trait]
impl<P: BehaviorPattern> BehaviorPattern for Handoff<P> {
    fn inner(&self) -> Option<&dyn BehaviorPattern> {
        Some(&self.then)
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let roles = self.roles.iter().map(|(name, about, _)| format!("\n{name}: {about}"));
        let about: String = roles.collect();
        let names: Vec<String> = self.roles.iter().map(|(name, ..)| name.clone()).collect();
        let hand_over = async |names: Vec<String>, to: HandOver, _cx: ToolContext| {
            if names.contains(&to.to) {
                return Ok(to.to);
            }
            let names = names.join(", ");
            Err(ToolError::failed(format!("There is no role `{}`, only: {names}.", to.to)))
        };
        let about = format!("Hands the conversation over to another role.{about}");
        let tool = tool_with(names, HAND_OVER, &about, hand_over).effect(Effect::ReadOnly);
        self.then.tools().into_iter().chain([Arc::new(tool) as Arc<dyn Tool>]).collect()
    }

    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        let role = |messages: &[Arc<Message>]| {
            let current = messages.iter().rev().find_map(handed_over);
            let role = self.roles.iter().find(|(name, ..)| Some(name) == current.as_ref());
            role.or(self.roles.first()).map(|(_, _, profile)| profile.clone()).unwrap_or_default()
        };
        self.then.next_step(&mut step.with_profile_of(&role)).await
    }
}
