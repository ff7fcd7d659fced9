//! The same agent with another system prompt or pattern.

use std::sync::Arc;

use crate::agent::GenericAgent;
use crate::pattern::BehaviorPattern;
use crate::session::config::Config;

impl GenericAgent {
    /// Returns the same agent with these instructions after its own system prompt, for hosts whose
    /// clients may add instructions.
    ///
    /// ```
    /// # use loopwright_core::{BehaviorPattern, StepContext, StepEnd, StepError};
    /// # use loopwright_core::testing::{Script, ScriptedModel};
    /// # struct Once;
    /// # #[async_trait::async_trait]
    /// # impl BehaviorPattern for Once {
    /// #     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
    /// #         step.take_input().await?;
    /// #         step.ask().await?.finish()
    /// #     }
    /// # }
    /// use loopwright_core::GenericAgent;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let model = ScriptedModel::new([Script::text("Hi.")]);
    /// let agent = GenericAgent::builder(model.clone(), Once).system("You are a shepherd.");
    /// let agent = agent.build()?;
    /// agent.with_instructions("Be brief.").prompt("Hello").await?;
    /// assert!(model.requests()[0].system.ends_with("You are a shepherd.\n\nBe brief."));
    /// # Ok(()) }
    /// ```
    pub fn with_instructions(&self, instructions: &str) -> GenericAgent {
        let system = match &*self.config.system {
            "" => instructions.into(),
            own => format!("{own}\n\n{instructions}").into(),
        };
        let config = Arc::new(Config { system, ..(*self.config).clone() });
        GenericAgent { config, pattern: self.pattern.clone() }
    }

    /// Returns the same agent with another pattern, for hosts that use the tools and the rules of
    /// an agent without its loop.
    ///
    /// ```
    /// use loopwright_core::GenericAgent;
    /// use loopwright_core::session::Call;
    /// use loopwright_core::testing::{ScriptedModel, TestTool};
    /// use loopwright_core::{BehaviorPattern, StepContext, StepEnd, StepError};
    /// # struct Once;
    /// # #[async_trait::async_trait]
    /// # impl BehaviorPattern for Once {
    /// #     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
    /// #         step.take_input().await?;
    /// #         step.ask().await?.finish()
    /// #     }
    /// # }
    ///
    /// /// Searches for each request, without a model.
    /// struct Search;
    ///
    /// #[async_trait::async_trait]
    /// impl BehaviorPattern for Search {
    ///     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
    ///         step.take_input().await?;
    ///         let call = Call::new("search", serde_json::json!({})).key("search");
    ///         step.call(call).await?.ok_or(StepEnd::AwaitingAction)?;
    ///         Ok(StepEnd::Done)
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let tool = TestTool::new("search").answers("3 hits");
    /// let agent = GenericAgent::builder(ScriptedModel::new([]), Once).tool(tool).build()?;
    /// let handle = agent.with_pattern(Search).session().await?;
    /// handle.prompt("How many?").await?;
    /// assert_eq!(handle.state().await?.messages.len(), 3);
    /// # Ok(()) }
    /// ```
    pub fn with_pattern(&self, pattern: impl BehaviorPattern + 'static) -> GenericAgent {
        GenericAgent { config: self.config.clone(), pattern: Arc::new(pattern) }
    }
}
