//! What servers that speak Chat Completions do each in its own way: data, not code.

use crate::call_id::CallIds;
use crate::codec::KeyHeader;

/// What one server does in its own way. The default suits most servers.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Profile {
    /// The header that the key goes into.
    pub key_header: KeyHeader,
    /// The usage must be asked for. Some servers tell it unasked and refuse the question.
    pub ask_usage: bool,
    /// The field with the output limit.
    pub max_tokens: &'static str,
    /// The field with the key of the prompt cache, which is the session; `None` if there is none.
    pub cache_key: Option<&'static str>,
    /// Which call ids it takes.
    pub call_ids: CallIds,
    /// Whether the thinking before a call goes back to the model.
    pub replay: Replay,
}

/// Whether, and in which field, the thinking before a call goes back to the model that thought it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Replay {
    /// It does not.
    #[default]
    Never,
    /// In `reasoning_content`, without which some models lose their thread or refuse.
    ReasoningContent,
    /// In `reasoning`.
    Reasoning,
}

impl Replay {
    /// The field's name.
    pub(super) fn field(self) -> Option<&'static str> {
        match self {
            Replay::Never => None,
            Replay::ReasoningContent => Some("reasoning_content"),
            Replay::Reasoning => Some("reasoning"),
        }
    }
}

const COMPATIBLE: Profile = Profile {
    key_header: KeyHeader::Bearer,
    ask_usage: true,
    max_tokens: "max_tokens",
    cache_key: None,
    call_ids: CallIds::Any,
    replay: Replay::Never,
};
const OPENAI: Profile = Profile {
    max_tokens: "max_completion_tokens",
    cache_key: Some("prompt_cache_key"),
    call_ids: CallIds::UpTo40,
    ..COMPATIBLE
};
const AZURE: Profile = Profile { key_header: KeyHeader::Named("api-key"), ..OPENAI };
const MISTRAL: Profile = Profile { ask_usage: false, call_ids: CallIds::Nine, ..COMPATIBLE };
const THINKS_ON: Profile = Profile { replay: Replay::ReasoningContent, ..COMPATIBLE };
const OPENROUTER: Profile = Profile { replay: Replay::Reasoning, ..COMPATIBLE };

/// By host, and any host below it.
const PROFILES: &[(&str, Profile)] = &[
    ("api.openai.com", OPENAI),
    ("openai.azure.com", AZURE),
    ("api.mistral.ai", MISTRAL),
    ("api.deepseek.com", THINKS_ON),
    ("api.moonshot.ai", THINKS_ON),
    ("api.moonshot.cn", THINKS_ON),
    ("openrouter.ai", OPENROUTER),
];

impl Default for Profile {
    fn default() -> Self {
        COMPATIBLE
    }
}

impl Profile {
    /// The profile of the server at `host`.
    pub fn of_host(host: &str) -> Profile {
        let below = |name: &str| host.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
        PROFILES.iter().find(|(name, _)| below(name)).map_or(COMPATIBLE, |(_, profile)| profile.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_the_profile_of_the_name_it_is_below() {
        assert_eq!(Profile::of_host("api.openai.com"), OPENAI);
        assert_eq!(Profile::of_host("mine.openai.azure.com"), AZURE);
        assert_eq!(Profile::of_host("not-openrouter.ai"), COMPATIBLE);
        assert_eq!(Profile::of_host("localhost"), COMPATIBLE);
    }
}
