//! Deviations of models and servers that speak Responses, as data.

use loopwright_core::model::ThinkingLevel;

use crate::catalogue::provider::is_below;
use crate::formats::codec::{self, KeyHeader};
use crate::formats::encoding::reasoning_effort::ReasoningEfforts;

/// Settings for the encoding of a request in this format.
pub type Settings = codec::Settings<Profile>;

/// Deviations of one model. The default suits models with an unknown name.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Profile {
    /// Header that carries the key.
    pub key_header: KeyHeader,
    /// Reasoning of the model.
    pub reasons: Reasons,
    /// Efforts that the model accepts.
    pub efforts: ReasoningEfforts,
}

/// The conditions under which a model reasons. They decide the fields that a request may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Reasons {
    /// The model accepts no effort and returns no reasoning.
    Never,
    /// The model reasons with an effort, or unless the effort disables it. A temperature is
    /// accepted only without reasoning.
    #[default]
    IfAsked,
    /// The model always reasons and accepts no temperature.
    Always,
}

const UNKNOWN: Profile = Profile {
    key_header: KeyHeader::Bearer,
    reasons: Reasons::IfAsked,
    efforts: ReasoningEfforts::MINIMAL_TO_XHIGH,
};
const PLAIN: Profile = Profile { reasons: Reasons::Never, ..UNKNOWN };
const ALWAYS: Profile =
    Profile { reasons: Reasons::Always, efforts: ReasoningEfforts::LOW_TO_HIGH, ..UNKNOWN };
const ALWAYS_TO_XHIGH: Profile = Profile { efforts: ReasoningEfforts::LOW_TO_XHIGH, ..ALWAYS };
const PRO: Profile = Profile { efforts: ReasoningEfforts::MEDIUM_TO_XHIGH, ..ALWAYS };
const CHAT: Profile = Profile { efforts: ReasoningEfforts::only("medium"), ..ALWAYS };
/// Models that reason only with an effort.
const IF_ASKED: Profile = Profile { efforts: ReasoningEfforts::LOW_TO_XHIGH, ..UNKNOWN };
/// Models that reason by default.
const UNLESS_NONE: Profile =
    Profile { efforts: ReasoningEfforts::LOW_TO_XHIGH.or_off("none"), ..UNKNOWN };

/// Profiles by the start of a model's name. The first match counts.
const PROFILES: &[(&str, Profile)] = &[
    ("gpt-3", PLAIN),
    ("gpt-4", PLAIN),
    ("chatgpt", PLAIN),
    ("chat-latest", CHAT),
    ("gpt-oss", Profile { efforts: ReasoningEfforts::LOW_TO_HIGH, ..UNKNOWN }),
    ("gpt-5-chat", PLAIN),
    ("gpt-5-codex", ALWAYS),
    ("gpt-5-pro", Profile { efforts: ReasoningEfforts::only("high"), ..ALWAYS }),
    ("gpt-5.1-chat", CHAT),
    ("gpt-5.1-codex-max", ALWAYS_TO_XHIGH),
    ("gpt-5.1-codex", ALWAYS),
    ("gpt-5.1", Profile { efforts: ReasoningEfforts::LOW_TO_HIGH, ..UNKNOWN }),
    ("gpt-5.2-chat", CHAT),
    ("gpt-5.2-codex", ALWAYS_TO_XHIGH),
    ("gpt-5.2-pro", PRO),
    ("gpt-5.2", IF_ASKED),
    ("gpt-5.3-chat", CHAT),
    ("gpt-5.3", ALWAYS_TO_XHIGH),
    ("gpt-5.4-pro", PRO),
    ("gpt-5.4", IF_ASKED),
    ("gpt-5.5-pro", PRO),
    ("gpt-5.", UNLESS_NONE),
    ("gpt-6-astra", ALWAYS_TO_XHIGH),
    ("gpt-6", UNLESS_NONE),
    ("gpt-5", Profile { efforts: ReasoningEfforts::MINIMAL_TO_HIGH, ..ALWAYS }),
    ("o1", ALWAYS),
    ("o3", ALWAYS),
    ("o4", ALWAYS),
    ("codex", ALWAYS),
];

/// The key header by host or parent domain of the host, where it differs from `Authorization`.
const KEY_HEADERS: &[(&str, KeyHeader)] = &[
    ("openai.azure.com", KeyHeader::Named("api-key")),
    ("services.ai.azure.com", KeyHeader::Named("api-key")),
    ("cognitiveservices.azure.com", KeyHeader::Named("api-key")),
];

impl Default for Profile {
    fn default() -> Self {
        UNKNOWN
    }
}

impl Profile {
    /// Returns the profile of this model on this host, with or without a gateway's prefix.
    pub fn of(host: &str, model: &str) -> Profile {
        let name = model.rsplit('/').next().unwrap_or(model);
        let known = PROFILES.iter().find(|(begin, _)| name.starts_with(begin));
        let mut profile = known.map_or(UNKNOWN, |(_, profile)| profile.clone());
        if let Some((_, header)) = KEY_HEADERS.iter().find(|(name, _)| is_below(host, name)) {
            profile.key_header = *header;
        }
        profile
    }

    /// Returns the effort to send, or `None` to send no effort.
    pub(super) fn effort(&self, level: ThinkingLevel) -> Option<&'static str> {
        self.efforts.word(level).filter(|_| self.reasons != Reasons::Never)
    }

    /// Returns whether a request at this level may have a temperature.
    pub(super) fn takes_temperature(&self, level: ThinkingLevel) -> bool {
        match self.reasons {
            Reasons::Never => true,
            Reasons::IfAsked => level == ThinkingLevel::Off,
            Reasons::Always => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use loopwright_core::model::ThinkingLevel::{High, Low, Minimal, Off, XHigh};

    use super::*;

    #[test]
    fn a_name_tells_whether_the_model_reasons_and_how_much() {
        let effort = |name, level| Profile::of("api.openai.com", name).effort(level);
        assert_eq!(effort("gpt-4.1-mini", High), None);
        assert_eq!(effort("o4-mini", Minimal), Some("low"));
        assert_eq!(effort("gpt-5-mini", Minimal), Some("minimal"));
        assert_eq!(effort("openai/gpt-5.1", XHigh), Some("high"));
        assert_eq!(effort("gpt-5.6", XHigh), Some("xhigh"));
        assert_eq!(effort("gpt-6.1-sol", Minimal), Some("low"));
        assert_eq!(effort("qwen3:8b", Minimal), Some("minimal"));
        assert_eq!(effort("gpt-5.4-pro", Low), Some("medium"));
        assert_eq!(effort("gpt-5.2-chat-latest", XHigh), Some("medium"));
    }

    #[test]
    fn a_model_that_reasons_by_default_is_switched_off_and_takes_a_temperature_only_then() {
        for (name, off, temperature) in [
            ("gpt-4.1", None, [true, true]),
            ("gpt-5", None, [false, false]),
            ("gpt-5.4", None, [true, false]),
            ("gpt-5.4-pro", None, [false, false]),
            ("gpt-5.5", Some("none"), [true, false]),
            ("gpt-5.6-luna", Some("none"), [true, false]),
            ("gpt-6-luna", Some("none"), [true, false]),
            ("gpt-6-astra", None, [false, false]),
        ] {
            let profile = Profile::of("api.openai.com", name);
            assert_eq!(profile.effort(Off), off, "{name}");
            assert_eq!(
                [Off, Low].map(|level| profile.takes_temperature(level)),
                temperature,
                "{name}"
            );
        }
    }

    #[test]
    fn the_header_of_the_key_goes_by_the_host() {
        let header = |host| Profile::of(host, "o3").key_header;
        assert_eq!(header("me.openai.azure.com"), KeyHeader::Named("api-key"));
        assert_eq!(header("me.services.ai.azure.com"), KeyHeader::Named("api-key"));
        assert_eq!(header("notopenai.azure.com"), KeyHeader::Bearer);
    }
}
