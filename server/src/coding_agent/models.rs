//! Where coding agents get their models from: the model that a request describes, or the server's.

use loopwright_core::ChatModel;
use loopwright_core::model::{ModelError, ModelErrorKind};
use loopwright_providers::anthropic::Messages;
use loopwright_providers::gemini::GenerateContent;
use loopwright_providers::openai_chat::ChatCompletions;
use loopwright_providers::openai_responses::Responses;
use loopwright_providers::{
    Catalogue, Http, Model, Offline, Resolved, Retry, RetryMalformedCalls, Wire, WireFormat,
    resolve_with,
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
}

impl Default for EnvModels {
    fn default() -> Self {
        EnvModels {
            default: None,
            base_url: None,
            catalogue: Catalogue::built_in(),
            http: Http::new(),
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
        Ok(Box::new(Retry::new(RetryMalformedCalls::new(model))))
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
            Wire::Anthropic => with_headers::<Messages>(resolved, config),
            Wire::Gemini => with_headers::<GenerateContent>(resolved, config),
            Wire::OpenAiResponses => with_headers::<Responses>(resolved, config),
            _ => with_headers::<ChatCompletions>(resolved, config),
        }
    }
}

fn with_headers<F>(resolved: Resolved, config: &LlmConfig) -> Result<Box<dyn ChatModel>, ModelError>
where
    F: WireFormat,
    Model<F>: ChatModel + 'static,
{
    let builder = resolved.builder::<F>();
    let builder =
        config.headers.iter().fold(builder, |builder, (name, value)| builder.header(name, value));
    Ok(Box::new(Retry::new(RetryMalformedCalls::new(builder.build()?))))
}
