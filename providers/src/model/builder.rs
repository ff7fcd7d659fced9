//! Builders of models: name, address, key and settings.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use loopwright_core::model::{ModelError, ModelErrorKind, ModelInfo, Prices};
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value};

use crate::catalogue::ModelFacts;
use crate::formats::anthropic::Messages;
use crate::formats::codec::{KeyHeader, Settings, WireFormat};
use crate::formats::gemini::GenerateContent;
use crate::formats::openai_chat::ChatCompletions;
use crate::formats::openai_responses::Responses;
use crate::http::endpoint::Endpoint;
use crate::http::key::{KeyCallback, KeySource, key_callback};
use crate::http::{Http, Target};
use crate::model::Model;
use crate::model::left_out_images::RefusedImages;

/// A builder of a [`Model`]. Only the model's name is required.
///
/// ```
/// use loopwright_providers::OpenAiChat;
/// use serde_json::json;
///
/// let model = OpenAiChat::builder("qwen3:8b")
///     .base_url("http://127.0.0.1:11434/v1")
///     .provider("ollama")
///     .option("top_p", json!(0.9))
///     .context_window(32_768)
///     .build()?;
/// # Ok::<(), loopwright_core::model::ModelError>(())
/// ```
#[derive(Clone)]
#[must_use = "call build()"]
pub struct ModelBuilder<F: WireFormat> {
    model: String,
    provider: String,
    base_url: String,
    profile: Option<F::Profile>,
    options: Map<String, Value>,
    key: Key,
    key_var: Option<String>,
    headers: Vec<(String, String)>,
    http: Http,
    facts: ModelFacts,
    format: PhantomData<F>,
}

/// A builder of an [`OpenAiChat`](crate::OpenAiChat) model.
pub type OpenAiChatBuilder = ModelBuilder<ChatCompletions>;

/// A builder of an [`OpenAiResponses`](crate::OpenAiResponses) model.
pub type OpenAiResponsesBuilder = ModelBuilder<Responses>;

/// A builder of an [`Anthropic`](crate::Anthropic) model.
pub type AnthropicBuilder = ModelBuilder<Messages>;

/// A builder of a [`Gemini`](crate::Gemini) model.
pub type GeminiBuilder = ModelBuilder<GenerateContent>;

impl<F: WireFormat> Model<F> {
    /// Returns a builder for a model, by the name that the server knows.
    pub fn builder(model: impl Into<String>) -> ModelBuilder<F> {
        ModelBuilder::new(model.into())
    }
}

#[derive(Clone)]
enum Key {
    None,
    Fixed(String),
    Callback(KeyCallback),
}

impl ModelBuilder<ChatCompletions> {
    /// Sets the organization that is billed.
    pub fn organization(self, id: impl Into<String>) -> Self {
        self.header("openai-organization", id)
    }

    /// Sets the project that is billed.
    pub fn project(self, id: impl Into<String>) -> Self {
        self.header("openai-project", id)
    }
}

impl<F: WireFormat> ModelBuilder<F> {
    pub(crate) fn new(model: String) -> Self {
        ModelBuilder {
            model,
            provider: F::PROVIDER.into(),
            base_url: F::BASE_URL.into(),
            profile: None,
            options: Map::new(),
            key: Key::None,
            key_var: None,
            headers: Vec::new(),
            http: Http::new(),
            facts: ModelFacts::default(),
            format: PhantomData,
        }
    }

    /// Sets the address, without the path that the format adds, such as `http://127.0.0.1:8080/v1`.
    pub fn base_url(mut self, url: impl Into<String>) -> Self {
        self.base_url = url.into();
        self
    }

    /// Sets the provider's name, the first half of the model's id.
    pub fn provider(mut self, name: impl Into<String>) -> Self {
        self.provider = name.into();
        self
    }

    /// Sets the key. Local servers need no key; an empty key counts as no key.
    pub fn api_key(mut self, key: impl Into<String>) -> Self {
        let key = key.into();
        self.key =
            if key.trim().is_empty() { Key::None } else { Key::Fixed(key.trim().to_owned()) };
        self
    }

    /// Sets a callback that returns the key of each request, retries included, for keys that
    /// expire. It replaces [`api_key`](ModelBuilder::api_key). If the server rejects the key (HTTP
    /// 401), the callback is called once more, and the request is sent again if the key has
    /// changed.
    ///
    /// If the callback fails, the request fails with [`ModelErrorKind::Auth`]. The message contains
    /// the callback's error.
    ///
    /// ```
    /// use loopwright_providers::Anthropic;
    ///
    /// async fn fresh_token() -> Result<String, std::io::Error> {
    ///     std::fs::read_to_string("/run/secrets/token")
    /// }
    /// let model = Anthropic::builder("claude-sonnet-4-5").api_key_with(fresh_token).build()?;
    /// # Ok::<(), loopwright_core::model::ModelError>(())
    /// ```
    pub fn api_key_with<A, T, E>(mut self, callback: A) -> Self
    where
        A: Fn() -> T + Send + Sync + 'static,
        T: Future<Output = Result<String, E>> + Send + 'static,
        E: fmt::Display,
    {
        self.key = Key::Callback(key_callback(callback));
        self
    }

    /// Sets the environment variable that usually holds this key, for error messages.
    pub fn key_var(mut self, name: impl Into<String>) -> Self {
        self.key_var = Some(name.into());
        self
    }

    /// Sets the server's deviations, for an address that does not identify the server.
    pub fn profile(mut self, profile: F::Profile) -> Self {
        self.profile = Some(profile);
        self
    }

    /// Adds a header. It replaces the crate's own header of that name. Headers that you add under
    /// one name, such as `anthropic-beta`, are all sent. `Debug` output and errors contain neither
    /// its value nor the key.
    ///
    /// Headers of the connection, such as `Host` and `Content-Length`, are refused when the model
    /// is built.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Adds a field to the body of each request, such as `top_p`.
    ///
    /// The field is merged into the crate's own field of that name, so setting a part of a field
    /// keeps the rest of it. Objects are merged field by field, at any depth, and lists are joined.
    /// The option replaces a value of any other type, an object with another `type` or `mode`, and
    /// a JSON Schema. The fields of the model, the conversation and `stream` cannot be set.
    /// `docs/design/providers.md` lists the fields of each format.
    ///
    /// ```
    /// use loopwright_providers::OpenAiResponses;
    /// use serde_json::json;
    ///
    /// // Requests still contain the output schema, the effort and the encrypted reasoning.
    /// let model = OpenAiResponses::builder("gpt-5.1")
    ///     .option("text", json!({"verbosity": "low"}))
    ///     .option("reasoning", json!({"summary": "detailed"}))
    ///     .option("include", json!(["web_search_call.results"]))
    ///     .build()?;
    /// # Ok::<(), loopwright_core::model::ModelError>(())
    /// ```
    pub fn option(mut self, name: impl Into<String>, value: Value) -> Self {
        self.options.insert(name.into(), value);
        self
    }

    /// Sets the connections and timeouts. Several models can share them.
    pub fn http(mut self, http: Http) -> Self {
        self.http = http;
        self
    }

    /// Sets the prices of tokens.
    pub fn prices(mut self, prices: Prices) -> Self {
        self.facts.prices = Some(prices);
        self
    }

    /// Sets the context window, in tokens.
    pub fn context_window(mut self, tokens: u64) -> Self {
        self.facts.context_window = Some(tokens);
        self
    }

    /// Sets the fields of the model's [`info`](loopwright_core::ChatModel::info), for example from
    /// a [`Catalogue`](crate::Catalogue). Fields that are `None` do not change.
    pub fn facts(mut self, facts: ModelFacts) -> Self {
        self.facts = facts.over(self.facts);
        self
    }

    /// Builds the model, without sending a request.
    ///
    /// # Errors
    /// Returns [`ModelErrorKind::InvalidRequest`] if the base URL is invalid, or a header or the
    /// key has characters that are not allowed in a header.
    pub fn build(mut self) -> Result<Model<F>, ModelError> {
        let (url, host) = self.request_url()?;
        let endpoint = Arc::new(Endpoint {
            provider: self.provider.clone(),
            host,
            key_var: self.key_var.take(),
        });
        let profile = self.profile.take().unwrap_or_else(|| {
            F::profile_of(&self.provider, url.host_str().unwrap_or_default(), &self.model)
        });
        let mut info = ModelInfo::new(format!("{}/{}", self.provider, self.model));
        info.prices = self.facts.prices;
        info.context_window = self.facts.context_window;
        info.max_output = self.facts.max_output;
        info.thinking = self.facts.thinking;
        info.images = self.facts.images;
        let mut secrets: Vec<String> =
            self.headers.iter().map(|(_, value)| value.trim().to_owned()).collect();
        // After a scheme, as in `Bearer KEY`, the server may repeat only the key.
        secrets.extend(
            self.headers
                .iter()
                .filter_map(|(_, value)| value.trim().rsplit_once(' '))
                .map(|(_, last)| last.into()),
        );
        if let Key::Fixed(key) = &self.key {
            secrets.push(key.clone());
        }
        let (headers, key) = self.header_map(F::key_header(&profile))?;
        let not_valid = |why| self.wrong_url(&format!("is not valid ({why})"));
        let mut target = Target::new(url, headers, endpoint, secrets).map_err(not_valid)?;
        target.key = key;
        let max_output = info.max_output.and_then(|tokens| u32::try_from(tokens).ok());
        let (model, id) = (self.model, info.id.clone());
        let settings = Settings { model, id, profile, max_output, options: self.options };
        let refused_images = RefusedImages::default();
        Ok(Model { info, http: self.http, target, settings, refused_images, format: PhantomData })
    }

    fn request_url(&self) -> Result<(Url, String), ModelError> {
        let not_valid = |why| self.wrong_url(&format!("is not valid ({why})"));
        let mut url = Url::parse(self.base_url.trim()).map_err(not_valid)?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(self.wrong_url("does not begin with http:// or https://"));
        }
        let added = F::path(&self.model);
        let (added, query) =
            added.split_once('?').map_or((&*added, None), |(path, query)| (path, Some(query)));
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

    /// Returns the headers of all requests, and the source of keys that are set per request.
    fn header_map(
        &self,
        key_header: KeyHeader,
    ) -> Result<(HeaderMap, Option<KeySource>), ModelError> {
        let wrong = |name: &str| {
            let why = format!(
                "The {name} for {} has characters that a header cannot have. Look for line \
                 breaks or quotes in it.",
                self.provider
            );
            ModelError::new(ModelErrorKind::InvalidRequest, why)
        };
        let secret = |text: &str, name: &str| {
            let mut value = HeaderValue::from_str(text).map_err(|_| wrong(name))?;
            value.set_sensitive(true);
            Ok::<_, ModelError>(value)
        };
        let named = |name: &str| {
            HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong(&format!("header `{name}`")))
        };
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, text) in F::HEADERS {
            headers.insert(named(name)?, secret(text, &format!("header `{name}`"))?);
        }
        let mut given = HeaderMap::new();
        for (name, text) in &self.headers {
            if is_connection_header(name) {
                let why = format!(
                    "The header `{name}` for {} cannot be set: it belongs to the connection, and \
                     another value would change where the request ends or goes. Leave it out.",
                    self.provider
                );
                return Err(ModelError::new(ModelErrorKind::InvalidRequest, why));
            }
            given.append(named(name)?, secret(text, &format!("header `{name}`"))?);
        }
        headers.extend(given); // replaces ours, and keeps all values of a name
        let (header, scheme) = match key_header {
            KeyHeader::Bearer => (AUTHORIZATION, "Bearer "),
            KeyHeader::Named(name) => (named(name)?, ""),
        };
        let mut source = None;
        match &self.key {
            _ if headers.contains_key(&header) => {} // set by the user
            Key::None => {}
            Key::Fixed(key) => {
                drop(headers.insert(header, secret(&format!("{scheme}{key}"), "API key")?))
            }
            Key::Callback(callback) => {
                source = Some(KeySource { callback: callback.clone(), header, scheme })
            }
        }
        Ok((headers, source))
    }
}

/// Headers that frame a request or belong to its connection (RFC 9110 section 7.6.1, RFC 9112), and
/// headers that the HTTP client sets.
const OF_THE_CONNECTION: [&str; 10] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Returns whether a header of this name frames a request, or belongs to its connection or to a
/// proxy. Such a header cannot be [added](ModelBuilder::header).
///
/// ```
/// use loopwright_providers::is_connection_header;
///
/// assert!(is_connection_header("Content-Length") && is_connection_header("proxy-authorization"));
/// assert!(!is_connection_header("x-tenant"));
/// ```
pub fn is_connection_header(name: &str) -> bool {
    let name = name.trim().to_ascii_lowercase();
    OF_THE_CONNECTION.contains(&&*name) || name.starts_with("proxy-")
}

impl<F: WireFormat> fmt::Debug for ModelBuilder<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("ModelBuilder");
        debug.field("provider", &self.provider).field("model", &self.model).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::openai_chat::Profile;
    use crate::model::{Anthropic, OpenAiChat};

    /// A header that frames the request could let its body be read as another request.
    #[test]
    fn headers_of_the_connection_are_refused() {
        for name in [
            "Content-Length",
            "transfer-encoding",
            "Host",
            "EXPECT",
            "upgrade",
            "Proxy-Authorization",
        ] {
            let why = OpenAiChat::builder("m").header(name, "5").build().unwrap_err();
            assert!(why.message.contains(&format!("`{name}`")), "{why}");
        }
    }

    #[test]
    fn added_headers_replace_ours_and_keep_each_other() {
        let builder = Anthropic::builder("m")
            .header("anthropic-beta", "a")
            .header("Anthropic-Beta", "b")
            .header("anthropic-version", "2027-01-01");
        let (headers, _) = builder.header_map(KeyHeader::Bearer).unwrap();
        let all = |name| headers.get_all(name).iter().collect::<Vec<_>>();
        assert_eq!(all("anthropic-beta"), ["a", "b"]);
        assert_eq!(all("anthropic-version"), ["2027-01-01"]);
    }

    #[test]
    fn the_endpoint_is_derived_from_any_base_url() {
        for base in ["http://h:1/v1", "http://h:1/v1/", " http://h:1/v1/chat/completions "] {
            let model = OpenAiChat::builder("m").base_url(base).build().unwrap();
            assert_eq!(model.target.address.url.as_str(), "http://h:1/v1/chat/completions");
            assert_eq!(model.target.endpoint.to_string(), "openai at h:1");
        }
        let error = OpenAiChat::builder("m").base_url("localhost:8080").build().unwrap_err();
        assert!(error.message.contains("http://"), "{error}");
    }

    #[test]
    fn debug_and_errors_contain_no_key() {
        let builder =
            OpenAiChat::builder("m").api_key("sk-secret-key").header("api-key", "another-secret");
        let model = builder.clone().build().unwrap();
        let debug = format!("{builder:?} {model:?}");
        assert!(!debug.contains("secret"), "{debug}");
        let error = OpenAiChat::builder("m").api_key("sk-\nsecret").build().unwrap_err();
        assert!(!format!("{error:?}").contains("secret"), "{error}");
    }

    #[test]
    fn only_openai_itself_gets_its_own_fields() {
        let profile = |builder: OpenAiChatBuilder| builder.build().unwrap().settings.profile;
        assert_ne!(profile(OpenAiChat::builder("m")), Profile::default());
        assert_eq!(
            profile(OpenAiChat::builder("m").base_url("http://localhost/v1")),
            Profile::default()
        );
    }

    #[test]
    fn the_key_goes_into_the_header_that_the_server_reads() {
        let headers = |url: &str| {
            let model = OpenAiChat::builder("m").base_url(url).api_key("key").build().unwrap();
            let header = |name| {
                model
                    .target
                    .headers
                    .get(name)
                    .and_then(|value| value.to_str().ok().map(str::to_owned))
            };
            [header("authorization"), header("api-key")]
        };
        assert_eq!(headers("http://localhost/v1"), [Some("Bearer key".into()), None]);
        assert_eq!(headers("https://me.openai.azure.com/openai/v1"), [None, Some("key".into())]);
        let model = Anthropic::builder("m").api_key("key").build().unwrap();
        assert_eq!(model.target.address.url.as_str(), "https://api.anthropic.com/v1/messages");
        assert_eq!(
            (&model.target.headers["x-api-key"], model.target.headers.get("authorization")),
            (&"key".parse().unwrap(), None)
        );
        assert_eq!(model.target.headers["anthropic-version"], "2023-06-01");
    }
}
