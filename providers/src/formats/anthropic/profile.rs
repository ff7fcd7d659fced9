//! Deviations of models and servers that speak Anthropic Messages, as data.

use crate::formats::codec::{self, KeyHeader};

/// Settings for the encoding of a request in this format.
pub type Settings = codec::Settings<Profile>;

/// Deviations of one model. The default suits servers other than Anthropic's.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Profile {
    /// Header that carries the key.
    pub key_header: KeyHeader,
    /// Form of the thinking level in a request.
    pub thinks: Thinks,
    /// The `type` of `thinking` that disables thinking. `None` if the model thinks only on request,
    /// or always.
    pub off: Option<&'static str>,
    /// `true` if a tool call can be forced. Otherwise text asks for it.
    pub forces: bool,
    /// `true` if thinking is bound to everything before it: the model refuses thinking after a
    /// changed history.
    pub binds: bool,
    /// `true` if a temperature is accepted while the model does not think.
    pub temperature: bool,
    /// Output limit if neither the request nor the model has one, in tokens. Thinking is added to
    /// it.
    pub max_tokens: u32,
    /// `true` to mark content for the server's prompt cache.
    pub cache: bool,
    /// Form of the output schema in a request.
    pub answers: Answers,
}

/// The form of the output schema in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Answers {
    /// A tool that the model must call with the answer. The call becomes the reply's text.
    #[default]
    Tool,
    /// A schema, if a grammar can express it.
    Schema,
}

/// The form of the thinking level in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Thinks {
    /// A number of tokens.
    #[default]
    Budget,
    /// An effort. The model decides how many tokens it takes.
    Effort,
}

const COMPATIBLE: Profile = Profile {
    key_header: KeyHeader::Named("x-api-key"),
    thinks: Thinks::Budget,
    off: None,
    forces: true,
    binds: false,
    temperature: true,
    max_tokens: 8192,
    cache: true,
    answers: Answers::Tool,
};
const OLDEST: Profile = Profile { max_tokens: 4096, ..COMPATIBLE };
const FROM_4_5: Profile = Profile { answers: Answers::Schema, ..COMPATIBLE };
const FROM_4_6: Profile = Profile { thinks: Thinks::Effort, ..FROM_4_5 };
const FROM_4_7: Profile = Profile { temperature: false, ..FROM_4_6 };
/// Models that think by default.
const FROM_5: Profile = Profile { off: Some("disabled"), ..FROM_4_7 };
const HAIKU_5_5: Profile = Profile { binds: true, ..FROM_5 };
/// The newest models, and unknown ones.
const NEWEST: Profile = Profile { forces: false, binds: true, ..FROM_4_7 };
const SONNET_5_5: Profile = Profile { off: Some("between_tools"), ..NEWEST };

/// Profiles by the part of a model's name after `claude-`. The first match counts.
const PROFILES: &[(&str, Profile)] = &[
    ("3-opus", OLDEST),
    ("3-haiku", OLDEST),
    ("3", COMPATIBLE),
    ("haiku-4", FROM_4_5),
    ("haiku-5", HAIKU_5_5),
    ("sonnet-4-5", FROM_4_5),
    ("sonnet-4.5", FROM_4_5),
    ("sonnet-4-6", FROM_4_6),
    ("sonnet-4.6", FROM_4_6),
    ("sonnet-4", COMPATIBLE),
    ("sonnet-5-5", SONNET_5_5),
    ("sonnet-5.5", SONNET_5_5),
    ("sonnet-5", FROM_5),
    ("opus-4-5", FROM_4_5),
    ("opus-4.5", FROM_4_5),
    ("opus-4-6", FROM_4_6),
    ("opus-4.6", FROM_4_6),
    ("opus-4-7", FROM_4_7),
    ("opus-4.7", FROM_4_7),
    ("opus-4-8", FROM_4_7),
    ("opus-4.8", FROM_4_7),
    ("opus-4", COMPATIBLE),
    ("opus-5-5", NEWEST),
    ("opus-5.5", NEWEST),
    ("opus-5", FROM_5),
    ("fable-5-20", FROM_4_7), // a date
    ("fable-5-", NEWEST),
    ("fable-5.", NEWEST),
    ("fable-5", FROM_4_7),
    ("mythos-5-20", FROM_4_7),
    ("mythos-5-", NEWEST),
    ("mythos-5.", NEWEST),
    ("mythos-5", FROM_4_7),
    ("", NEWEST),
];

impl Default for Profile {
    fn default() -> Self {
        COMPATIBLE
    }
}

impl Profile {
    /// Returns the profile of the model called `name`, with or without a gateway's prefix.
    pub fn of_model(name: &str) -> Profile {
        let Some((_, name)) = name.split_once("claude-") else {
            return COMPATIBLE;
        };
        PROFILES
            .iter()
            .find(|(begin, _)| name.starts_with(begin))
            .map_or(COMPATIBLE, |(_, profile)| profile.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_how_the_model_thinks() {
        let thinks = |name| Profile::of_model(name).thinks;
        assert_eq!(thinks("claude-sonnet-4-5-20250929"), Thinks::Budget);
        assert_eq!(thinks("anthropic/claude-opus-4.7"), Thinks::Effort);
        assert_eq!(thinks("claude-sonnet-9"), Thinks::Effort);
        assert_eq!(thinks("glm-4.7"), Thinks::Budget);
        let answers = |name| Profile::of_model(name).answers;
        assert_eq!(answers("claude-sonnet-4-5-20250929"), Answers::Schema);
        assert_eq!(answers("claude-sonnet-4-20250514"), Answers::Tool);
        assert_eq!(answers("claude-opus-4-1"), Answers::Tool);
        assert_eq!(answers("claude-sonnet-9"), Answers::Schema);
        assert_eq!(Profile::of_model("claude-3-haiku-20240307").max_tokens, 4096);
    }

    #[test]
    fn a_name_tells_what_the_model_refuses() {
        for (name, off, forces, binds, temperature) in [
            ("claude-opus-4-5", None, true, false, true),
            ("claude-sonnet-4-6", None, true, false, true),
            ("claude-opus-4-8", None, true, false, false),
            ("claude-opus-5", Some("disabled"), true, false, false),
            ("anthropic/claude-sonnet-5", Some("disabled"), true, false, false),
            ("claude-haiku-5-5", Some("disabled"), true, true, false),
            ("claude-sonnet-5-5-20260928", Some("between_tools"), false, true, false),
            ("claude-opus-5.5", None, false, true, false),
            ("claude-fable-5", None, true, false, false),
            ("claude-fable-5-20260601", None, true, false, false),
            ("claude-fable-5-1", None, false, true, false),
            ("claude-opus-9", None, false, true, false),
        ] {
            let Profile {
                off: is_off, forces: is_forced, binds: is_bound, temperature: takes, ..
            } = Profile::of_model(name);
            assert_eq!(
                (is_off, is_forced, is_bound, takes),
                (off, forces, binds, temperature),
                "{name}"
            );
        }
    }
}
