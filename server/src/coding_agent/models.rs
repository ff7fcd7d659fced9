//! Where coding agents get their models from: the model that a request describes, or the server's.

use std::time::Duration;

use loopwright_core::ChatModel;
use loopwright_core::model::{ModelError, ModelErrorKind};
use loopwright_providers::anthropic::Messages;
use loopwright_providers::gemini::GenerateContent;
use loopwright_providers::openai_chat::ChatCompletions;
use loopwright_providers::openai_responses::Responses;
use loopwright_providers::{
    Catalogue, Http, MAX_ATTEMPTS, MAX_RETRY_DELAY, Model, Offline, Resolved, Retry,
    RetryMalformedCalls, Wire, WireFormat, resolve_with,
};

use crate::settings::LlmConfig;

/// Provides the models of coding agents.
pub trait Models: Send + Sync {
    /// Returns the model of a live session: `PROVIDER/NAME`, or the server's default for `None`. It
    /// uses the server's keys.
    ///
    /// `base_url` is the address that the session was started with, if it is not the server's to
    /// choose. Requests must be sent there: a conversation with a model on this machine must not
    /// reach another one.
    ///
    /// # Errors
    /// Returns an error if the model is unknown, the server has no key for it, or it cannot send
    /// requests to the address. Its message is sent to the client.
    fn named(
        &self,
        id: Option<&str>,
        base_url: Option<&str>,
    ) -> Result<Box<dyn ChatModel>, ModelError>;

    /// Returns the model that a request to `/api/agent-chat` describes. It must use the client's
    /// key only: the client chooses the address, and no key of the server may be sent to it.
    ///
    /// # Errors
    /// Returns an error of kind [`ModelErrorKind::Auth`] if there is no key, and of any other kind
    /// if no model fits the description. Its message is sent to the client.
    fn configured(&self, config: &LlmConfig) -> Result<Box<dyn ChatModel>, ModelError>;
}

/// Provides models by name, with the keys of the environment, as [`loopwright_providers::resolve`]
/// finds them. Failed requests are retried.
#[derive(Clone)]
pub struct EnvModels {
    default: Option<String>,
    base_url: Option<String>,
    catalogue: Catalogue,
    http: Http,
    max_attempts: u32,
    max_retry_delay: Duration,
}

impl Default for EnvModels {
    fn default() -> Self {
        EnvModels {
            default: None,
            base_url: None,
            catalogue: Catalogue::built_in(),
            http: Http::new(),
            max_attempts: MAX_ATTEMPTS,
            max_retry_delay: MAX_RETRY_DELAY,
        }
    }
}

impl EnvModels {
    /// Sets the model of sessions that name none: `PROVIDER/NAME`, or `offline`; and its address,
    /// if that is not the provider's.
    pub fn default_model(mut self, id: impl Into<String>, base_url: Option<String>) -> Self {
        self.default = Some(id.into());
        self.base_url = base_url;
        self
    }

    /// Sets the catalogue of models. Defaults to the built-in one.
    pub fn catalogue(mut self, catalogue: Catalogue) -> Self {
        self.catalogue = catalogue;
        self
    }

    /// Sets how often a request is sent at most, and the longest delay before it is sent again.
    /// Defaults to [`MAX_ATTEMPTS`] and [`MAX_RETRY_DELAY`]. See [`Retry`].
    pub fn retries(mut self, max_attempts: u32, max_delay: Duration) -> Self {
        (self.max_attempts, self.max_retry_delay) = (max_attempts, max_delay);
        self
    }

    /// Wraps a model so that its failed requests are retried.
    fn retried(&self, model: impl ChatModel + 'static) -> Box<dyn ChatModel> {
        let retry = Retry::new(RetryMalformedCalls::new(model));
        Box::new(retry.attempts(self.max_attempts).max_delay(self.max_retry_delay))
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
        Ok(self.retried(builder.build()?))
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
    fn named(
        &self,
        id: Option<&str>,
        base_url: Option<&str>,
    ) -> Result<Box<dyn ChatModel>, ModelError> {
        let Some(id) = id.or(self.default.as_deref()) else {
            let message = "The session names no model, and the server has no default model: give \
                           `model`, such as `openai/gpt-4o-mini`.";
            return Err(ModelError::new(ModelErrorKind::InvalidRequest, message));
        };
        let is_default = self.default.as_deref() == Some(id);
        let base_url = base_url.or(self.base_url.as_deref().filter(|_| is_default));
        if matches!(id, "offline" | "offline/rules") {
            return Ok(Box::new(Offline::new()));
        }
        let model = self.resolve(id, base_url, |name| std::env::var(name).ok())?.build()?;
        Ok(self.retried(model))
    }

    fn configured(&self, config: &LlmConfig) -> Result<Box<dyn ChatModel>, ModelError> {
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
