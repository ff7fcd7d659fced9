//! The body of `POST /api/agent-chat`.

use loopwright_providers::Provider;
use schemars::JsonSchema;
use serde::Deserialize;

use super::history::Entry;
use crate::body::or_default;
use crate::error::{ApiError, Kind};
use crate::models::LlmConfig;

/// The most entries that a history may have.
const ENTRIES: usize = 10_000;
/// Headers that carry a key.
const KEY_HEADERS: [&str; 4] = ["authorization", "x-api-key", "api-key", "x-goog-api-key"];

/// What a client asks.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChatRequest {
    /// What the user says.
    #[schemars(regex(pattern = r"\S"))]
    pub(crate) message: String,
    /// The directory to work in, below one of the server's roots; a relative one starts at the
    /// first.
    #[schemars(length(min = 1))]
    pub(crate) work_dir: String,
    /// What was said before.
    #[serde(default, deserialize_with = "or_default")]
    #[schemars(with = "Option<Vec<Entry>>")]
    pub(crate) history: Vec<Entry>,
    /// The model.
    #[serde(default, deserialize_with = "or_default")]
    #[schemars(with = "Option<LlmConfig>")]
    pub(crate) llm_config: LlmConfig,
    /// Whether tools that change something need to be listed in `autoApprove`.
    #[serde(default, deserialize_with = "or_default")]
    #[schemars(with = "Option<bool>")]
    pub(crate) confirm: bool,
    /// The tools that may change something; all others are denied.
    #[serde(default)]
    pub(crate) auto_approve: Option<Vec<String>>,
}

impl ChatRequest {
    /// The same request, if it makes sense.
    pub(crate) fn checked(self) -> Result<Self, ApiError> {
        let config = &self.llm_config;
        if self.message.trim().is_empty() {
            return Err(ApiError::at("/message", "The message is empty: say what is to be done."));
        }
        if self.history.len() > ENTRIES {
            let why =
                format!("The history has {} entries; {ENTRIES} are allowed.", self.history.len());
            return Err(ApiError::at("/history", why));
        }
        let told =
            |text: &Option<String>| text.as_deref().is_some_and(|text| !text.trim().is_empty());
        let keyed =
            config.headers.keys().any(|name| KEY_HEADERS.contains(&name.to_lowercase().as_str()));
        let keyless = config.provider.as_deref().is_some_and(|name| {
            matches!(name, "offline")
                || Provider::named(name).is_some_and(|provider| provider.local)
        });
        if !told(&config.api_key) && !keyed && !keyless {
            let why =
                "There is no API key: give the key of your model's provider in `llmConfig.apiKey`.";
            return Err(ApiError::new(Kind::Unauthorized, why).with_path("/llmConfig/apiKey"));
        }
        if config.model.trim().is_empty() {
            return Err(ApiError::at(
                "/llmConfig/model",
                "There is no model: give its name, such as `gpt-4o-mini`.",
            ));
        }
        if config.temperature.is_some_and(|temperature| !(0.0..=2.0).contains(&temperature)) {
            return Err(ApiError::at(
                "/llmConfig/temperature",
                "The temperature is not between 0 and 2.",
            ));
        }
        if config.max_tokens == Some(0) {
            return Err(ApiError::at(
                "/llmConfig/maxTokens",
                "No tokens are allowed: give a number of at least 1.",
            ));
        }
        Ok(self)
    }
}
