//! Typed answers of models, in detached requests.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::error::StepError;
use crate::pattern::step::StepContext;
use crate::session::request::ask::Ask;
use crate::session::request::ask_for;

impl StepContext<'_> {
    /// Asks a model for a value of type `T` in a detached request.
    ///
    /// A reply that does not fit the type is sent back to the model with the error, as often as
    /// [`Limits::output_retries`](crate::limits::Limits::output_retries) allows. With [`Ask::key`]
    /// no reply is paid for twice, even if it did not fit.
    ///
    /// # Errors
    ///
    /// Fails as [`StepContext::ask_all`] does, and with
    ///
    /// - [`StepError::Output`] if the last reply does not fit either,
    /// - [`StepError::Model`] if the model failed,
    /// - [`StepError::Steered`] if a steer interrupted the request.
    ///
    /// ```
    /// use loopwright_core::message::AssistantMessage;
    /// use loopwright_core::{Ask, BehaviorPattern, StepContext, StepEnd, StepError};
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Person {
    ///     name: String,
    ///     age: u8,
    /// }
    ///
    /// struct Introduce;
    ///
    /// #[async_trait::async_trait]
    /// impl BehaviorPattern for Introduce {
    ///     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
    ///         step.take_input().await?;
    ///         if !step.is_answered() {
    ///             let Person { name, age } = step.ask_for(Ask::detached().key("person")).await?;
    ///             step.remember(AssistantMessage::from(format!("{name} is {age}."))).await?;
    ///         }
    ///         Ok(StepEnd::Done)
    ///     }
    /// }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # use loopwright_core::testing::{Harness, Script};
    /// let replies = [r#"{"name": "Ada"}"#, r#"{"name": "Ada", "age": 36}"#].map(Script::text);
    /// let harness = Harness::new(Introduce, replies, |agent| agent).await;
    /// let outcome = harness.handle.prompt("Ada, thirty-six.").await.unwrap();
    /// assert_eq!(outcome.text, "Ada is 36.");
    /// # }
    /// ```
    pub async fn ask_for<T>(&mut self, ask: Ask) -> Result<T, StepError>
    where
        T: DeserializeOwned + JsonSchema + Send,
    {
        let mut values = self.ask_for_all([ask]).await?;
        values.pop().ok_or_else(|| StepError::Output("there is no reply".into()))
    }

    /// Asks for several values at the same time, each like [`StepContext::ask_for`], and returns
    /// them in the order of the requests.
    ///
    /// # Errors
    ///
    /// Fails as [`StepContext::ask_for`] does. Replies with keys stay in the log, so that only the
    /// missing ones are requested when the pattern is entered again.
    pub async fn ask_for_all<T>(
        &mut self,
        asks: impl IntoIterator<Item = Ask> + Send,
    ) -> Result<Vec<T>, StepError>
    where
        T: DeserializeOwned + JsonSchema + Send,
    {
        let profile = self.profile();
        let asks = asks.into_iter().map(|ask| ask.within(&profile)).collect();
        ask_for::ask_for_all(&mut self.session, asks).await
    }
}
