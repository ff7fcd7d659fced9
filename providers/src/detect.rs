//! Which provider to use: by the model's id, by the keys in the environment, or by what runs on
//! this machine.

use std::sync::Arc;
use std::time::Duration;

use loopwright::{ModelError, ModelErrorKind};
use reqwest::Url;
use reqwest::header::HeaderMap;
use serde::Deserialize;

use crate::error::Place;
use crate::http::{Http, Target};
use crate::model::{OpenAiChat, OpenAiChatBuilder};

/// A provider that speaks Chat Completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Provider {
    /// Its name, the first half of a model's id.
    pub name: &'static str,
    /// Its base URL.
    pub base_url: &'static str,
    /// The environment variable with its key; `None` for a server on this machine.
    pub key_var: Option<&'static str>,
    /// A model to begin with; empty for a server on this machine, which is asked for what it has.
    pub default_model: &'static str,
}

/// The providers that are known by name, in the order in which [`from_env`] looks for them.
pub const PROVIDERS: &[Provider] = &[
    hosted("openai", "https://api.openai.com/v1", "OPENAI_API_KEY", "gpt-4o-mini"),
    hosted("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", "openai/gpt-4o-mini"),
    hosted("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY", "llama-3.3-70b-versatile"),
    hosted("deepseek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY", "deepseek-chat"),
    hosted("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY", "mistral-small-latest"),
    hosted("xai", "https://api.x.ai/v1", "XAI_API_KEY", "grok-3-mini"),
    hosted("together", "https://api.together.xyz/v1", "TOGETHER_API_KEY", "meta-llama/Llama-3.3-70B-Instruct-Turbo"),
    local("ollama", "http://127.0.0.1:11434/v1"),
    local("llamacpp", "http://127.0.0.1:8080/v1"),
];

/// How long a server on this machine may take to say what models it has.
const PROBE: Duration = Duration::from_millis(300);

const fn hosted(
    name: &'static str,
    base_url: &'static str,
    key_var: &'static str,
    default_model: &'static str,
) -> Provider {
    Provider { name, base_url, key_var: Some(key_var), default_model }
}

const fn local(name: &'static str, base_url: &'static str) -> Provider {
    Provider { name, base_url, key_var: None, default_model: "" }
}

/// The model called `id`, which is `provider/name`, with its key from the environment.
///
/// `base_url` takes the place of the provider's own, makes the key optional, and allows providers
/// that are not [known](PROVIDERS); the key of one called `acme` is looked for in `ACME_API_KEY`.
///
/// # Errors
/// [`ModelErrorKind::Auth`] if the key of a hosted provider is missing,
/// [`ModelErrorKind::InvalidRequest`] if the provider is unknown or the base URL is none.
pub fn resolve(id: &str, base_url: Option<&str>) -> Result<OpenAiChat, ModelError> {
    resolve_with(id, base_url, env)?.build()
}

/// [`resolve`], with another place to look for keys, and before the model is built: for prices,
/// shared connections, more headers.
///
/// # Errors
/// Those of [`resolve`].
pub fn resolve_with(
    id: &str,
    base_url: Option<&str>,
    key: impl Fn(&str) -> Option<String>,
) -> Result<OpenAiChatBuilder, ModelError> {
    let known = || PROVIDERS.iter().map(|provider| provider.name).collect::<Vec<_>>().join(", ");
    let wrong = |why: String| ModelError::new(ModelErrorKind::InvalidRequest, why);
    let (name, model) = match (id.split_once('/'), base_url) {
        (Some((name, model)), _) if !name.is_empty() && !model.is_empty() => (name, model),
        (None, Some(_)) if !id.is_empty() => ("custom", id),
        _ => {
            return Err(wrong(format!(
                "`{id}` does not name a model: write PROVIDER/NAME, such as openai/gpt-4o-mini. Known providers: {}.",
                known()
            )));
        }
    };
    let provider = PROVIDERS.iter().find(|provider| provider.name == name);
    let Some(url) = base_url.or(provider.map(|provider| provider.base_url)) else {
        return Err(wrong(format!(
            "The provider `{name}` is not known. Known are {}; for any other one, give its address with --base-url.",
            known()
        )));
    };
    let guessed = format!("{}_API_KEY", name.to_uppercase().replace(['-', '.'], "_"));
    let var = match provider {
        Some(provider) => provider.key_var,
        None => Some(guessed.as_str()),
    };
    let mut builder = OpenAiChat::builder(model).provider(name).base_url(url);
    if let Some(var) = var {
        builder = builder.key_var(var);
        match key(var) {
            Some(key) => builder = builder.api_key(key),
            None if base_url.is_some() => {}
            None => {
                let why = format!(
                    "There is no key for {name}: set {var}, or choose another model with --model, or give the \
                     address of a server of your own with --base-url."
                );
                return Err(ModelError::new(ModelErrorKind::Auth, why));
            }
        }
    }
    Ok(builder)
}

/// The first model that can be used without being told: that of the first provider whose key is in
/// the environment, else that of the first server that answers on this machine.
///
/// # Errors
/// [`ModelErrorKind::InvalidRequest`] if a key has characters that no header may have.
pub async fn from_env(http: &Http) -> Result<Option<OpenAiChat>, ModelError> {
    let has_key = |provider: &&Provider| provider.key_var.is_some_and(|var| env(var).is_some());
    if let Some(provider) = PROVIDERS.iter().find(has_key) {
        let id = format!("{}/{}", provider.name, provider.default_model);
        return resolve_with(&id, None, env)?.http(http.clone()).build().map(Some);
    }
    let local = PROVIDERS.iter().filter(|provider| provider.key_var.is_none());
    let asked = local.map(|provider| async move { Some((provider, first_model(http, provider.base_url).await?)) });
    match futures::future::join_all(asked).await.into_iter().flatten().next() {
        Some((provider, model)) => {
            let builder = OpenAiChat::builder(model).provider(provider.name).base_url(provider.base_url);
            builder.http(http.clone()).build().map(Some)
        }
        None => Ok(None),
    }
}

/// The first model that the server at `base_url` lists; `None` if there is no answer in 300 ms.
pub async fn first_model(http: &Http, base_url: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Models {
        data: Vec<Model>,
    }
    #[derive(Deserialize)]
    struct Model {
        id: String,
    }
    let url = Url::parse(&format!("{}/models", base_url.trim_end_matches('/'))).ok()?;
    let place = Arc::new(Place { provider: "local".into(), host: url.host_str()?.to_owned(), key_var: None });
    let target = Target::new(url, HeaderMap::new(), place, Vec::new()).ok()?;
    let answer = http.get(&target, PROBE).await.ok()?;
    let models: Models = serde_json::from_slice(&answer).ok()?;
    models.data.into_iter().next().map(|model| model.id)
}

fn env(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use loopwright::ChatModel;

    use super::*;

    fn resolved(id: &str, base_url: Option<&str>, keys: &[&str]) -> Result<OpenAiChat, ModelError> {
        resolve_with(id, base_url, |var| keys.contains(&var).then(|| "sk-of-the-test".into()))?.build()
    }

    #[test]
    fn a_known_provider_needs_its_key_only() {
        let model = resolved("openrouter/openai/gpt-4o", None, &["OPENROUTER_API_KEY"]).unwrap();
        assert_eq!(&*model.info().id, "openrouter/openai/gpt-4o");
        let error = resolved("openai/gpt-4o-mini", None, &[]).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Auth);
        assert!(error.message.contains("OPENAI_API_KEY"), "{error}");
        assert!(resolved("ollama/qwen3", None, &[]).is_ok());
    }

    #[test]
    fn an_unknown_provider_needs_an_address() {
        let error = resolved("acme/big", None, &[]).unwrap_err();
        assert!(error.message.contains("openrouter"), "{error}");
        assert_eq!(&*resolved("acme/big", Some("http://h/v1"), &[]).unwrap().info().id, "acme/big");
        assert_eq!(&*resolved("big", Some("http://h/v1"), &[]).unwrap().info().id, "custom/big");
        assert!(resolved("big", None, &[]).unwrap_err().message.contains("PROVIDER/NAME"));
    }
}
