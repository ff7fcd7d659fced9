//! Options with a fixed set of values.

use std::convert::Infallible;

use clap::ValueEnum;
use loopwright_core::model::ThinkingLevel;
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

/// The loop of an agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Pattern {
    /// One plain loop: every message sent during a run is delivered before the next model request.
    Generic,
    /// Two loops: steers are delivered before the next model request, follow-ups at the end.
    #[default]
    Pi,
    /// Every request begins with a plan, and nothing is changed before you have accepted it.
    PlanFirst,
    /// A plan, its first step, a new plan, until the request is done.
    PlanExecute,
    /// The model judges its answer, and improves it up to two times.
    Reflect,
    /// Five answers at once, without tools; the most frequent one wins.
    SelfConsistency,
    /// The model asks back while a request is unclear, up to three times.
    Clarify,
    /// Tools for models that cannot call any: actions in the text.
    React,
}

impl Pattern {
    /// Returns the word that selects the loop.
    pub(super) fn word(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Parses a word. The error says that no such loop exists.
    pub(super) fn of(word: &str) -> Result<Self, String> {
        <Self as ValueEnum>::from_str(word, false)
            .map_err(|_| format!("there is no pattern `{word}`"))
    }
}

/// The amount of thinking: [`ThinkingLevel`] on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Thinking {
    Off,
    Minimal,
    Low,
    Medium,
    High,
    #[value(name = "xhigh")]
    XHigh,
}

impl From<ThinkingLevel> for Thinking {
    fn from(level: ThinkingLevel) -> Self {
        match level {
            ThinkingLevel::Off => Thinking::Off,
            ThinkingLevel::Minimal => Thinking::Minimal,
            ThinkingLevel::Low => Thinking::Low,
            ThinkingLevel::Medium => Thinking::Medium,
            ThinkingLevel::High => Thinking::High,
            ThinkingLevel::XHigh => Thinking::XHigh,
        }
    }
}

impl From<Thinking> for ThinkingLevel {
    fn from(level: Thinking) -> Self {
        match level {
            Thinking::Off => ThinkingLevel::Off,
            Thinking::Minimal => ThinkingLevel::Minimal,
            Thinking::Low => ThinkingLevel::Low,
            Thinking::Medium => ThinkingLevel::Medium,
            Thinking::High => ThinkingLevel::High,
            Thinking::XHigh => ThinkingLevel::XHigh,
        }
    }
}
