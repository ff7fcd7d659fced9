//! Options with a fixed set of values.

use std::convert::Infallible;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use loopwright_core::model::ThinkingLevel;
use loopwright_server::CODING_LOOPS;
use serde::{Deserialize, Serialize};

/// A choice of tools that run without approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Approve {
    ReadOnly,
    All,
    Tool(String),
}

impl Approve {
    /// Parses a word: `read-only`, `all`, or a tool's name.
    pub(crate) fn of(word: &str) -> Self {
        match word {
            "read-only" => Approve::ReadOnly,
            "all" => Approve::All,
            tool => Approve::Tool(tool.to_owned()),
        }
    }

    /// Returns the word that parses to this value.
    pub(crate) fn word(&self) -> String {
        match self {
            Approve::ReadOnly => "read-only".to_owned(),
            Approve::All => "all".to_owned(),
            Approve::Tool(name) => name.clone(),
        }
    }

    /// Parses a word, in the form that clap requires.
    pub(super) fn read(word: &str) -> Result<Self, Infallible> {
        Ok(Self::of(word))
    }
}

/// Returns the parser of the name of a loop.
pub(super) fn pattern() -> PossibleValuesParser {
    CODING_LOOPS.map(|(name, help)| PossibleValue::new(name).help(help)).into()
}

/// Returns the parser of [`ThinkingLevel`] on the command line.
pub(super) fn thinking() -> impl TypedValueParser<Value = ThinkingLevel> {
    let names = PossibleValuesParser::new(ThinkingLevel::ALL.map(ThinkingLevel::name));
    names.try_map(|name| name.parse())
}
