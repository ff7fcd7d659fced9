//! [`EnvModels`]: the models of the known providers, with the keys of the environment.

use std::time::Duration;

use loopwright_core::ChatModel;
use loopwright_core::model::{ModelError, ModelErrorKind, ModelInfo};
use loopwright_providers::anthropic::Messages;
use loopwright_providers::gemini::GenerateContent;
use loopwright_providers::openai_chat::ChatCompletions;
use loopwright_providers::openai_responses::Responses;
use loopwright_providers::{
    Catalogue, Http, MAX_ATTEMPTS, MAX_RETRY_DELAY, Model, ModelFacts, Offline, Provider, Resolved,
    Retry, RetryMalformedCalls, Wire, WireFormat, resolve_with,
};

use crate::agents::{AgentRejection, Models};
use crate::settings::{LlmConfig, SessionSettings};

/// Headers that carry a key.
const KEY_HEADERS: [&str; 4] = ["authorization", "x-api-key", "api-key", "x-goog-api-key"];

/// Provides models by name, with the keys of the environment, as [`loopwright_providers::resolve`]
/// finds them. Failed requests are retried.
#[derive(Clone)]
pub struct EnvModels {
    catalogue: Catalogue,
    http: Http,
    max_attempts: u32,
    max_retry_delay: Duration,
}

impl Default for EnvModels {
    fn default() -> Self {
        EnvModels {
            catalogue: Catalogue::built_in(),
            http: Http::new(),
            max_attempts: MAX_ATTEMPTS,
            max_retry_delay: MAX_RETRY_DELAY,
        }
    }
}

impl EnvModels {
    /// Sets the catalogue of models. Defaults to the built-in one.
    pub fn catalogue(mut self, catalogue: Catalogue) -> Self {
        self.catalogue = catalogue;
        self
    }

    /// Sets how often a request is sent at most, and the longest delay before it is sent again,
    /// where the settings of a session do not say it. Defaults to [`MAX_ATTEMPTS`] and
    /// [`MAX_RETRY_DELAY`]. See [`Retry`].
    pub fn retries(mut self, max_attempts: u32, max_delay: Duration) -> Self {
        (self.max_attempts, self.max_retry_delay) = (max_attempts, max_delay);
        self
    }

    /// Wraps a model so that its failed requests are retried.
    fn retried(
        &self,
        model: impl ChatModel + 'static,
        settings: &SessionSettings,
    ) -> Box<dyn ChatModel> {
        let retry = Retry::new(RetryMalformedCalls::new(model));
        let delay = settings.max_retry_delay.map(|seconds| Duration::from_secs(seconds.into()));
        let retry = retry.attempts(settings.max_attempts.unwrap_or(self.max_attempts));
        Box::new(retry.max_delay(delay.unwrap_or(self.max_retry_delay)))
    }

    fn with_headers<F>(
        &self,
        resolved: Resolved,
        config: &LlmConfig,
    ) -> Result<Box<dyn ChatModel>, ModelError>
    where
        F: WireFormat,
        Model<F>: ChatModel + 'static,
    {
        let mut builder = resolved.builder::<F>();
        for (name, value) in &config.headers {
            builder = builder.header(name, value);
        }
        Ok(self.retried(builder.build()?, &SessionSettings::default()))
    }

    fn resolve(
        &self,
        id: &str,
        base_url: Option<&str>,
        var: impl Fn(&str) -> Option<String>,
    ) -> Result<Resolved, ModelError> {
        Ok(resolve_with(id, base_url, &self.catalogue, var)?.http(self.http.clone()))
    }
}

impl Models for EnvModels {
    fn named(&self, settings: &SessionSettings) -> Result<Box<dyn ChatModel>, ModelError> {
        let id = settings.model.as_deref().unwrap_or_default();
        let base_url = settings.base_url.as_deref();
        if matches!(id, "offline" | "offline/rules") && base_url.is_none() {
            return Ok(Box::new(Offline::new()));
        }
        let var = |name: &str| std::env::var(name).ok();
        let model = match &settings.models {
            None => self.resolve(id, base_url, var)?.build()?,
            Some(file) => {
                let mut catalogue = self.catalogue.clone();
                catalogue.add_file(file)?;
                let models = EnvModels { catalogue, ..self.clone() };
                models.resolve(id, base_url, var)?.build()?
            }
        };
        Ok(self.retried(model, settings))
    }

    fn address(&self, settings: &SessionSettings) -> Option<String> {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        let first = settings.model.as_deref()?.split('/').next().unwrap_or_default();
        let name = if first.starts_with("openai-") { "openai" } else { first };
        let provider = Provider::named(name)?;
        set(provider.base_url_var?)?;
        provider.address(set)
    }

    /// Returns those of the catalogue for which the environment has what they need, such as a key,
    /// and the offline model.
    fn list(&self) -> Vec<ModelInfo> {
        let var = |name: &str| std::env::var(name).ok();
        let usable =
            self.catalogue.search("").filter(|(id, _)| self.resolve(id, None, var).is_ok());
        let offline = Offline::new().info().clone();
        usable.map(|(id, facts)| info_of(id, facts)).chain([offline]).collect()
    }

    fn configured(&self, config: &LlmConfig) -> Result<Box<dyn ChatModel>, AgentRejection> {
        check(config)?;
        self.of_client(config).map_err(|error| match error.kind {
            ModelErrorKind::Auth => AgentRejection::unauthorized("/llmConfig", error.message),
            _ => AgentRejection::bad_request("/llmConfig", error.message),
        })
    }
}

impl EnvModels {
    /// Returns the model that a client describes, with the client's key.
    fn of_client(&self, config: &LlmConfig) -> Result<Box<dyn ChatModel>, ModelError> {
        let non_empty = |text: &Option<String>| {
            text.as_deref().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let key = non_empty(&config.api_key);
        let base_url = non_empty(&config.base_url);
        // A server at another address may use any names for its models, also with a `/`.
        let provider =
            non_empty(&config.provider).or_else(|| base_url.is_some().then(|| "custom".to_owned()));
        let id = provider.map_or_else(
            || config.model.clone(),
            |provider| format!("{provider}/{}", config.model),
        );
        if id.starts_with("offline/") {
            return Ok(Box::new(Offline::new()));
        }
        // Not from the server's environment: its keys and addresses are not the client's.
        let var = |name: &str| key.clone().filter(|_| name.ends_with("_KEY"));
        let resolved = self.resolve(&id, base_url.as_deref(), var)?;
        match resolved.wire() {
            Wire::Anthropic => self.with_headers::<Messages>(resolved, config),
            Wire::Gemini => self.with_headers::<GenerateContent>(resolved, config),
            Wire::OpenAiResponses => self.with_headers::<Responses>(resolved, config),
            _ => self.with_headers::<ChatCompletions>(resolved, config),
        }
    }
}

fn info_of(id: &str, facts: &ModelFacts) -> ModelInfo {
    let mut info = ModelInfo::new(id);
    info.prices = facts.prices;
    info.context_window = facts.context_window;
    info.max_output = facts.max_output;
    info.thinking = facts.thinking;
    info.images = facts.images;
    info
}

/// Rejects a configuration without a model, or without a key where the provider needs one.
fn check(config: &LlmConfig) -> Result<(), AgentRejection> {
    let has_key = config.api_key.as_deref().is_some_and(|key| !key.trim().is_empty());
    let has_key_header =
        config.headers.keys().any(|name| KEY_HEADERS.contains(&name.to_lowercase().as_str()));
    let needs_no_key = config.provider.as_deref().is_some_and(|name| {
        name == "offline" || Provider::named(name).is_some_and(|provider| provider.local)
    });
    if !has_key && !has_key_header && !needs_no_key {
        return Err(AgentRejection::unauthorized(
            "/llmConfig/apiKey",
            "There is no API key: give the key of your model's provider in `llmConfig.apiKey`.",
        ));
    }
    if config.model.trim().is_empty() {
        return Err(AgentRejection::bad_request(
            "/llmConfig/model",
            "There is no model: give its name, such as `gpt-4o-mini`.",
        ));
    }
    Ok(())
}
