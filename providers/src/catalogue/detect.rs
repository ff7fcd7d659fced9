//! Selection of a model: by its id, by the keys in the environment, or among local servers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use loopwright_core::ChatModel;
use loopwright_core::model::{ModelError, ModelErrorKind, Prices};
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use serde::Deserialize;

use super::provider::{PROVIDERS, Provider, with_path};
use crate::catalogue::{Catalogue, ModelFacts, Wire};
use crate::formats::anthropic::Messages;
use crate::formats::codec::WireFormat;
use crate::formats::gemini::GenerateContent;
use crate::formats::openai_chat::ChatCompletions;
use crate::formats::openai_responses::Responses;
use crate::http::endpoint::Endpoint;
use crate::http::{Http, Target};
use crate::model::builder::ModelBuilder;
use crate::offline::Offline;

/// The maximum time that a local server may take to list its models.
const PROBE_TIMEOUT: Duration = Duration::from_millis(300);

/// Builds the model `id`, written `provider/name`, with its key from the environment and its facts
/// from the built-in [`Catalogue`].
///
/// `base_url` replaces the provider's address, makes the key optional, and allows providers that
/// are not [known](PROVIDERS). The key of a provider called `acme` is read from `ACME_API_KEY`. The
/// provider's usual variable for an address, such as `ANTHROPIC_BASE_URL`, has the same effect.
///
/// The catalogue, or else the provider, determines the wire format. At a custom address, `openai/…`
/// and unknown models use Chat Completions, like compatible servers. `openai-chat/…` and
/// `openai-responses/…` select that format for OpenAI's models or for a custom server.
///
/// `offline`, without a base URL, is the rule-based [`Offline`] model.
///
/// # Errors
/// Returns [`ModelErrorKind::Auth`] if the key of a hosted provider is missing, and
/// [`ModelErrorKind::InvalidRequest`] if the provider is unknown or the base URL is invalid.
pub fn resolve(id: &str, base_url: Option<&str>) -> Result<Box<dyn ChatModel>, ModelError> {
    if id == "offline" && base_url.is_none() {
        return Ok(Box::new(Offline::new()));
    }
    resolve_with(id, base_url, &Catalogue::built_in(), env)?.build()
}

/// Resolves a model like [`resolve`], with another catalogue and another source of environment
/// variables, but does not build it.
///
/// # Errors
/// Returns the same errors as [`resolve`].
pub fn resolve_with(
    id: &str,
    base_url: Option<&str>,
    catalogue: &Catalogue,
    var: impl Fn(&str) -> Option<String>,
) -> Result<Resolved, ModelError> {
    let (first, model) = match (id.split_once('/'), base_url) {
        (Some((first, model)), _) if !first.is_empty() && !model.is_empty() => (first, model),
        (None, Some(_)) if !id.is_empty() => ("custom", id),
        _ => return Err(no_id(id, catalogue)),
    };
    let explicit =
        [Wire::OpenAiChat, Wire::OpenAiResponses].into_iter().find(|wire| wire.name() == first);
    let provider = Provider::named(if explicit.is_some() { "openai" } else { first });
    let name = provider.map_or(first, |provider| provider.name);
    let known = catalogue.get(&format!("{name}/{model}")).copied().unwrap_or_default();

    let home = provider.and_then(|provider| provider.address(&var));
    let custom_address = base_url.is_some()
        || home.as_deref().is_some_and(|url| provider.is_some_and(|p| p.base_url != url));
    let compatible = (name == "openai" && custom_address).then_some(Wire::OpenAiChat);
    let usual = provider.map_or(Wire::OpenAiChat, |provider| provider.wire);
    let wire = explicit.or(compatible).or(known.wire).unwrap_or(usual);
    let Some(address) =
        base_url.map(|url| with_path(url.trim(), base_path(wire, provider))).or(home)
    else {
        return Err(no_address(name, provider));
    };

    let guessed = format!("{}_API_KEY", name.to_uppercase().replace(['-', '.'], "_"));
    let vars =
        provider.map_or_else(|| vec![guessed.as_str()], |provider| provider.key_vars.to_vec());
    let local = provider.is_some_and(|provider| provider.local);
    let key_entry =
        vars.iter().find_map(|name| Some((*name, var(name).filter(|key| !key.trim().is_empty())?)));
    if key_entry.is_none() && !local && !custom_address {
        return Err(no_key(name, &vars));
    }
    let free = ModelFacts { prices: local.then(Prices::default), ..ModelFacts::default() };
    Ok(Resolved {
        provider: name.to_owned(),
        model: model.to_owned(),
        wire,
        address,
        key_var: key_entry
            .as_ref()
            .map(|(name, _)| *name)
            .or(vars.first().copied())
            .map(str::to_owned),
        key: key_entry.map(|(_, key)| key),
        facts: known.over(free),
        http: Http::new(),
    })
}

/// Returns the path between a server's address and the path that the format adds.
fn base_path(wire: Wire, provider: Option<&Provider>) -> &'static str {
    let owner = match wire {
        Wire::Anthropic => Provider::named("anthropic"),
        Wire::Gemini => Provider::named("google"),
        Wire::OpenAiChat | Wire::OpenAiResponses => provider,
    };
    owner.map_or("", |provider| provider.base_path)
}

/// A resolved model that is not built yet. Its `Debug` output contains no key.
#[must_use = "call build()"]
pub struct Resolved {
    provider: String,
    model: String,
    wire: Wire,
    address: String,
    key: Option<String>,
    key_var: Option<String>,
    facts: ModelFacts,
    http: Http,
}

impl Resolved {
    /// Returns the address of requests, without the path that the format adds.
    pub fn base_url(&self) -> &str {
        &self.address
    }

    /// Returns the wire format of requests.
    pub fn wire(&self) -> Wire {
        self.wire
    }

    /// Returns the facts of the model.
    pub fn facts(&self) -> &ModelFacts {
        &self.facts
    }

    /// Sets the connections and timeouts. Several models can share them.
    pub fn http(mut self, http: Http) -> Self {
        self.http = http;
        self
    }

    /// Returns a builder in the format `F`, regardless of [`wire`](Resolved::wire), to add headers,
    /// options or a profile.
    pub fn builder<F: WireFormat>(self) -> ModelBuilder<F> {
        let builder = ModelBuilder::new(self.model).provider(self.provider).base_url(self.address);
        let builder =
            builder.facts(self.facts).http(self.http).api_key(self.key.unwrap_or_default());
        match self.key_var {
            Some(var) => builder.key_var(var),
            None => builder,
        }
    }

    /// Builds the model, without sending a request.
    ///
    /// # Errors
    /// Returns the same errors as [`ModelBuilder::build`].
    pub fn build(self) -> Result<Box<dyn ChatModel>, ModelError> {
        Ok(match self.wire {
            Wire::OpenAiChat => Box::new(self.builder::<ChatCompletions>().build()?),
            Wire::OpenAiResponses => Box::new(self.builder::<Responses>().build()?),
            Wire::Anthropic => Box::new(self.builder::<Messages>().build()?),
            Wire::Gemini => Box::new(self.builder::<GenerateContent>().build()?),
        })
    }
}

impl fmt::Debug for Resolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Resolved");
        debug
            .field("provider", &self.provider)
            .field("model", &self.model)
            .field("wire", &self.wire);
        debug.finish_non_exhaustive()
    }
}

/// Builds the first model that is usable without configuration: the model of the first provider
/// whose key is in the environment, or else of the first local server that responds. Returns `None`
/// if there is neither.
///
/// # Errors
/// Returns [`ModelErrorKind::InvalidRequest`] if a key has characters that are not allowed in a
/// header, or if an address in the environment is invalid.
pub async fn from_env(
    http: &Http,
    catalogue: &Catalogue,
) -> Result<Option<Box<dyn ChatModel>>, ModelError> {
    let build =
        |id: &str| resolve_with(id, None, catalogue, env)?.http(http.clone()).build().map(Some);
    let has_key = |provider: &&Provider| provider.key_vars.iter().any(|var| env(var).is_some());
    let hosted =
        PROVIDERS.iter().filter(|provider| !provider.local && !provider.default_model.is_empty());
    if let Some(provider) = hosted.clone().find(has_key) {
        return build(&format!("{}/{}", provider.name, provider.default_model));
    }
    let local = PROVIDERS.iter().filter(|provider| provider.local);
    let asked = local.map(|provider| async move {
        let key = provider.key_vars.iter().find_map(|var| env(var));
        Some((provider, first_model(http, &provider.address(env)?, key.as_deref()).await?))
    });
    match futures::future::join_all(asked).await.into_iter().flatten().next() {
        Some((provider, model)) => build(&format!("{}/{model}", provider.name)),
        None => Ok(None),
    }
}

/// Returns the first model that the server at `base_url` lists, or `None` if it does not respond
/// within 300 ms. Pass `key` for servers that require a key.
pub async fn first_model(http: &Http, base_url: &str, key: Option<&str>) -> Option<String> {
    #[derive(Deserialize)]
    struct Models {
        data: Vec<Model>,
    }

    #[derive(Deserialize)]
    struct Model {
        id: String,
    }
    let url = Url::parse(&format!("{}/models", base_url.trim_end_matches('/'))).ok()?;
    let endpoint = Arc::new(Endpoint {
        provider: "local".into(),
        host: url.host_str()?.to_owned(),
        key_var: None,
    });
    let mut headers = HeaderMap::new();
    if let Some(key) = key.map(str::trim).filter(|key| !key.is_empty()) {
        let mut value = HeaderValue::from_str(&format!("Bearer {key}")).ok()?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    let target = Target::new(url, headers, endpoint, Vec::new()).ok()?;
    let answer = http.get(&target, PROBE_TIMEOUT).await.ok()?;
    let models: Models = serde_json::from_slice(&answer).ok()?;
    models.data.into_iter().next().map(|model| model.id)
}

fn env(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

fn no_id(id: &str, catalogue: &Catalogue) -> ModelError {
    let same = |known: &&str| known.split_once('/').is_some_and(|(_, name)| name == id);
    let meant =
        catalogue.search(id).map(|(known, _)| known).find(same).unwrap_or("openai/gpt-4o-mini");
    wrong(format!(
        "`{id}` does not name a model: write PROVIDER/NAME, such as {meant}. Known providers: {}.",
        names()
    ))
}

fn no_address(name: &str, provider: Option<&Provider>) -> ModelError {
    wrong(match provider.and_then(|provider| provider.base_url_var) {
        Some(var) => {
            format!(
                "{name} gives each customer a separate address: set {var}, or give the address (in \
                 the binary with --base-url)."
            )
        }
        None => format!(
            "The provider `{name}` is not known. Known are {}; for any other one, give its \
             address (in the binary with --base-url).",
            names()
        ),
    })
}

fn no_key(name: &str, vars: &[&str]) -> ModelError {
    let why = format!(
        "There is no key for {name}: set {}, or choose another model, or give the address of your \
         own server (in the binary with --model and --base-url).",
        vars.join(" or ")
    );
    ModelError::new(ModelErrorKind::Auth, why)
}

fn names() -> String {
    PROVIDERS.iter().map(|provider| provider.name).collect::<Vec<_>>().join(", ")
}

fn wrong(why: String) -> ModelError {
    ModelError::new(ModelErrorKind::InvalidRequest, why)
}

#[cfg(test)]
mod tests;
