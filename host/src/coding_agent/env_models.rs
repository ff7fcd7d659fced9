//! [`EnvModels`]: the models of the known providers, with the keys of the environment.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use loopwright_core::ChatModel;
use loopwright_core::model::{ModelError, ModelErrorKind, ModelInfo};
use loopwright_providers::anthropic::Messages;
use loopwright_providers::gemini::GenerateContent;
use loopwright_providers::openai_chat::ChatCompletions;
use loopwright_providers::openai_responses::Responses;
use loopwright_providers::{
    Catalogue, Http, MAX_ATTEMPTS, MAX_RETRY_DELAY, Model, ModelFacts, Offline, Provider, Resolved,
    Retry, RetryMalformedCalls, Timeouts, Wire, WireFormat, is_connection_header, resolve_with,
};
use url::{Host, Url};

use crate::agents::{MAX_REQUEST_ATTEMPTS, MAX_REQUEST_RETRY_DELAY, Models};
use crate::rejection::AgentRejection;
use crate::rules::{Addresses, OperatorRules};
use crate::settings::{LlmConfig, SessionSettings, non_empty};

/// Headers that carry a key.
const KEY_HEADERS: [&str; 4] = ["authorization", "x-api-key", "api-key", "x-goog-api-key"];

/// Models by name, with the keys of the environment, resolved by [`loopwright_providers::resolve`].
/// Failed requests are retried.
#[derive(Clone)]
pub struct EnvModels {
    catalogue: Catalogue,
    http: Http,
    max_attempts: u32,
    max_retry_delay: Duration,
    /// The connections to addresses that clients name, and the addresses allowed for them. Rules
    /// differ only between servers, so one set of connections is usually enough.
    client_http: Arc<OnceLock<(Addresses, Http)>>,
}

impl Default for EnvModels {
    fn default() -> Self {
        EnvModels {
            catalogue: Catalogue::built_in(),
            http: Http::new(),
            max_attempts: MAX_ATTEMPTS,
            max_retry_delay: MAX_RETRY_DELAY,
            client_http: Arc::default(),
        }
    }
}

impl EnvModels {
    /// Sets the catalogue of models. Defaults to the built-in one.
    pub fn catalogue(mut self, catalogue: Catalogue) -> Self {
        self.catalogue = catalogue;
        self
    }

    /// Sets the maximum number of attempts of a request, and the maximum delay before a retry, for
    /// sessions whose settings leave them out. Defaults to [`MAX_ATTEMPTS`] and
    /// [`MAX_RETRY_DELAY`]. A request without a session has at most five attempts, at most four
    /// seconds apart. See [`Retry`].
    pub fn retries(mut self, max_attempts: u32, max_delay: Duration) -> Self {
        (self.max_attempts, self.max_retry_delay) = (max_attempts, max_delay);
        self
    }

    /// Sets the timeouts that these settings name, for sessions whose own settings leave them out.
    /// Their requests share connections. See [`Timeouts`].
    pub fn timeouts(mut self, settings: &SessionSettings) -> Self {
        self.http = self.http(settings);
        self
    }

    /// Returns the connections for these settings: the shared ones, unless the timeouts differ.
    fn http(&self, settings: &SessionSettings) -> Http {
        let shared = self.http.timeouts();
        match timeouts_of(settings, shared) {
            same if same == shared => self.http.clone(),
            own => Http::with_timeouts(own),
        }
    }

    /// Wraps a model so that its failed requests are retried.
    fn retried(
        &self,
        model: impl ChatModel + 'static,
        settings: &SessionSettings,
    ) -> Box<dyn ChatModel> {
        let delay = settings.max_retry_delay.map(|seconds| Duration::from_secs(seconds.into()));
        let attempts = settings.max_attempts.unwrap_or(self.max_attempts);
        Box::new(retrying(model, attempts, delay.unwrap_or(self.max_retry_delay)))
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
        let attempts = self.max_attempts.min(MAX_REQUEST_ATTEMPTS);
        let delay = Duration::from_secs(MAX_REQUEST_RETRY_DELAY.into()).min(self.max_retry_delay);
        Ok(Box::new(retrying(builder.build()?, attempts, delay)))
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
        let http = self.http(settings);
        let model = match &settings.models {
            None => self.resolve(id, base_url, var)?.http(http).build()?,
            Some(file) => {
                let mut catalogue = self.catalogue.clone();
                catalogue.add_file(file)?;
                let models = EnvModels { catalogue, ..self.clone() };
                models.resolve(id, base_url, var)?.http(http).build()?
            }
        };
        Ok(self.retried(model, settings))
    }

    fn address(&self, settings: &SessionSettings) -> Option<String> {
        let provider = provider_of(settings)?;
        if !provider.local {
            variable(provider.base_url_var?)?;
        }
        provider.address(variable)
    }

    /// Rejects a provider's server on this machine if clients may not use addresses of this
    /// machine.
    fn check(
        &self,
        settings: &SessionSettings,
        rules: &OperatorRules,
    ) -> Result<(), AgentRejection> {
        let Some(provider) = provider_of(settings).filter(|provider| provider.local) else {
            return Ok(());
        };
        let has_own_address = settings.base_url.as_deref().is_some_and(|url| {
            url != provider.base_url // clients cannot set this one
        });
        if has_own_address || provider.base_url_var.and_then(variable).is_some() {
            return Ok(());
        }
        match refused_host(provider.base_url, rules.client_addresses()) {
            Some(host) => Err(AgentRejection::not_allowed("/model", not_sent_to(&host))),
            None => Ok(()),
        }
    }

    /// Returns the models of the catalogue that the environment has the requirements for, such as a
    /// key, and the offline model.
    fn list(&self) -> Vec<ModelInfo> {
        let var = |name: &str| std::env::var(name).ok();
        let usable =
            self.catalogue.search("").filter(|(id, _)| self.resolve(id, None, var).is_ok());
        let offline = Offline::new().info().clone();
        usable.map(|(id, facts)| info_of(id, facts)).chain([offline]).collect()
    }

    fn configured(
        &self,
        config: &LlmConfig,
        rules: &OperatorRules,
    ) -> Result<Box<dyn ChatModel>, AgentRejection> {
        check(config)?;
        if config.model_id().starts_with("offline/") {
            return Ok(Box::new(Offline::new()));
        }
        let reject = |error: ModelError| match error.kind {
            ModelErrorKind::Auth => AgentRejection::unauthorized("/llmConfig", error.message),
            _ => AgentRejection::bad_request("/llmConfig", error.message),
        };
        let resolved = self.resolve_client(config).map_err(reject)?;
        let path = match non_empty(&config.base_url) {
            Some(_) => "/llmConfig/baseUrl",
            None => "/llmConfig/model",
        };
        let http = self.client_http(resolved.base_url(), rules.client_addresses(), path)?;
        let resolved = resolved.http(http);
        let model = match resolved.wire() {
            Wire::Anthropic => self.with_headers::<Messages>(resolved, config),
            Wire::Gemini => self.with_headers::<GenerateContent>(resolved, config),
            Wire::OpenAiResponses => self.with_headers::<Responses>(resolved, config),
            _ => self.with_headers::<ChatCompletions>(resolved, config),
        };
        model.map_err(reject)
    }
}

/// Returns `default` with the timeouts that the settings name.
fn timeouts_of(settings: &SessionSettings, default: Timeouts) -> Timeouts {
    let mut timeouts = default;
    for (named, timeout) in [
        (settings.connect_timeout, &mut timeouts.connect),
        (settings.first_event_timeout, &mut timeouts.first_event),
        (settings.idle_timeout, &mut timeouts.idle),
        (settings.silence_timeout, &mut timeouts.silence),
    ] {
        if let Some(seconds) = named {
            *timeout = Duration::from_secs(seconds.into());
        }
    }
    timeouts
}

fn retrying<M: ChatModel>(model: M, attempts: u32, delay: Duration) -> impl ChatModel {
    Retry::new(RetryMalformedCalls::new(model)).attempts(attempts).max_delay(delay)
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

impl EnvModels {
    /// Finds the model that a client describes, with the client's key.
    fn resolve_client(&self, config: &LlmConfig) -> Result<Resolved, ModelError> {
        let key = non_empty(&config.api_key);
        // The server's environment is not used: its keys and addresses are not the client's.
        let var = |name: &str| key.filter(|_| name.ends_with("_KEY")).map(str::to_owned);
        self.resolve(&config.model_id(), non_empty(&config.base_url), var)
    }

    /// Returns the connections for the address of a client's model. Rejects an IP address that is
    /// not allowed. The addresses of a host name are checked on connecting. `path` points to the
    /// setting with the address.
    fn client_http(
        &self,
        base_url: &str,
        allowed: &Addresses,
        path: &str,
    ) -> Result<Http, AgentRejection> {
        if let Some(host) = refused_host(base_url, allowed) {
            return Err(AgentRejection::not_allowed(path, not_sent_to(&host)));
        }
        let is_allowed_host = |url: Url| {
            let port = url.port_or_known_default().unwrap_or_default();
            allowed.allows_host(url.host_str().unwrap_or_default(), port)
        };
        if Url::parse(base_url).is_ok_and(is_allowed_host) {
            return Ok(self.http.clone());
        }
        let build = || {
            let allowed = allowed.clone();
            self.http.clone().only_to(move |ip| allowed.allows_ip(ip))
        };
        Ok(match self.client_http.get_or_init(|| (allowed.clone(), build())) {
            (same, http) if same == allowed => http.clone(),
            _ => build(),
        })
    }
}

/// Returns the host of a URL if it is an IP address that is not allowed. An invalid URL is left to
/// the model to report.
fn refused_host(base_url: &str, allowed: &Addresses) -> Option<String> {
    let url = Url::parse(base_url).ok()?;
    let ip = match url.host()? {
        Host::Ipv4(ip) => IpAddr::from(ip),
        Host::Ipv6(ip) => IpAddr::from(ip),
        Host::Domain(_) => return None,
    };
    let host = url.host_str().unwrap_or_default();
    let port = url.port_or_known_default().unwrap_or_default();
    let is_allowed = allowed.allows_host(host, port) || allowed.allows_ip(ip);
    (!is_allowed).then(|| host.to_owned())
}

fn not_sent_to(host: &str) -> String {
    format!(
        "This server does not send requests to `{host}`: use a public address, or one that the \
         server allows (see its `--allow-address`)."
    )
}

/// Returns the provider of a session's model, if it is known.
fn provider_of(settings: &SessionSettings) -> Option<&'static Provider> {
    let first = settings.model.as_deref()?.split('/').next().unwrap_or_default();
    Provider::named(if first.starts_with("openai-") { "openai" } else { first })
}

/// Returns an environment variable that is not blank.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

/// Rejects a configuration that has no model, that sets a header of the connection, or that lacks a
/// key the provider needs.
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
    if let Some(name) = config.headers.keys().find(|name| is_connection_header(name)) {
        let path = format!("/llmConfig/headers/{}", name.replace('~', "~0").replace('/', "~1"));
        let why = "This header belongs to the connection: leave it out.";
        return Err(AgentRejection::not_allowed(path, why));
    }
    if config.model.trim().is_empty() {
        return Err(AgentRejection::bad_request(
            "/llmConfig/model",
            "There is no model: give its name, such as `gpt-4o-mini`.",
        ));
    }
    Ok(())
}
