//! Which model answers.

use loopwright_core::ChatModel;
use loopwright_core::model::{ModelError, ModelErrorKind};
use loopwright_providers::{
    Catalogue, Http, Offline, Retry, RetryMalformedCalls, first_model, from_env, resolve_with,
};

use crate::agent::StartError;
use crate::args::Options;
use crate::models;

/// What a newcomer is told.
const NO_MODEL: &str = "\
There is no model, so offline rules answer. They are not a language model: they call the tools that a prompt names,
and quote what these return. For a real model, set OPENAI_API_KEY or another provider's key, or start Ollama or
llama.cpp on this machine, or choose with --model PROVIDER/NAME; `loopwright models` lists some.";

/// A model, and what the user should know about the choice.
pub(crate) struct Choice {
    pub(crate) model: Box<dyn ChatModel>,
    pub(crate) note: Option<String>,
}

/// The model that was asked for, without a look at anything else. Without a name: that of the
/// first provider whose key is in the environment, else that of a server on this machine, else
/// offline rules.
pub(crate) async fn choose(options: &Options) -> Result<Choice, StartError> {
    let base_url = options.base_url.as_deref();
    if let (Some("offline" | "offline/rules"), None) = (options.model.as_deref(), base_url) {
        return Ok(offline("Offline rules answer, as chosen; they are not a language model."));
    }
    let catalogue = models::catalogue(options.models.as_ref())?;
    match (&options.model, base_url) {
        (Some(id), _) => Ok(Choice {
            model: Box::new(Retry::new(RetryMalformedCalls::new(resolve(
                id, base_url, &catalogue,
            )?))),
            note: None,
        }),
        (None, Some(url)) => {
            let key = std::env::var("CUSTOM_API_KEY").ok(); // where `resolve` looks for it too
            let Some(name) = first_model(&Http::new(), url, key.as_deref()).await else {
                return Err(silent(url).into());
            };
            Ok(found(resolve(&format!("custom/{name}"), base_url, &catalogue)?))
        }
        (None, None) => {
            Ok(from_env(&Http::new(), &catalogue).await?.map_or_else(|| offline(NO_MODEL), found))
        }
    }
}

fn resolve(
    id: &str,
    base_url: Option<&str>,
    catalogue: &Catalogue,
) -> Result<Box<dyn ChatModel>, ModelError> {
    resolve_with(id, base_url, catalogue, |name| std::env::var(name).ok())?.build()
}

fn found(model: impl ChatModel + 'static) -> Choice {
    let note =
        format!("The model is {}. Choose another with --model PROVIDER/NAME.", model.info().id);
    Choice { model: Box::new(Retry::new(RetryMalformedCalls::new(model))), note: Some(note) }
}

fn offline(note: &str) -> Choice {
    Choice { model: Box::new(Offline::new()), note: Some(note.into()) }
}

fn silent(url: &str) -> ModelError {
    let why = format!(
        "The server at {url} did not say what models it has: check that it runs and that the address is right, or \
         name the model with --model PROVIDER/NAME."
    );
    ModelError::new(ModelErrorKind::Network, why)
}
