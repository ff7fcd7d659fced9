//! The body of `POST /api/agent-chat`.

use std::collections::BTreeMap;

use loopwright_host::{LlmConfig, RequestOptions, SessionSettings};
use loopwright_protocols::{NOT_BLANK, or_default};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::history::{Entry, log_entries};
use crate::error::ApiError;
use crate::streams::request_run::RunRequest;

/// Maximum number of entries of a history.
const MAX_ENTRIES: usize = 10_000;

/// A chat request of a user.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ChatRequest {
    /// The message of the user.
    #[schemars(regex(pattern = NOT_BLANK))]
    message: String,
    /// The directory to work in, below one of the server's roots. A relative path starts at the
    /// first root.
    #[schemars(length(min = 1))]
    work_dir: String,
    /// The agent, by its name; defaults to the server's first agent.
    #[serde(default)]
    agent: Option<String>,
    /// The earlier messages of the conversation.
    #[serde(default, deserialize_with = "or_default")]
    #[schemars(with = "Option<Vec<Entry>>")]
    history: Vec<Entry>,
    /// The model, with the client's key.
    #[serde(default, deserialize_with = "or_default")]
    #[schemars(with = "Option<LlmConfig>")]
    llm_config: LlmConfig,
    /// `true` if tools that change something must be listed in `approve`.
    #[serde(default, deserialize_with = "or_default")]
    #[schemars(with = "Option<bool>")]
    confirm: bool,
    /// The tools that may change something; all others are denied.
    #[serde(default, alias = "autoApprove")] // ignoring the older name would allow everything
    approve: Option<Vec<String>>,
    /// The values of the app's own settings.
    #[schemars(with = "Option<BTreeMap<String, Value>>")]
    custom: Option<BTreeMap<String, Option<Value>>>,
}

impl ChatRequest {
    /// Returns an error if a field has a value that no agent accepts.
    fn check(&self) -> Result<(), ApiError> {
        let config = &self.llm_config;
        if self.message.trim().is_empty() {
            return Err(ApiError::at(
                "/message",
                "The message is empty: write what is to be done.",
            ));
        }
        if self.history.len() > MAX_ENTRIES {
            let count = self.history.len();
            let why = format!("The history has {count} entries; {MAX_ENTRIES} are allowed.");
            return Err(ApiError::at("/history", why));
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
        Ok(())
    }

    /// Converts the request to the input of a run.
    pub(crate) fn into_run(self) -> Result<RunRequest, ApiError> {
        self.check()?;
        let mut settings = SessionSettings::new();
        settings.agent = self.agent;
        settings.work_dir = Some(self.work_dir);
        settings.approve = self.approve;
        let custom = self.custom.into_iter().flatten();
        settings.custom = custom.filter_map(|(name, value)| Some((name, value?))).collect();
        let mut options = RequestOptions::default();
        options.temperature = self.llm_config.temperature;
        options.max_tokens = self.llm_config.max_tokens;
        options.llm_config = Some(self.llm_config);
        options.confirm = self.confirm;
        let (prompt, history) = (self.message.into(), log_entries(&self.history)?);
        Ok(RunRequest { prompt, history, settings, options })
    }
}
