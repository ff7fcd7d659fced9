//! What models and servers that speak Anthropic Messages do each in its own way: data, not code.

use crate::codec::KeyHeader;

/// What one model does in its own way. The default suits servers other than Anthropic's.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Profile {
    /// The header that the key goes into.
    pub key_header: KeyHeader,
    /// How a model is told how much to think.
    pub thinks: Thinks,
    /// The output limit where the request has none and that of the model is not known; thinking comes on top.
    pub max_tokens: u32,
    /// Whether to mark what the server should keep in its prompt cache.
    pub cache: bool,
    /// How it is asked for an answer that fits a schema.
    pub answers: Answers,
}

/// How a model is asked for an answer that fits a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Answers {
    /// By a tool that it has to call with the answer; the call becomes the reply's text.
    #[default]
    Tool,
    /// By the schema, where that can be a grammar.
    Schema,
}

/// How a model is told how much to think.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Thinks {
    /// By a number of tokens.
    #[default]
    Budget,
    /// By an effort; it decides for itself how many tokens that takes. Such a model refuses a temperature.
    Effort,
}

const COMPATIBLE: Profile = Profile {
    key_header: KeyHeader::Named("x-api-key"),
    thinks: Thinks::Budget,
    max_tokens: 8192,
    cache: true,
    answers: Answers::Tool,
};
const OLDEST: Profile = Profile { max_tokens: 4096, ..COMPATIBLE };
const FROM_4_5: Profile = Profile { answers: Answers::Schema, ..COMPATIBLE };
const NEWER: Profile = Profile { thinks: Thinks::Effort, ..FROM_4_5 };

/// By how a model's name goes on after `claude-`; the first that fits counts.
const PROFILES: &[(&str, Profile)] = &[
    ("3-opus", OLDEST),
    ("3-haiku", OLDEST),
    ("3", COMPATIBLE),
    ("haiku-4", FROM_4_5),
    ("sonnet-4-5", FROM_4_5),
    ("sonnet-4.5", FROM_4_5),
    ("sonnet-4-6", FROM_4_5),
    ("sonnet-4.6", FROM_4_5),
    ("sonnet-4", COMPATIBLE),
    ("opus-4-5", FROM_4_5),
    ("opus-4.5", FROM_4_5),
    ("opus-4-6", FROM_4_5),
    ("opus-4.6", FROM_4_5),
    ("opus-4-7", NEWER),
    ("opus-4.7", NEWER),
    ("opus-4-8", NEWER),
    ("opus-4.8", NEWER),
    ("opus-4", COMPATIBLE),
    ("", NEWER),
];

impl Default for Profile {
    fn default() -> Self {
        COMPATIBLE
    }
}

impl Profile {
    /// The profile of the model called `name`, with or without what a gateway puts before it.
    pub fn of_model(name: &str) -> Profile {
        let Some((_, name)) = name.split_once("claude-") else { return COMPATIBLE };
        PROFILES.iter().find(|(begin, _)| name.starts_with(begin)).map_or(COMPATIBLE, |(_, profile)| profile.clone())
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
}
