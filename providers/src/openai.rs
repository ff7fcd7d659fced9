//! OpenAI and every server that speaks its Chat Completions format.

use std::sync::Arc;

use futures::stream::{BoxStream, StreamExt};
use loopwright::{ChatModel, ChatRequest, ModelError, ModelErrorKind, ModelEvent, ModelInfo, Prices};
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use crate::error::Place;
use crate::http::{Http, Target};
use crate::openai_chat::{Decoder, Settings, encode};
use crate::reply::Reply;

/// Where requests go unless a base URL is given.
const OPENAI: &str = "https://api.openai.com/v1";
/// A key or header value shorter than this may be an everyday word, and is not taken for a secret.
const SECRET: usize = 8;

/// A model behind a Chat Completions endpoint.
///
/// ```
/// use loopwright_providers::OpenAiChat;
///
/// let local = OpenAiChat::builder("qwen3:8b").base_url("http://127.0.0.1:11434/v1").provider("ollama").build()?;
/// assert_eq!(&*loopwright::ChatModel::info(&local).id, "ollama/qwen3:8b");
/// # Ok::<(), loopwright::ModelError>(())
/// ```
#[derive(Debug, Clone)]
pub struct OpenAiChat {
    info: ModelInfo,
    http: Http,
    target: Target,
    settings: Settings,
}

impl OpenAiChat {
    /// Begins with the model's name, as the server knows it.
    pub fn builder(model: impl Into<String>) -> OpenAiChatBuilder {
        OpenAiChatBuilder {
            settings: Settings::new(model),
            base_url: OPENAI.into(),
            provider: "openai".into(),
            api_key: None,
            key_var: None,
            headers: Vec::new(),
            http: Http::new(),
            prices: None,
            context_window: None,
        }
    }
}

impl ChatModel for OpenAiChat {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream<'a>(&'a self, request: ChatRequest) -> BoxStream<'a, ModelEvent> {
        let body = encode(&request, &self.settings);
        let decoder = Decoder::new(self.target.place.clone());
        Reply::post(&self.http, &self.target, body, decoder).boxed()
    }
}

/// Says how an [`OpenAiChat`] is reached. Only the model's name is needed.
#[derive(Clone)]
#[must_use = "call build()"]
pub struct OpenAiChatBuilder {
    settings: Settings,
    base_url: String,
    provider: String,
    api_key: Option<String>,
    key_var: Option<String>,
    headers: Vec<(String, String)>,
    http: Http,
    prices: Option<Prices>,
    context_window: Option<u64>,
}

impl OpenAiChatBuilder {
    /// The address up to `/chat/completions`, such as `http://127.0.0.1:8080/v1`.
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        self.base_url = url.into();
        self
    }
    /// The provider's name, the first half of the model's id.
    pub fn provider(mut self, name: impl Into<String>) -> Self {
        self.provider = name.into();
        self
    }
    /// The key; servers on one's own machine need none. An empty one counts as none.
    pub fn api_key(mut self, key: impl Into<String>) -> Self {
        self.api_key = Some(key.into().trim().to_owned()).filter(|key| !key.is_empty());
        self
    }
    /// The environment variable that people keep this key in, for error messages.
    pub fn key_var(mut self, name: impl Into<String>) -> Self {
        self.key_var = Some(name.into());
        self
    }
    /// The organization that pays.
    pub fn organization(self, id: impl Into<String>) -> Self {
        self.header("openai-organization", id)
    }
    /// The project that pays.
    pub fn project(self, id: impl Into<String>) -> Self {
        self.header("openai-project", id)
    }
    /// A further header. Its value is kept out of `Debug` and errors, as the key is.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }
    /// A further field of each request's body, such as `top_p`.
    pub fn option(mut self, name: impl Into<String>, value: Value) -> Self {
        self.settings.options.insert(name.into(), value);
        self
    }
    /// Connections and timeouts, to be shared with other models.
    pub fn http(mut self, http: Http) -> Self {
        self.http = http;
        self
    }
    /// What tokens cost.
    pub fn prices(mut self, prices: Prices) -> Self {
        self.prices = Some(prices);
        self
    }
    /// The context window, in tokens.
    pub fn context_window(mut self, tokens: u64) -> Self {
        self.context_window = Some(tokens);
        self
    }

    /// The model. Nothing is sent yet.
    ///
    /// # Errors
    /// [`ModelErrorKind::InvalidRequest`] if the base URL is none, or a header or the key has
    /// characters that no header may have.
    pub fn build(mut self) -> Result<OpenAiChat, ModelError> {
        let (url, host) = self.endpoint()?;
        let place = Arc::new(Place { provider: self.provider.clone(), host, key_var: self.key_var.take() });
        self.settings.is_openai = url.host_str() == Some("api.openai.com");
        self.settings.ask_usage = url.host_str() != Some("api.mistral.ai");
        let mut info = ModelInfo::new(format!("{}/{}", self.provider, self.settings.model));
        info.prices = self.prices;
        info.context_window = self.context_window;
        let mut secrets: Vec<String> = self.headers.iter().map(|(_, value)| value.clone()).collect();
        secrets.extend(self.api_key.clone());
        secrets.retain(|secret| secret.len() >= SECRET);
        let target = Target { url, headers: self.header_map()?, place, secrets };
        Ok(OpenAiChat { info, http: self.http, target, settings: self.settings })
    }

    fn endpoint(&self) -> Result<(Url, String), ModelError> {
        let wrong = |why: &str| {
            let why = format!(
                "The base URL of {} {why}. Give one such as `http://127.0.0.1:8080/v1` or `{OPENAI}`.",
                self.provider
            );
            ModelError::new(ModelErrorKind::InvalidRequest, why)
        };
        let mut url = Url::parse(self.base_url.trim()).map_err(|why| wrong(&format!("is not valid ({why})")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong("does not begin with http:// or https://"));
        }
        let path = url.path().trim_end_matches('/');
        let path = path.strip_suffix("/chat/completions").unwrap_or(path);
        url.set_path(&format!("{path}/chat/completions"));
        let host = url.host_str().unwrap_or("?");
        let host = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        Ok((url, host))
    }

    fn header_map(&self) -> Result<HeaderMap, ModelError> {
        let wrong = |name: &str| {
            let why = format!(
                "The {name} for {} has characters that a header cannot have. Look for line breaks or quotes in it.",
                self.provider
            );
            ModelError::new(ModelErrorKind::InvalidRequest, why)
        };
        let secret = |text: &str, name: &str| {
            let mut value = HeaderValue::from_str(text).map_err(|_| wrong(name))?;
            value.set_sensitive(true);
            Ok::<_, ModelError>(value)
        };
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(key) = &self.api_key {
            headers.insert(AUTHORIZATION, secret(&format!("Bearer {key}"), "API key")?);
        }
        for (name, text) in &self.headers {
            let name_of = format!("header `{name}`");
            let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong(&name_of))?;
            headers.insert(header, secret(text, &name_of)?);
        }
        Ok(headers)
    }
}

impl std::fmt::Debug for OpenAiChatBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenAiChatBuilder")
            .field("provider", &self.provider)
            .field("model", &self.settings.model)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_endpoint_is_made_of_any_base_url() {
        for base in ["http://h:1/v1", "http://h:1/v1/", " http://h:1/v1/chat/completions "] {
            let model = OpenAiChat::builder("m").base_url(base).build().unwrap();
            assert_eq!(model.target.url.as_str(), "http://h:1/v1/chat/completions");
            assert_eq!(model.target.place.to_string(), "openai at h:1");
        }
        let error = OpenAiChat::builder("m").base_url("localhost:8080").build().unwrap_err();
        assert!(error.message.contains("http://"), "{error}");
    }

    #[test]
    fn keys_are_never_shown() {
        let builder = OpenAiChat::builder("m").api_key("sk-secret-key").header("api-key", "another-secret");
        let model = builder.clone().build().unwrap();
        let shown = format!("{builder:?} {model:?}");
        assert!(!shown.contains("secret"), "{shown}");
        let error = OpenAiChat::builder("m").api_key("sk-\nsecret").build().unwrap_err();
        assert!(!format!("{error:?}").contains("secret"), "{error}");
    }

    #[test]
    fn only_openai_itself_gets_its_own_fields() {
        assert!(OpenAiChat::builder("m").build().unwrap().settings.is_openai);
        assert!(!OpenAiChat::builder("m").base_url("http://localhost/v1").build().unwrap().settings.is_openai);
    }
}
