//! What servers that speak Chat Completions do each in its own way: data, not code.

use loopwright::ThinkingLevel;
use loopwright::ThinkingLevel::{High, Low};

use crate::call_id::CallIds;
use crate::codec::KeyHeader;
use crate::openai_responses::{self, Reasons};

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
    /// Whether it refuses a message of the user's directly after results; then a few words of the model's go between.
    pub words_after_results: bool,
    /// How the model is asked to think.
    pub asks: Asks,
    /// The least and the most effort that it can be told; what is asked for beyond is brought into these bounds.
    pub efforts: (ThinkingLevel, ThinkingLevel),
    /// Whether it takes a temperature.
    pub temperature: bool,
    /// How it is asked for an answer that fits a schema.
    pub answers: Answers,
    /// Whether it can be asked in that way beside tools; else it is asked in words.
    pub answers_beside_tools: bool,
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
    /// In `reasoning_details` where it was signed or sealed, else in `reasoning`.
    Reasoning,
}

/// How a model is asked to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Asks {
    /// Not at all: the field is refused.
    Never,
    /// By an effort in `reasoning_effort`.
    #[default]
    Effort,
    /// By an effort in `reasoning`, an object.
    Reasoning,
    /// By switching it on or off in `thinking`, an object: there are no levels.
    Switch,
}

/// How a server is asked for an answer that fits a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Answers {
    /// By the schema.
    #[default]
    Schema,
    /// For JSON, and for the schema in words.
    Object,
}

const COMPATIBLE: Profile = Profile {
    key_header: KeyHeader::Bearer,
    ask_usage: true,
    max_tokens: "max_tokens",
    cache_key: None,
    call_ids: CallIds::Any,
    replay: Replay::Never,
    words_after_results: false,
    asks: Asks::Effort,
    efforts: (Low, High),
    temperature: true,
    answers: Answers::Schema,
    answers_beside_tools: true,
};
const OPENAI: Profile = Profile {
    max_tokens: "max_completion_tokens",
    cache_key: Some("prompt_cache_key"),
    call_ids: CallIds::UpTo40,
    ..COMPATIBLE
};
const AZURE: Profile = Profile { key_header: KeyHeader::Named("api-key"), ..OPENAI };
/// Beside none at all, it knows one effort.
const MISTRAL: Profile = Profile {
    ask_usage: false,
    call_ids: CallIds::Nine,
    words_after_results: true,
    efforts: (High, High),
    ..COMPATIBLE
};
const THINKS_ON: Profile =
    Profile { replay: Replay::ReasoningContent, asks: Asks::Switch, answers: Answers::Object, ..COMPATIBLE };
const GROQ: Profile = Profile { answers_beside_tools: false, ..COMPATIBLE };
const OPENROUTER: Profile = Profile {
    replay: Replay::Reasoning,
    asks: Asks::Reasoning,
    efforts: (ThinkingLevel::Minimal, ThinkingLevel::XHigh),
    ..COMPATIBLE
};

/// By host, and any host below it.
const PROFILES: &[(&str, Profile)] = &[
    ("api.openai.com", OPENAI),
    ("openai.azure.com", AZURE),
    ("api.mistral.ai", MISTRAL),
    ("api.deepseek.com", THINKS_ON),
    ("api.moonshot.ai", THINKS_ON),
    ("api.moonshot.cn", THINKS_ON),
    ("api.groq.com", GROQ),
    ("openrouter.ai", OPENROUTER),
];

impl Default for Profile {
    fn default() -> Self {
        COMPATIBLE
    }
}

impl Profile {
    /// The profile of the server at `host`, whatever the model.
    pub fn of_host(host: &str) -> Profile {
        let below = |name: &str| host.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
        PROFILES.iter().find(|(name, _)| below(name)).map_or(COMPATIBLE, |(_, profile)| profile.clone())
    }

    /// The profile of this model at the server at `host`. What OpenAI's models refuse depends on their names.
    pub fn of(host: &str, model: &str) -> Profile {
        let mut profile = Profile::of_host(host);
        if profile.max_tokens == OPENAI.max_tokens {
            let known = openai_responses::Profile::of(host, model);
            profile.asks = if known.reasons == Reasons::Never { Asks::Never } else { Asks::Effort };
            profile.temperature = known.reasons != Reasons::Always;
            profile.efforts = known.efforts;
        } else if host.ends_with("api.x.ai") && !model.starts_with("grok-3-mini") {
            profile.asks = Asks::Never; // its other models decide for themselves, and refuse to be told
        }
        profile
    }

    /// The effort that the model is told; none if it is not to think, or cannot be told.
    pub(super) fn effort(&self, level: ThinkingLevel) -> Option<ThinkingLevel> {
        let (least, most) = self.efforts;
        (level != ThinkingLevel::Off && self.asks != Asks::Never).then(|| level.clamp(least, most))
    }
}

#[cfg(test)]
mod tests {
    use loopwright::ThinkingLevel::{Minimal, XHigh};

    use super::*;

    #[test]
    fn a_host_has_the_profile_of_the_name_it_is_below() {
        assert_eq!(Profile::of_host("api.openai.com"), OPENAI);
        assert_eq!(Profile::of_host("mine.openai.azure.com"), AZURE);
        assert_eq!(Profile::of_host("not-openrouter.ai"), COMPATIBLE);
        assert_eq!(Profile::of_host("localhost"), COMPATIBLE);
    }

    #[test]
    fn a_level_is_brought_into_what_the_model_knows() {
        let effort = |host, model, level| Profile::of(host, model).effort(level);
        assert_eq!(effort("localhost", "qwen3", XHigh), Some(High));
        assert_eq!(effort("api.openai.com", "gpt-4o", High), None);
        assert_eq!(effort("api.openai.com", "gpt-5-mini", Minimal), Some(Minimal));
        assert_eq!(effort("api.openai.com", "o3", Minimal), Some(Low));
        assert_eq!(effort("api.mistral.ai", "magistral", Low), Some(High));
        assert_eq!(effort("api.x.ai", "grok-4", High), None);
        assert_eq!(effort("openrouter.ai", "any", XHigh), Some(XHigh));
        assert_eq!(effort("openrouter.ai", "any", ThinkingLevel::Off), None);
        assert!(!Profile::of("api.openai.com", "o3").temperature);
    }
}
