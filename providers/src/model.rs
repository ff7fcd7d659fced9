//! A model behind an address: one adapter for every wire format.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use futures::stream::{BoxStream, StreamExt};
use loopwright::{ChatModel, ChatRequest, ModelError, ModelErrorKind, ModelEvent, ModelInfo, Prices};
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value};

use crate::anthropic::Messages;
use crate::codec::{KeyHeader, Settings, WireFormat};
use crate::error::Place;
use crate::gemini::GenerateContent;
use crate::http::{Http, Target};
use crate::openai_chat::ChatCompletions;
use crate::openai_responses::Responses;
use crate::reply::Reply;

/// A key or header value shorter than this may be an everyday word, and is not taken for a secret.
const SECRET: usize = 8;

/// A model behind a Chat Completions endpoint: OpenAI's, or that of another server.
///
/// ```
/// use loopwright_providers::OpenAiChat;
///
/// let local = OpenAiChat::builder("qwen3:8b").base_url("http://127.0.0.1:11434/v1").provider("ollama").build()?;
/// assert_eq!(&*loopwright::ChatModel::info(&local).id, "ollama/qwen3:8b");
/// # Ok::<(), loopwright::ModelError>(())
/// ```
pub type OpenAiChat = Model<ChatCompletions>;
/// Says how an [`OpenAiChat`] is reached.
pub type OpenAiChatBuilder = ModelBuilder<ChatCompletions>;

/// A model behind an OpenAI Responses endpoint, which keeps nothing of the conversation.
///
/// ```
/// use loopwright_providers::OpenAiResponses;
///
/// let model = OpenAiResponses::builder("gpt-5.1").api_key("of your own").build()?;
/// assert_eq!(&*loopwright::ChatModel::info(&model).id, "openai/gpt-5.1");
/// # Ok::<(), loopwright::ModelError>(())
/// ```
pub type OpenAiResponses = Model<Responses>;
/// Says how an [`OpenAiResponses`] model is reached.
pub type OpenAiResponsesBuilder = ModelBuilder<Responses>;

/// A model behind an Anthropic Messages endpoint.
///
/// ```
/// use loopwright_providers::Anthropic;
///
/// let model = Anthropic::builder("claude-sonnet-4-5").api_key("of your own").build()?;
/// assert_eq!(&*loopwright::ChatModel::info(&model).id, "anthropic/claude-sonnet-4-5");
/// # Ok::<(), loopwright::ModelError>(())
/// ```
pub type Anthropic = Model<Messages>;
/// Says how an [`Anthropic`] model is reached.
pub type AnthropicBuilder = ModelBuilder<Messages>;

/// A model behind a Gemini endpoint.
///
/// ```
/// use loopwright_providers::Gemini;
///
/// let model = Gemini::builder("gemini-2.5-flash").api_key("of your own").build()?;
/// assert_eq!(&*loopwright::ChatModel::info(&model).id, "google/gemini-2.5-flash");
/// # Ok::<(), loopwright::ModelError>(())
/// ```
pub type Gemini = Model<GenerateContent>;
/// Says how a [`Gemini`] model is reached.
pub type GeminiBuilder = ModelBuilder<GenerateContent>;

/// A model that is spoken to in the wire format `F`.
pub struct Model<F: WireFormat> {
    info: ModelInfo,
    http: Http,
    target: Target,
    settings: Settings<F::Profile>,
    format: PhantomData<F>,
}

impl<F: WireFormat> Model<F> {
    /// Begins with the model's name, as the server knows it.
    pub fn builder(model: impl Into<String>) -> ModelBuilder<F> {
        ModelBuilder {
            model: model.into(),
            provider: F::PROVIDER.into(),
            base_url: F::BASE_URL.into(),
            profile: None,
            options: Map::new(),
            api_key: None,
            key_var: None,
            headers: Vec::new(),
            http: Http::new(),
            prices: None,
            context_window: None,
            format: PhantomData,
        }
    }
}

impl<F: WireFormat> ChatModel for Model<F> {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream<'a>(&'a self, request: ChatRequest) -> BoxStream<'a, ModelEvent> {
        let body = F::encode(&request, &self.settings);
        let decoder = F::decoder(self.target.place.clone());
        Reply::post(&self.http, &self.target, body, decoder).boxed()
    }
}

/// Says how a [`Model`] is reached. Only the model's name is needed.
#[must_use = "call build()"]
pub struct ModelBuilder<F: WireFormat> {
    model: String,
    provider: String,
    base_url: String,
    profile: Option<F::Profile>,
    options: Map<String, Value>,
    api_key: Option<String>,
    key_var: Option<String>,
    headers: Vec<(String, String)>,
    http: Http,
    prices: Option<Prices>,
    context_window: Option<u64>,
    format: PhantomData<F>,
}

impl ModelBuilder<ChatCompletions> {
    /// The organization that pays.
    pub fn organization(self, id: impl Into<String>) -> Self {
        self.header("openai-organization", id)
    }
    /// The project that pays.
    pub fn project(self, id: impl Into<String>) -> Self {
        self.header("openai-project", id)
    }
}

impl<F: WireFormat> ModelBuilder<F> {
    /// The address, up to what the format puts after it, such as `http://127.0.0.1:8080/v1`.
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
    /// What the server does in its own way, where its address does not tell.
    pub fn profile(mut self, profile: F::Profile) -> Self {
        self.profile = Some(profile);
        self
    }
    /// A further header. Its value is kept out of `Debug` and errors, as the key is.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }
    /// A further field of each request's body, such as `top_p`.
    pub fn option(mut self, name: impl Into<String>, value: Value) -> Self {
        self.options.insert(name.into(), value);
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
    pub fn build(mut self) -> Result<Model<F>, ModelError> {
        let (url, host) = self.endpoint()?;
        let place = Arc::new(Place { provider: self.provider.clone(), host, key_var: self.key_var.take() });
        let profile =
            self.profile.take().unwrap_or_else(|| F::profile(url.host_str().unwrap_or_default(), &self.model));
        let mut info = ModelInfo::new(format!("{}/{}", self.provider, self.model));
        info.prices = self.prices;
        info.context_window = self.context_window;
        let mut secrets: Vec<String> = self.headers.iter().map(|(_, value)| value.clone()).collect();
        secrets.extend(self.api_key.clone());
        secrets.retain(|secret| secret.len() >= SECRET);
        let headers = self.header_map(F::key_header(&profile))?;
        let not_valid = |why| self.wrong_url(&format!("is not valid ({why})"));
        let target = Target::new(url, headers, place, secrets).map_err(not_valid)?;
        let settings = Settings { model: self.model, id: info.id.clone(), profile, options: self.options };
        Ok(Model { info, http: self.http, target, settings, format: PhantomData })
    }

    fn endpoint(&self) -> Result<(Url, String), ModelError> {
        let not_valid = |why| self.wrong_url(&format!("is not valid ({why})"));
        let mut url = Url::parse(self.base_url.trim()).map_err(not_valid)?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(self.wrong_url("does not begin with http:// or https://"));
        }
        let added = F::path(&self.model);
        let (added, query) = added.split_once('?').map_or((&*added, None), |(path, query)| (path, Some(query)));
        let path = url.path().trim_end_matches('/');
        let path = path.strip_suffix(added).unwrap_or(path);
        url.set_path(&format!("{path}{added}"));
        if let Some(query) = query {
            let all = url.query().map_or_else(|| query.to_owned(), |own| format!("{own}&{query}"));
            url.set_query(Some(&all));
        }
        let host = url.host_str().unwrap_or("?");
        let host = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        Ok((url, host))
    }

    fn wrong_url(&self, why: &str) -> ModelError {
        let why = format!(
            "The base URL of {} {why}. Give one such as `http://127.0.0.1:8080/v1` or `{}`.",
            self.provider,
            F::BASE_URL
        );
        ModelError::new(ModelErrorKind::InvalidRequest, why)
    }

    fn header_map(&self, key_header: KeyHeader) -> Result<HeaderMap, ModelError> {
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
        let named =
            |name: &str| HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong(&format!("header `{name}`")));
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let fixed = F::HEADERS.iter().copied();
        for (name, text) in fixed.chain(self.headers.iter().map(|(name, text)| (name.as_str(), text.as_str()))) {
            headers.insert(named(name)?, secret(text, &format!("header `{name}`"))?);
        }
        if let Some(key) = &self.api_key {
            let (header, text) = match key_header {
                KeyHeader::Bearer => (AUTHORIZATION, format!("Bearer {key}")),
                KeyHeader::Named(name) => (named(name)?, key.clone()),
            };
            headers.entry(header).or_insert(secret(&text, "API key")?);
        }
        Ok(headers)
    }
}

impl<F: WireFormat> Clone for Model<F> {
    fn clone(&self) -> Self {
        Model {
            info: self.info.clone(),
            http: self.http.clone(),
            target: self.target.clone(),
            settings: self.settings.clone(),
            format: PhantomData,
        }
    }
}

impl<F: WireFormat> fmt::Debug for Model<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Model");
        shown.field("info", &self.info).field("target", &self.target).field("settings", &self.settings);
        shown.finish_non_exhaustive()
    }
}

impl<F: WireFormat> Clone for ModelBuilder<F> {
    fn clone(&self) -> Self {
        ModelBuilder {
            model: self.model.clone(),
            provider: self.provider.clone(),
            base_url: self.base_url.clone(),
            profile: self.profile.clone(),
            options: self.options.clone(),
            api_key: self.api_key.clone(),
            key_var: self.key_var.clone(),
            headers: self.headers.clone(),
            http: self.http.clone(),
            prices: self.prices,
            context_window: self.context_window,
            format: PhantomData,
        }
    }
}

impl<F: WireFormat> fmt::Debug for ModelBuilder<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ModelBuilder");
        shown.field("provider", &self.provider).field("model", &self.model).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openai_chat::Profile;

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
        let profile = |builder: OpenAiChatBuilder| builder.build().unwrap().settings.profile;
        assert_ne!(profile(OpenAiChat::builder("m")), Profile::default());
        assert_eq!(profile(OpenAiChat::builder("m").base_url("http://localhost/v1")), Profile::default());
    }

    #[test]
    fn the_key_goes_into_the_header_that_the_server_reads() {
        let headers = |url: &str| {
            let model = OpenAiChat::builder("m").base_url(url).api_key("key").build().unwrap();
            let header = |name| model.target.headers.get(name).and_then(|value| value.to_str().ok().map(str::to_owned));
            [header("authorization"), header("api-key")]
        };
        assert_eq!(headers("http://localhost/v1"), [Some("Bearer key".into()), None]);
        assert_eq!(headers("https://me.openai.azure.com/openai/v1"), [None, Some("key".into())]);
        let model = Anthropic::builder("m").api_key("key").build().unwrap();
        assert_eq!(model.target.url.as_str(), "https://api.anthropic.com/v1/messages");
        assert_eq!(
            (&model.target.headers["x-api-key"], model.target.headers.get("authorization")),
            (&"key".parse().unwrap(), None)
        );
        assert_eq!(model.target.headers["anthropic-version"], "2023-06-01");
    }
}
