//! Functions for a single question to a model: [`ask`], [`extract`] and [`model`].

use loopwright_core::agent::PromptError;
use loopwright_core::event::Prompt;
use loopwright_core::schemars::JsonSchema;
use loopwright_core::serde_json::Value;
use loopwright_core::{ChatModel, GenericAgent};
use loopwright_patterns::PiPattern;
use serde::de::DeserializeOwned;

/// Sends a prompt to a model and returns the text of its answer.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # #[cfg(feature = "providers")] {
/// let model = loopwright::model("offline")?; // or "anthropic/…", "openai/…", …
/// let answer = loopwright::ask(model, "What are you?").await?;
/// assert!(answer.contains("offline"));
/// # }
/// # Ok(()) }
/// ```
///
/// # Errors
///
/// Fails like [`GenericAgent::prompt`].
///
/// # Panics
///
/// Panics outside of a tokio runtime, or if time is not enabled in it.
pub async fn ask(
    model: impl ChatModel + 'static,
    prompt: impl Into<Prompt>,
) -> Result<String, PromptError> {
    let agent = GenericAgent::builder(model, PiPattern).build()?;
    Ok(agent.prompt(prompt).await?.text)
}

/// Sends a prompt to a model and returns its answer as a value of type `T`.
///
/// The model gets the schema of `T`. An answer that does not fit is sent back with the mistakes, up
/// to [`Limits::output_retries`](crate::limits::Limits::output_retries) times.
///
/// ```
/// # use loopwright::testing::{Script, ScriptedModel};
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Person {
///     name: String,
///     age: u8,
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let model = ScriptedModel::new([Script::text(r#"{"name": "Ada", "age": 36}"#)]);
/// let prompt = "Ada Lovelace died at thirty-six.";
/// let person = loopwright::extract::<Person>(model, prompt).await?;
/// assert_eq!((&*person.name, person.age), ("Ada", 36));
/// # Ok(()) }
/// ```
///
/// # Errors
///
/// Fails like [`GenericAgent::prompt`], and with [`PromptError::Value`] if the answer fits the
/// schema of `T`, but cannot be deserialised.
///
/// # Panics
///
/// Panics outside of a tokio runtime, or if time is not enabled in it.
pub async fn extract<T: DeserializeOwned + JsonSchema>(
    model: impl ChatModel + 'static,
    prompt: impl Into<Prompt>,
) -> Result<T, PromptError> {
    let agent = GenericAgent::builder(model, PiPattern).output::<T>().build()?;
    let outcome = agent.prompt(prompt).await?;
    let value = outcome.value.as_deref().unwrap_or(&Value::Null);
    T::deserialize(value).map_err(|why| PromptError::Value(why.to_string()))
}

/// Builds the model with the id `provider/name`, such as `anthropic/claude-sonnet-4-5`.
///
/// The key comes from the provider's own environment variable, such as `ANTHROPIC_API_KEY`.
/// `offline` is the rule-based [`Offline`](crate::providers::Offline) model, which needs no key.
///
/// [`providers::resolve`](crate::providers::resolve) does the same with another address, and the
/// builders in [`providers`](crate::providers) have all options.
///
/// ```
/// use loopwright::ChatModel;
///
/// let model = loopwright::model("ollama/llama3.3")?; // on this machine, so without a key
/// assert_eq!(&*model.info().id, "ollama/llama3.3");
///
/// let error = loopwright::model("anthropic").err().unwrap();
/// assert!(error.to_string().contains("PROVIDER/NAME"), "{error}");
/// # Ok::<(), loopwright::model::ModelError>(())
/// ```
///
/// # Errors
///
/// Fails like [`providers::resolve`](crate::providers::resolve): a missing key names its variable.
#[cfg(feature = "providers")]
pub fn model(id: &str) -> Result<Box<dyn ChatModel>, loopwright_core::model::ModelError> {
    loopwright_providers::resolve(id, None)
}
