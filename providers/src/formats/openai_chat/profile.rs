//! Deviations of servers that speak Chat Completions, as data.

use loopwright_core::model::ThinkingLevel;

use crate::catalogue::provider::is_below;
use crate::formats::codec::{self, KeyHeader};
use crate::formats::encoding::call_id::CallIds;
use crate::formats::encoding::reasoning_effort::ReasoningEfforts;
use crate::formats::openai_responses::{self, Reasons};

/// Settings for the encoding of a request in this format.
pub type Settings = codec::Settings<Profile>;

/// Deviations of one server. The default suits most servers.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Profile {
    /// Header that carries the key.
    pub key_header: KeyHeader,
    /// `true` if usage must be requested. Some servers send it anyway and refuse the field.
    pub ask_usage: bool,
    /// Field name of the output limit.
    pub max_tokens: &'static str,
    /// Field name of the prompt cache key, whose value is the session. `None` if there is no such
    /// field.
    pub cache_key: Option<&'static str>,
    /// Call ids that the server accepts.
    pub call_ids: CallIds,
    /// Field for the thinking before a call, which is sent back.
    pub replay: Replay,
    /// `true` if the first call of each reply must be signed. Calls of other models then get a
    /// placeholder.
    pub signed_calls: bool,
    /// `true` if a user message directly after results is refused. A short assistant message is
    /// then inserted.
    pub words_after_results: bool,
    /// Form of a request for thinking.
    pub asks: Asks,
    /// Efforts that the model accepts.
    pub efforts: ReasoningEfforts,
    /// `true` if thinking is accepted with a forced tool. Otherwise the tool takes precedence.
    pub thinks_when_forced: bool,
    /// `true` if thinking is accepted with tools. Otherwise the tools take precedence.
    pub thinks_beside_tools: bool,
    /// Condition for a temperature.
    pub temperature: Temperature,
    /// `true` if a prompt is cached only when the request has `cache_control`.
    pub cache_control: bool,
    /// Form of the output schema in a request.
    pub answers: Answers,
    /// `true` if this form is accepted together with tools. Otherwise the schema is sent as text.
    pub answers_beside_tools: bool,
    /// `true` if `strict` tools and answers are accepted, by OpenAI's rules.
    pub strict: bool,
}

/// The field for the thinking before a call, which is sent back to the model that produced it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Replay {
    /// The field or the part of the content in which the server sent the thinking. A server that
    /// sends thinking in a field also reads it there, since its models lose their thread without.
    #[default]
    AsReceived,
    /// Nothing: neither thinking nor the signatures of calls.
    Never,
    /// `reasoning_content`, without which some models lose their thread or refuse.
    ReasoningContent,
    /// `reasoning_details` for signed or encrypted thinking, else `reasoning`.
    Reasoning,
}

/// The form of a request for thinking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Asks {
    /// No form: servers refuse the field.
    Never,
    /// An effort in `reasoning_effort`.
    #[default]
    Effort,
    /// An effort in `reasoning`, an object.
    Reasoning,
    /// `enabled` in `reasoning`, an object. It has no levels.
    Enabled,
    /// The `type` of `thinking`, an object. It has no levels.
    Switch,
}

/// Conditions under which a model accepts a temperature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Temperature {
    /// No condition.
    #[default]
    Always,
    /// Only while the model does not think.
    WithoutThinking,
    /// A temperature is always refused.
    Never,
}

/// The form of the output schema in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Answers {
    /// A JSON Schema.
    #[default]
    Schema,
    /// A request for JSON, with the schema as text.
    Object,
}

const COMPATIBLE: Profile = Profile {
    key_header: KeyHeader::Bearer,
    ask_usage: true,
    max_tokens: "max_tokens",
    cache_key: None,
    call_ids: CallIds::Any,
    replay: Replay::AsReceived,
    signed_calls: false,
    words_after_results: false,
    asks: Asks::Effort,
    efforts: ReasoningEfforts::LOW_TO_HIGH,
    thinks_when_forced: true,
    thinks_beside_tools: true,
    temperature: Temperature::Always,
    cache_control: false,
    answers: Answers::Schema,
    answers_beside_tools: true,
    strict: false,
};
const OPENAI: Profile = Profile {
    max_tokens: "max_completion_tokens",
    cache_key: Some("prompt_cache_key"),
    replay: Replay::Never,
    call_ids: CallIds::UpTo40,
    strict: true,
    ..COMPATIBLE
};
const AZURE: Profile = Profile { key_header: KeyHeader::Named("api-key"), ..OPENAI };
/// Mistral accepts only one effort besides `none`.
const MISTRAL: Profile = Profile {
    ask_usage: false,
    call_ids: CallIds::Nine,
    words_after_results: true,
    efforts: ReasoningEfforts::only("high"),
    ..COMPATIBLE
};
/// Models that think by default, and refuse a forced tool while they think.
const THINKS_ON: Profile = Profile {
    replay: Replay::ReasoningContent,
    asks: Asks::Switch,
    efforts: ReasoningEfforts::only("enabled").or_off("disabled"),
    thinks_when_forced: false,
    answers: Answers::Object,
    ..COMPATIBLE
};
const KIMI: Profile = Profile { temperature: Temperature::Never, ..THINKS_ON };
/// Kimi's code model, whose thinking cannot be disabled.
const KIMI_CODE: Profile = Profile { asks: Asks::Never, thinks_when_forced: true, ..KIMI };
const KIMI_3: Profile = Profile {
    asks: Asks::Effort,
    efforts: ReasoningEfforts::new(["low", "low", "high", "high", "max"]),
    thinks_when_forced: true,
    ..KIMI
};
const GROQ: Profile = Profile { answers_beside_tools: false, ..COMPATIBLE };
const GROQ_QWEN: Profile =
    Profile { efforts: ReasoningEfforts::only("default").or_off("none"), ..GROQ };
const OPENROUTER: Profile = Profile {
    replay: Replay::Reasoning,
    asks: Asks::Reasoning,
    efforts: ReasoningEfforts::MINIMAL_TO_XHIGH,
    ..COMPATIBLE
};
const OPENROUTER_CLAUDE: Profile = Profile { cache_control: true, ..OPENROUTER };
/// Models that choose the amount of thinking and refuse a setting.
const NO_THINKING_SETTING: Profile = Profile { asks: Asks::Never, ..COMPATIBLE };
/// Gemini from version 3 on, at Google.
const GEMINI_3: Profile = Profile { signed_calls: true, ..COMPATIBLE };
const GROK_3_MINI: Profile = Profile {
    efforts: ReasoningEfforts::new(["low", "low", "high", "high", "high"]),
    ..COMPATIBLE
};
/// Models whose default thinking can be disabled. Models that never think accept that setting too.
const OFF_BY_NONE: Profile =
    Profile { efforts: ReasoningEfforts::LOW_TO_HIGH.or_off("none"), ..COMPATIBLE };
const HYBRID: Profile = Profile {
    asks: Asks::Enabled,
    efforts: ReasoningEfforts::only("true").or_off("false"),
    ..COMPATIBLE
};

const DEEPSEEK: &[&str] = &["deepseek", "api.deepseek.com"];
const MOONSHOT: &[&str] = &["moonshot", "api.moonshot.ai", "api.moonshot.cn"];
const GROQ_AT: &[&str] = &["groq", "api.groq.com"];
const OPENROUTER_AT: &[&str] = &["openrouter", "openrouter.ai"];
const GOOGLE: &[&str] = &["generativelanguage.googleapis.com", "aiplatform.googleapis.com"];
const XAI: &[&str] = &["xai", "api.x.ai"];
const TOGETHER: &[&str] = &["together", "api.together.xyz", "api.together.ai"];
const OLLAMA: &[&str] = &["ollama", "ollama.com"];

/// Profiles by provider name, host or parent domain of the host, and by the start of the model's
/// name. The first match counts. llama.cpp, vLLM and LM Studio behave like most servers: the
/// template that a model was started with decides whether it thinks.
const PROFILES: &[(&[&str], &str, Profile)] = &[
    (&["api.openai.com"], "", OPENAI),
    (
        &["azure", "openai.azure.com", "services.ai.azure.com", "cognitiveservices.azure.com"],
        "",
        AZURE,
    ),
    (&["mistral", "api.mistral.ai"], "", MISTRAL),
    (DEEPSEEK, "", THINKS_ON),
    (MOONSHOT, "kimi-k2.7-code", KIMI_CODE),
    (MOONSHOT, "kimi-k3", KIMI_3),
    (MOONSHOT, "kimi", KIMI),
    (MOONSHOT, "", THINKS_ON),
    (GROQ_AT, "qwen/", GROQ_QWEN),
    (GROQ_AT, "", GROQ),
    (OPENROUTER_AT, "anthropic/", OPENROUTER_CLAUDE),
    (OPENROUTER_AT, "", OPENROUTER),
    (GOOGLE, "gemini-3", GEMINI_3),
    (GOOGLE, "google/gemini-3", GEMINI_3),
    (XAI, "grok-3-mini", GROK_3_MINI),
    (XAI, "grok-4.3", OFF_BY_NONE),
    (XAI, "grok-4.5", COMPATIBLE),
    (XAI, "grok-4.6", COMPATIBLE),
    (XAI, "grok-4.7", COMPATIBLE),
    (XAI, "", NO_THINKING_SETTING),
    (TOGETHER, "Qwen/Qwen3", HYBRID),
    (TOGETHER, "deepseek-ai/DeepSeek-V4", HYBRID),
    (TOGETHER, "moonshotai/Kimi-K2", HYBRID),
    (TOGETHER, "zai-org/GLM-5", HYBRID),
    (TOGETHER, "MiniMaxAI/", NO_THINKING_SETTING),
    (OLLAMA, "gemma3", NO_THINKING_SETTING),
    (OLLAMA, "llama3", NO_THINKING_SETTING),
    (OLLAMA, "", OFF_BY_NONE),
];

/// OpenAI's models that refuse every effort but `none` with tools. Some of them require it.
const NO_EFFORT_BESIDE_TOOLS: &[&str] = &["gpt-5.4", "gpt-5.5", "gpt-5.6", "gpt-6"];

impl Default for Profile {
    fn default() -> Self {
        COMPATIBLE
    }
}

impl Profile {
    /// Returns the profile of the server at `host`, regardless of the model.
    pub fn of_host(host: &str) -> Profile {
        row("", host, "")
    }

    /// Returns the profile of `model` on the server at `host`.
    pub fn of(host: &str, model: &str) -> Profile {
        Profile::of_provider("", host, model)
    }

    /// Returns the profile of `model`, served by `provider` at `host`. Only the provider's name
    /// identifies a local server.
    pub fn of_provider(provider: &str, host: &str, model: &str) -> Profile {
        let mut profile = row(provider, host, model);
        if profile.max_tokens == OPENAI.max_tokens {
            // OpenAI's models behave the same in both formats.
            let known = openai_responses::Profile::of(host, model);
            let name = model.rsplit('/').next().unwrap_or(model);
            (profile.asks, profile.temperature) = match known.reasons {
                Reasons::Never => (Asks::Never, Temperature::Always),
                Reasons::IfAsked => (Asks::Effort, Temperature::WithoutThinking),
                Reasons::Always => (Asks::Effort, Temperature::Never),
            };
            profile.efforts = known.efforts;
            profile.thinks_beside_tools =
                !NO_EFFORT_BESIDE_TOOLS.iter().any(|begin| name.starts_with(begin));
        }
        profile
    }

    /// Returns the word for the level of thinking, or `None` to send no effort.
    pub(super) fn effort(&self, level: ThinkingLevel) -> Option<&'static str> {
        self.efforts.word(level).filter(|_| self.asks != Asks::Never)
    }

    /// Returns whether a request at this level may have a temperature.
    pub(super) fn takes_temperature(&self, level: ThinkingLevel) -> bool {
        match self.temperature {
            Temperature::Always => true,
            Temperature::WithoutThinking => level == ThinkingLevel::Off,
            Temperature::Never => false,
        }
    }
}

fn row(provider: &str, host: &str, model: &str) -> Profile {
    let served =
        |names: &[&str]| names.iter().any(|name| *name == provider || is_below(host, name));
    let row = PROFILES.iter().find(|(names, begin, _)| model.starts_with(begin) && served(names));
    row.map_or(COMPATIBLE, |(_, _, profile)| profile.clone())
}

#[cfg(test)]
mod tests {
    use loopwright_core::model::ThinkingLevel::{High, Low, Minimal, Off, XHigh};

    use super::*;

    #[test]
    fn a_host_has_the_profile_of_the_name_it_is_below() {
        assert_eq!(Profile::of_host("api.openai.com"), OPENAI);
        assert_eq!(Profile::of_host("mine.openai.azure.com"), AZURE);
        assert_eq!(Profile::of_host("not-openrouter.ai"), COMPATIBLE);
        assert_eq!(Profile::of_host("notapi.x.ai"), COMPATIBLE);
        assert_eq!(Profile::of_host("localhost"), COMPATIBLE);
    }

    #[test]
    fn a_provider_has_its_profile_wherever_it_is() {
        let of = |provider, model| Profile::of_provider(provider, "localhost", model);
        assert_eq!(of("ollama", "qwen3:8b"), OFF_BY_NONE);
        assert_eq!(of("deepseek", "deepseek-v4-pro"), THINKS_ON);
        assert_eq!(of("azure", "mine").key_header, KeyHeader::Named("api-key"));
        assert_eq!(of("openai", "gpt-5"), COMPATIBLE, "most servers are said to be OpenAI's");
        assert_eq!(of("vllm", "qwen3"), COMPATIBLE);
    }

    #[test]
    fn a_thinking_level_is_sent_as_an_effort_that_the_model_knows() {
        let effort = |host, model, level| Profile::of(host, model).effort(level);
        assert_eq!(effort("localhost", "qwen3", XHigh), Some("high"));
        assert_eq!(effort("localhost", "qwen3", Off), None);
        assert_eq!(effort("api.openai.com", "gpt-4o", High), None);
        assert_eq!(effort("api.openai.com", "gpt-5-mini", Minimal), Some("minimal"));
        assert_eq!(effort("api.openai.com", "o3", Minimal), Some("low"));
        assert_eq!(effort("api.mistral.ai", "magistral", Low), Some("high"));
        assert_eq!(effort("api.x.ai", "grok-4", High), None);
        assert_eq!(effort("api.x.ai", "grok-4.3", Off), Some("none"));
        assert_eq!(effort("api.x.ai", "grok-4.5", Off), None);
        assert_eq!(effort("api.x.ai", "grok-4.5", XHigh), Some("high"));
        assert_eq!(effort("api.groq.com", "qwen/qwen3.8-27b", Low), Some("default"));
        assert_eq!(effort("api.groq.com", "qwen/qwen3.8-27b", Off), Some("none"));
        assert_eq!(effort("api.moonshot.ai", "kimi-k3", XHigh), Some("max"));
        assert_eq!(effort("api.deepseek.com", "deepseek-flash", Off), Some("disabled"));
        assert_eq!(effort("openrouter.ai", "any", XHigh), Some("xhigh"));
        assert_eq!(effort("openrouter.ai", "any", Off), None);
        assert_eq!(Profile::of("api.openai.com", "o3").temperature, Temperature::Never);
    }
}
