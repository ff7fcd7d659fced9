//! What clients can choose: settings of a live session, and of one chat request.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::json::{or_default, whole_number};

/// Describes the agent of a live session. The settings are stored with the session, so the session
/// has the same agent after a restart. They never hold a key.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SessionSettings {
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The directory to work in, below one of the server's roots; defaults to the first root.
    #[serde(default, alias = "root", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub work_dir: Option<String>,
    /// The model, as `PROVIDER/NAME`; defaults to the server's model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"\S"))]
    pub model: Option<String>,
    /// The address of the model's server, if the session was started with one: by `loopwright run`
    /// or `chat`, for example. Clients cannot set it.
    #[serde(default, alias = "base_url", skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub base_url: Option<String>,
    /// The system prompt; defaults to the server's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// The tools whose calls run without approval; `all` stands for all of them. Tools that only
    /// read never need one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_approve: Option<Vec<String>>,
}

impl SessionSettings {
    /// Reads the settings that a session was stored with. A session that another program created
    /// may have settings of another form, or none; it gets the defaults.
    pub(crate) fn from_stored(settings: Option<&Value>) -> Self {
        settings.and_then(|settings| Self::deserialize(settings).ok()).unwrap_or_default()
    }
}

/// Describes the agent of one request to `/api/agent-chat`.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ChatSettings {
    /// The directory to work in, below one of the server's roots.
    pub work_dir: String,
    /// The model.
    pub llm_config: LlmConfig,
    /// Whether tools that change something must be listed in `auto_approve`.
    pub confirm: bool,
    /// The tools that may change something; all others are denied. `None` allows all tools, unless
    /// `confirm` is set.
    pub auto_approve: Option<Vec<String>>,
}

/// Describes the model of one chat request. Its `Debug` output has neither key nor headers.
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
    /// The sampling temperature.
    #[schemars(range(min = 0.0, max = 2.0))]
    pub temperature: Option<f32>,
    /// The maximum number of tokens of a reply.
    #[serde(deserialize_with = "whole_number")]
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
