//! The choice of the model.

use std::env;

use loopwright_core::ChatModel;
use loopwright_core::model::{ModelError, ModelErrorKind};
use loopwright_providers::{Catalogue, Http, Offline, first_model, from_env, resolve_with};

use super::catalogue::catalogue;
use crate::error::StartError;
use crate::options::Options;

/// The note if no model was found.
const NO_MODEL: &str = "\
There is no model, so offline rules answer. They are not a language model: they call the tools
that a prompt names, and quote the results. For a real model, set OPENAI_API_KEY or another
provider's key, start Ollama or llama.cpp on this machine, or choose a model with
--model PROVIDER/NAME; `loopwright models` lists some.";

/// Holds a model, and a note for the user about the choice.
pub(super) struct Choice {
    pub(super) model: Box<dyn ChatModel>,
    pub(super) note: Option<String>,
}

/// Returns the model that the options name.
///
/// Without a name: the model of the first provider whose key is in the environment, else that of a
/// server on this machine, else offline rules.
pub(super) async fn choose(options: &Options) -> Result<Choice, StartError> {
    let base_url = options.base_url.as_deref();
    if let (Some("offline" | "offline/rules"), None) = (options.model.as_deref(), base_url) {
        return Ok(offline("Offline rules answer, as chosen; they are not a language model."));
    }
    let catalogue = catalogue(options.models.as_ref())?;
    match (&options.model, base_url) {
        (Some(id), _) => Ok(Choice {
            model: options.retries.wrap(resolve(id, base_url, &catalogue)?),
            note: None,
        }),
        (None, Some(url)) => {
            let key = env::var("CUSTOM_API_KEY").ok(); // the variable that `resolve` reads too
            let Some(name) = first_model(&Http::new(), url, key.as_deref()).await else {
                return Err(no_models(url).into());
            };
            let model = resolve(&format!("custom/{name}"), base_url, &catalogue)?;
            Ok(detected(model, options))
        }
        (None, None) => {
            let model = from_env(&Http::new(), &catalogue).await?;
            Ok(model.map_or_else(|| offline(NO_MODEL), |model| detected(model, options)))
        }
    }
}

fn resolve(
    id: &str,
    base_url: Option<&str>,
    catalogue: &Catalogue,
) -> Result<Box<dyn ChatModel>, ModelError> {
    resolve_with(id, base_url, catalogue, |name| env::var(name).ok())?.build()
}

fn detected(model: impl ChatModel + 'static, options: &Options) -> Choice {
    let note =
        format!("The model is {}. Choose another with --model PROVIDER/NAME.", model.info().id);
    Choice { model: options.retries.wrap(model), note: Some(note) }
}

fn offline(note: &str) -> Choice {
    Choice { model: Box::new(Offline::new()), note: Some(note.into()) }
}

fn no_models(url: &str) -> ModelError {
    let why = format!(
        "The server at {url} did not list its models: check that it runs and that the address is \
         right, or name the model with --model PROVIDER/NAME."
    );
    ModelError::new(ModelErrorKind::Network, why)
}
