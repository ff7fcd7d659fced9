//! The choice of a model when none is named.

use std::env;

use loopwright_core::ChatModel;
use loopwright_core::model::{ModelError, ModelErrorKind};
use loopwright_host::SessionSettings;
use loopwright_providers::{Http, first_model, from_env};

use super::catalogue::catalogue;
use crate::config::Config;
use crate::environment::started_as;
use crate::error::StartError;

/// The note about offline rules that the user or the session has chosen.
pub(super) const OFFLINE: &str = "Offline rules answer; they are not a language model. \
    --model PROVIDER/NAME chooses one.";

/// The name of a model, and a note for the user about the choice.
pub(crate) struct Choice {
    /// The model, as `PROVIDER/NAME`.
    pub(crate) model: String,
    pub(crate) note: String,
}

/// Returns the first model of the server at the address in the settings. Without an address,
/// returns the model of the first provider whose key is in the environment, else of a server on
/// this machine, else offline rules.
pub(crate) async fn detect(
    settings: &SessionSettings,
    config: &Config,
) -> Result<Choice, StartError> {
    let Some(url) = settings.base_url.as_deref() else {
        let catalogue = catalogue(settings.models.as_ref(), &config.program.names)?;
        let model = from_env(&Http::new(), &catalogue).await?;
        return Ok(match model {
            Some(model) => detected(model.info().id.to_string()),
            None => Choice { model: "offline".to_owned(), note: no_model() },
        });
    };
    let key = env::var("CUSTOM_API_KEY").ok(); // the variable for models at other addresses
    match first_model(&Http::new(), url, key.as_deref()).await {
        Some(name) => Ok(detected(format!("custom/{name}"))),
        None => Err(no_models(url).into()),
    }
}

fn detected(model: String) -> Choice {
    let note = format!("The model is {model}. Choose another with --model PROVIDER/NAME.");
    Choice { model, note }
}

fn no_model() -> String {
    format!(
        "There is no model, so offline rules answer. They are not a language model: they call the \
         tools\nthat a prompt names, and quote the results. For a real model, set OPENAI_API_KEY \
         or another\nprovider's key, start Ollama or llama.cpp on this machine, or choose a model \
         with\n--model PROVIDER/NAME; `{} models` lists some.",
        started_as()
    )
}

fn no_models(url: &str) -> ModelError {
    let why = format!(
        "The server at {url} did not list its models: check that it runs and that the address is \
         right, or name the model with --model PROVIDER/NAME."
    );
    ModelError::new(ModelErrorKind::Network, why)
}
