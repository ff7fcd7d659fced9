//! Deviations of models and servers that speak Anthropic Messages, as data.

use crate::codec::{self, KeyHeader};

/// Configures the encoding of a request in this format.
pub type Settings = codec::Settings<Profile>;

/// Describes how one model deviates. The default suits servers other than Anthropic's.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Profile {
    /// Names the header that carries the key.
    pub key_header: KeyHeader,
    /// Says how the amount of thinking is requested.
    pub thinks: Thinks,
    /// Holds the type of `thinking` that disables thinking; `None` if the model thinks only on
    /// request, or always.
    pub off: Option<&'static str>,
    /// Says whether a tool call can be forced; otherwise text asks for it.
    pub forces: bool,
    /// Says whether thinking is bound to everything before it: the model refuses thinking whose
    /// history has changed.
    pub binds: bool,
    /// Says whether a temperature is accepted while the model does not think.
    pub temperature: bool,
    /// Holds the output limit where neither the request nor the model has one; thinking is added to
    /// it.
    pub max_tokens: u32,
    /// Says whether to mark what the server should keep in its prompt cache.
    pub cache: bool,
    /// Says how an output schema is sent.
    pub answers: Answers,
}

/// Describes how an output schema is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Answers {
    /// As a tool that the model must call with the answer; the call becomes the reply's text.
    #[default]
    Tool,
    /// As a schema, if a grammar can express it.
    Schema,
}

/// Describes how the amount of thinking is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Thinks {
    /// As a number of tokens.
    #[default]
    Budget,
    /// As an effort; the model decides how many tokens that takes.
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

/// By the part of a model's name after `claude-`; the first match counts.
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
