//! Deviations of models that speak Gemini, as data.

use crate::formats::codec;

/// Settings for the encoding of a request in this format.
pub type Settings = codec::Settings<Profile>;

/// Deviations of one model. The default suits models other than Gemini.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Profile {
    /// Form of the thinking level in a request.
    pub thinks: Thinks,
    /// `true` if calls without a signature are refused. They get a placeholder.
    pub signed_calls: bool,
    /// `true` if a result may contain images. Otherwise they follow it.
    pub images_in_results: bool,
    /// `true` if an output schema is accepted together with tools. Otherwise a tool takes the
    /// answer, and its call becomes text.
    pub schema_beside_tools: bool,
}

/// The form of the thinking level in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Thinks {
    /// No request: the body contains no thinking configuration.
    #[default]
    Never,
    /// A number of tokens.
    Budget {
        /// Smallest budget, in tokens.
        min: u32,
        /// Largest budget, in tokens.
        max: u32,
        /// `true` if a budget of 0 is accepted, which switches thinking off.
        off: bool,
    },
    /// A level. Thinking cannot be switched off.
    Level {
        /// Lowest level.
        min: &'static str,
        /// Middle level, or the nearest one.
        medium: &'static str,
    },
}

const OTHER: Profile = Profile {
    thinks: Thinks::Never,
    signed_calls: false,
    images_in_results: false,
    schema_beside_tools: false,
};
const PRO_2_5: Profile =
    Profile { thinks: Thinks::Budget { min: 128, max: 32_768, off: false }, ..OTHER };
const FLASH_2_5: Profile =
    Profile { thinks: Thinks::Budget { min: 128, max: 24_576, off: true }, ..OTHER };
const LITE_2_5: Profile =
    Profile { thinks: Thinks::Budget { min: 512, max: 24_576, off: true }, ..OTHER };
const NEWER: Profile = Profile {
    thinks: Thinks::Level { min: "low", medium: "medium" },
    signed_calls: true,
    images_in_results: true,
    schema_beside_tools: true,
};
const PRO_3: Profile = Profile { thinks: Thinks::Level { min: "low", medium: "high" }, ..NEWER };
const FLASH_3: Profile =
    Profile { thinks: Thinks::Level { min: "minimal", medium: "medium" }, ..NEWER };

/// Profiles by the part of a model's name after `gemini-`. The first match counts.
const PROFILES: &[(&str, Profile)] = &[
    ("1", OTHER),
    ("2.0", OTHER),
    ("2.5-flash-image", OTHER),
    ("2.5-flash-lite", LITE_2_5),
    ("2.5-flash", FLASH_2_5),
    ("2.5", PRO_2_5),
    ("3-pro", PRO_3),
    ("3-flash", FLASH_3),
    ("", NEWER),
];

impl Default for Profile {
    fn default() -> Self {
        OTHER
    }
}

impl Profile {
    /// Returns the profile of the model called `name`, with or without a prefix.
    pub fn of_model(name: &str) -> Profile {
        let Some((_, name)) = name.split_once("gemini-") else {
            return OTHER;
        };
        PROFILES
            .iter()
            .find(|(begin, _)| name.starts_with(begin))
            .map_or(OTHER, |(_, profile)| profile.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_how_the_model_thinks() {
        let thinks = |name| Profile::of_model(name).thinks;
        assert_eq!(thinks("gemini-2.5-flash-lite"), LITE_2_5.thinks);
        assert_eq!(thinks("models/gemini-2.5-pro"), PRO_2_5.thinks);
        assert_eq!(thinks("gemini-2.0-flash"), Thinks::Never);
        assert_eq!(thinks("gemini-3-pro-preview"), PRO_3.thinks);
        assert_eq!(thinks("gemini-3.1-pro-preview"), NEWER.thinks);
        assert_eq!(thinks("gemma-3-27b-it"), Thinks::Never);
        assert!(Profile::of_model("gemini-3-flash-preview").signed_calls);
        assert!(!Profile::of_model("gemini-2.5-pro").signed_calls);
    }
}
