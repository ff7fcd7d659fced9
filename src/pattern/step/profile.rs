//! Steps whose requests have a profile.

use std::sync::Arc;

use crate::message::Message;
use crate::pattern::role::Role;
use crate::pattern::step::StepContext;
use crate::session::Session;
use crate::session::lent::Lent;
use crate::session::request::ask::Profile;

impl<'a> StepContext<'a> {
    pub(crate) fn new(session: &'a mut Session) -> Self {
        StepContext { session: Lent::new(session), role: Role::Agent }
    }

    /// Returns this step with a profile that applies to every request. So a pattern can run another
    /// one in a role: with another model, system prompt or thinking level, fewer tools, or more
    /// hooks.
    ///
    /// Settings of a request ([`Ask`](crate::Ask)) take precedence over the profile, and the
    /// profile over the agent's settings. A request offers only tools that both name. Profiles can
    /// be nested; the inner one takes precedence.
    ///
    /// ```
    /// use loopwright_core::session::Profile;
    /// use loopwright_core::{BehaviorPattern, StepContext, StepEnd, StepError};
    ///
    /// /// Answers with another pattern, as a poet.
    /// struct Poet<P>(P);
    ///
    /// #[async_trait::async_trait]
    /// impl<P: BehaviorPattern> BehaviorPattern for Poet<P> {
    ///     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
    ///         let poet = Profile::new().system("You answer in verse.");
    ///         self.0.next_step(&mut step.with_profile(poet)).await
    ///     }
    /// }
    /// # struct Once;
    /// # #[async_trait::async_trait]
    /// # impl BehaviorPattern for Once {
    /// #     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
    /// #         step.take_input().await?;
    /// #         step.ask().await?.finish()
    /// #     }
    /// # }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use loopwright_core::testing::{Harness, Script};
    /// let harness = Harness::new(Poet(Once), [Script::text("Rain, again.")], |agent| agent).await;
    /// harness.handle.prompt("The weather?").await.unwrap();
    /// assert_eq!(&*harness.model.requests()[0].system, "You answer in verse.");
    /// # }
    /// ```
    pub fn with_profile(&mut self, profile: Profile) -> StepContext<'_> {
        StepContext { session: self.session.lend(), role: Role::Fixed(profile, &self.role) }
    }

    /// Returns this step with a profile that depends on the [messages](StepContext::messages) so
    /// far; otherwise like [`StepContext::with_profile`]. The function is called for each request,
    /// so the role can change while the other pattern runs. It must be fast: it also gets the
    /// messages that were compacted.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use loopwright_core::session::Profile;
    /// use loopwright_core::{BehaviorPattern, Message, StepContext, StepEnd, StepError};
    ///
    /// /// Tells the model to come to an end once the conversation is long.
    /// struct Brief<P>(P);
    ///
    /// #[async_trait::async_trait]
    /// impl<P: BehaviorPattern> BehaviorPattern for Brief<P> {
    ///     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
    ///         let role = |messages: &[Arc<Message>]| match messages.len() {
    ///             0..100 => Profile::new(),
    ///             _ => Profile::new().instruction("Come to an end."),
    ///         };
    ///         self.0.next_step(&mut step.with_profile_of(&role)).await
    ///     }
    /// }
    /// ```
    pub fn with_profile_of<'b>(
        &'b mut self,
        role: &'b (dyn Fn(&[Arc<Message>]) -> Profile + Send + Sync),
    ) -> StepContext<'b> {
        StepContext { session: self.session.lend(), role: Role::OfHistory(role, &self.role) }
    }
}
