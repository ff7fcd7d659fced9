//! What models and servers that speak Responses do each in its own way: data, not code.

use loopwright::ThinkingLevel;
use loopwright::ThinkingLevel::{High, Low, Minimal, XHigh};

use crate::codec::KeyHeader;

/// What one model does in its own way. The default suits models whose name says nothing to us.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Profile {
    /// The header that the key goes into.
    pub key_header: KeyHeader,
    /// Whether the model reasons.
    pub reasons: Reasons,
    /// The least and the most effort that it can be told; what is asked for beyond is brought into these bounds.
    pub efforts: (ThinkingLevel, ThinkingLevel),
}

/// Whether a model reasons, which decides what it can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Reasons {
    /// Never: it takes no effort and has no reasoning to hand out.
    Never,
    /// When it is told an effort; it takes a temperature only when it is told none.
    #[default]
    IfAsked,
    /// Always: it takes no temperature.
    Always,
}

const UNKNOWN: Profile =
    Profile { key_header: KeyHeader::Bearer, reasons: Reasons::IfAsked, efforts: (Minimal, XHigh) };
const PLAIN: Profile = Profile { reasons: Reasons::Never, ..UNKNOWN };
const ALWAYS: Profile = Profile { reasons: Reasons::Always, efforts: (Low, High), ..UNKNOWN };

/// By how a model's name begins; the first that fits counts.
const PROFILES: &[(&str, Profile)] = &[
    ("gpt-3", PLAIN),
    ("gpt-4", PLAIN),
    ("chatgpt", PLAIN),
    ("gpt-oss", Profile { efforts: (Low, High), ..UNKNOWN }),
    ("gpt-5-chat", PLAIN),
    ("gpt-5-codex", ALWAYS),
    ("gpt-5-pro", Profile { efforts: (High, High), ..ALWAYS }),
    ("gpt-5.1-codex-max", Profile { efforts: (Low, XHigh), ..UNKNOWN }),
    ("gpt-5.1", Profile { efforts: (Low, High), ..UNKNOWN }),
    ("gpt-5.", Profile { efforts: (Low, XHigh), ..UNKNOWN }),
    ("gpt-6", Profile { efforts: (Low, XHigh), ..UNKNOWN }),
    ("gpt-5", Profile { efforts: (Minimal, High), ..ALWAYS }),
    ("o1", ALWAYS),
    ("o3", ALWAYS),
    ("o4", ALWAYS),
    ("codex", ALWAYS),
];

impl Default for Profile {
    fn default() -> Self {
        UNKNOWN
    }
}

impl Profile {
    /// The profile of this model, with or without what a gateway puts before its name, at this host.
    pub fn of(host: &str, model: &str) -> Profile {
        let name = model.rsplit('/').next().unwrap_or(model);
        let known = PROFILES.iter().find(|(begin, _)| name.starts_with(begin));
        let mut profile = known.map_or(UNKNOWN, |(_, profile)| profile.clone());
        if host.ends_with(".openai.azure.com") {
            profile.key_header = KeyHeader::Named("api-key");
        }
        profile
    }

    /// The effort that the model is told; none if it is not to think.
    pub(super) fn effort(&self, level: ThinkingLevel) -> Option<ThinkingLevel> {
        let (least, most) = self.efforts;
        let told = match level {
            ThinkingLevel::Off => return None,
            level if level < least => least,
            level if level > most => most,
            level => level,
        };
        (self.reasons != Reasons::Never).then_some(told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_whether_the_model_reasons_and_how_much() {
        let effort = |name, level| Profile::of("api.openai.com", name).effort(level);
        assert_eq!(effort("gpt-4.1-mini", High), None);
        assert_eq!(effort("o4-mini", Minimal), Some(Low));
        assert_eq!(effort("gpt-5-mini", Minimal), Some(Minimal));
        assert_eq!(effort("openai/gpt-5.1", XHigh), Some(High));
        assert_eq!(effort("gpt-5.6", XHigh), Some(XHigh));
        assert_eq!(effort("gpt-5.6", ThinkingLevel::Off), None);
        assert_eq!(effort("gpt-6.1-sol", Minimal), Some(Low));
        assert_eq!(effort("qwen3:8b", Minimal), Some(Minimal));
        assert_eq!(Profile::of("me.openai.azure.com", "o3").key_header, KeyHeader::Named("api-key"));
    }
}
