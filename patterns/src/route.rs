//! [`Route`]: a router chooses the role in which another pattern answers a request.

use async_trait::async_trait;
use loopwright_core::message::UserMessage;
use loopwright_core::session::Profile;
use loopwright_core::{Ask, BehaviorPattern, StepContext, StepEnd, StepError};
use schemars::JsonSchema;
use serde::Deserialize;

/// A pattern that classifies each request of the user and lets another pattern answer it with the
/// profile of its class: another model, prompt, or set of tools.
///
/// ```text
///                       ┌─ billing ─▶ then, as billing ─┐
/// take_input ─▶ router ─┤                               ├─▶ done
///                       └─ support ─▶ then, as support ─┘
/// ```
///
/// The router is a detached request, once for each request of the user, with the names and
/// descriptions of the routes. It has the agent's system prompt, which the profile of a route may
/// replace, unless [`Route::router`] sets another one. Its choice is a value of the request
/// ([`StepContext::state`], key `route`). Messages that the user sends during the run are answered
/// in the same role. If the router names no route, the first one answers, so that should be the
/// most general.
///
/// From: "routing" in Anthropic's *Building effective agents*, 2024.
///
/// **Use it** where requests are of different kinds, and to send easy ones to a cheaper model.
/// **Do not use it** if the role may change within a request: see [`Handoff`](crate::Handoff).
///
/// ```
/// use loopwright_core::session::Profile;
/// use loopwright_core::testing::{Script, ScriptedModel};
/// use loopwright_core::{GenericAgent, RunContext};
/// use loopwright_patterns::{PiPattern, Route};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pattern = Route::new(PiPattern)
///     .to("support", "Something does not work.", Profile::new().system("You help."))
///     .to("billing", "Invoices and refunds.", Profile::new().system("You know the invoices."));
/// let model = ScriptedModel::new([
///     Script::text(r#"{"route": "billing"}"#),
///     Script::text("You paid twice."),
/// ]);
/// let agent = GenericAgent::builder(model.clone(), pattern).build()?;
/// let handle = agent.session().await?;
/// assert_eq!(handle.prompt("Why is my invoice wrong?").await?.text, "You paid twice.");
/// assert_eq!(&*model.requests()[1].system, "You know the invoices.");
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Route<P> {
    routes: Vec<(String, String, Profile)>,
    router: Profile,
    then: P,
}

#[derive(Deserialize, JsonSchema)]
struct Choice {
    /// The name of the route.
    route: String,
}

impl<P: BehaviorPattern> Route<P> {
    /// Creates a pattern that answers with `then`; [`Route::to`] adds the routes.
    pub fn new(then: P) -> Self {
        Route { routes: Vec::new(), router: Profile::new(), then }
    }

    /// Adds a route: a name, a description of its requests for the router, and the profile for
    /// `then`.
    pub fn to(
        mut self,
        name: impl Into<String>,
        description: impl Into<String>,
        profile: Profile,
    ) -> Self {
        self.routes.push((name.into(), description.into(), profile));
        self
    }

    /// Sets the profile of the router. Defaults to the agent's own model and prompt.
    pub fn router(mut self, router: Profile) -> Self {
        self.router = router;
        self
    }
}

#[async_trait]
impl<P: BehaviorPattern> BehaviorPattern for Route<P> {
    fn inner(&self) -> Option<&dyn BehaviorPattern> {
        Some(&self.then)
    }

    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        let route = match step.state::<String>("route") {
            Some(route) => route,
            None => {
                let routes = self.routes.iter();
                let routes =
                    routes.map(|(name, description, _)| format!("\n{name}: {description}"));
                let routes: String = routes.collect();
                let text = format!("Which route fits the request of the user?{routes}");
                let ask = Ask::detached().profile(&self.router).key("route");
                let choice: Choice = step.ask_for(ask.also(UserMessage::from(text))).await?;
                step.set_state("route", &choice.route)?;
                choice.route
            }
        };
        let chosen = self.routes.iter().find(|(name, ..)| *name == route).or(self.routes.first());
        let profile = chosen.map(|(_, _, profile)| profile.clone()).unwrap_or_default();
        self.then.next_step(&mut step.with_profile(profile)).await
    }
}
