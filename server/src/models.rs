//! Where models come from: what a request says of one, or the server's own.

use std::collections::BTreeMap;
use std::fmt;

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
use schemars::JsonSchema;
use serde::Deserialize;

use crate::body::{or_default, whole};

/// Gives the models that agents use.
pub trait Models: Send + Sync {
    /// The model of a live session: `PROVIDER/NAME`, or the server's own choice. Keys are the
    /// server's.
    ///
    /// # Errors
    /// A sentence for the client: the model is not known, or has no key.
    fn named(&self, id: Option<&str>) -> Result<Box<dyn ChatModel>, ModelError>;

    /// The model that a request of `/api/agent-chat` describes. Its key is the client's: one of the
    /// server's must not go to an address that a client chose.
    ///
    /// # Errors
    /// [`ModelErrorKind::Auth`] where there is no key, any other kind where the description fits no
    /// model.
    fn configured(&self, config: &LlmConfig) -> Result<Box<dyn ChatModel>, ModelError>;
}

/// What a request says of its model. Its `Debug` shows neither key nor headers.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LlmConfig {
    /// The key.
    pub api_key: Option<String>,
    /// The model's name, or `PROVIDER/NAME`.
    #[serde(deserialize_with = "or_default")]
    #[schemars(regex(pattern = r"\S"))]
    pub model: String,
    /// The address of the model's server, up to but without `/chat/completions`.
    pub base_url: Option<String>,
    /// The provider, such as `openai`.
    pub provider: Option<String>,
    /// How much chance is in replies.
    #[schemars(range(min = 0.0, max = 2.0))]
    pub temperature: Option<f32>,
    /// The most tokens of a reply.
    #[serde(deserialize_with = "whole")]
    #[schemars(range(min = 1, max = 0xFFFF_FFFF_u32))]
    pub max_tokens: Option<u32>,
    /// Further headers for the model's server.
    #[serde(deserialize_with = "or_default")]
    #[schemars(with = "Option<BTreeMap<String, String>>")]
    pub headers: BTreeMap<String, String>,
}

impl fmt::Debug for LlmConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LlmConfig")
            .field("provider", &self.provider)
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

/// Models by their names, as [`loopwright_providers::resolve`] finds them, with retries.
#[derive(Clone)]
pub struct Named {
    default: Option<String>,
    base_url: Option<String>,
    catalogue: Catalogue,
    http: Http,
}

impl Default for Named {
    fn default() -> Self {
        Named { default: None, base_url: None, catalogue: Catalogue::built_in(), http: Http::new() }
    }
}

impl Named {
    /// The model of sessions that name none: `PROVIDER/NAME`, or `offline`, and its address if that
    /// is not the provider's.
    pub fn default_model(mut self, id: impl Into<String>, base_url: Option<String>) -> Self {
        (self.default, self.base_url) = (Some(id.into()), base_url);
        self
    }

    /// What is known of models; the built-in catalogue otherwise.
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

impl Models for Named {
    fn named(&self, id: Option<&str>) -> Result<Box<dyn ChatModel>, ModelError> {
        let (id, base_url) = match (id, &self.default) {
            (Some(id), _) => (id, None),
            (None, Some(id)) => (id.as_str(), self.base_url.as_deref()),
            (None, None) => {
                let why = "The session names no model, and the server has none of its own: give `model`, such as \
                           `openai/gpt-4o-mini`.";
                return Err(ModelError::new(ModelErrorKind::InvalidRequest, why));
            }
        };
        if matches!(id, "offline" | "offline/rules") {
            return Ok(Box::new(Offline::new()));
        }
        let model = self.resolve(id, base_url, |name| std::env::var(name).ok())?.build()?;
        Ok(Box::new(Retry::new(RetryMalformedCalls::new(model))))
    }

    fn configured(&self, config: &LlmConfig) -> Result<Box<dyn ChatModel>, ModelError> {
        let told = |text: &Option<String>| {
            text.as_deref().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let (key, base_url) = (told(&config.api_key), told(&config.base_url));
        // At an address of its own a server may call its models anything, with a `/` too.
        let provider =
            told(&config.provider).or_else(|| base_url.is_some().then(|| "custom".to_owned()));
        let id = provider.map_or_else(
            || config.model.clone(),
            |provider| format!("{provider}/{}", config.model),
        );
        if id.starts_with("offline/") {
            return Ok(Box::new(Offline::new()));
        }
        // Nothing of the server's environment: neither its keys nor its addresses are the client's.
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
