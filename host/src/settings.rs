//! The input of an agent's construction: the settings of a session, or of one chat request.

mod address;
mod change;
mod custom;
mod session;
mod setting;
mod values;
#[cfg(feature = "coding-agent")]
mod workspace;

use std::collections::BTreeMap;
use std::fmt;

use loopwright_protocols::{NOT_BLANK, or_default, whole_number};
use schemars::JsonSchema;
use serde::Deserialize;

pub(crate) use self::address::without_credentials;
pub use self::change::SettingsChange;
pub use self::custom::{CustomSetting, SettingKind};
pub(crate) use self::custom::{CustomValues, check_values};
#[cfg(feature = "coding-agent")]
pub(crate) use self::session::PATTERNS;
pub use self::session::SessionSettings;
pub use self::setting::{Setting, SettingPlace, SettingScope, SettingType};

/// The model of one chat request. The `Debug` output has neither key nor headers.
#[derive(Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LlmConfig {
    /// The API key of the model's provider.
    pub api_key: Option<String>,
    /// The model's name, or `PROVIDER/NAME`.
    #[serde(deserialize_with = "or_default")]
    #[schemars(regex(pattern = NOT_BLANK))]
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

impl LlmConfig {
    /// Returns the id of the model, `PROVIDER/NAME`. For a server at a client's address, the
    /// provider is `custom` unless the client names one. Such a server may use any names for its
    /// models, even with a `/`.
    pub(crate) fn model_id(&self) -> String {
        let provider = non_empty(&self.provider);
        match provider.or_else(|| non_empty(&self.base_url).map(|_| "custom")) {
            Some(provider) => format!("{provider}/{}", self.model),
            None => self.model.clone(),
        }
    }
}

/// Returns a text without surrounding blanks, or `None` if it is empty then.
pub(crate) fn non_empty(text: &Option<String>) -> Option<&str> {
    text.as_deref().map(str::trim).filter(|text| !text.is_empty())
}

impl fmt::Debug for LlmConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LlmConfig")
            .field("provider", &self.provider)
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}
