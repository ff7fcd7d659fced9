//! [`ModelPattern`]: the name of a model, or a prefix of names.

use std::fmt;

use crate::error::ConfigError;

/// The name of a model, or a prefix of names.
#[derive(Debug, Clone)]
pub(super) enum ModelPattern {
    Name(String),
    Start(String),
}

impl ModelPattern {
    pub(super) fn parse(text: &str) -> Result<Self, ConfigError> {
        let (start, is_start) = text.strip_suffix('*').map_or((text, false), |start| (start, true));
        if start.contains('*') || text.trim().is_empty() {
            let why = format!(
                "`{text}` is no pattern of models: write a name such as `openai/gpt-4o-mini`, or \
                 the start of names and `*`, such as `openai/*`."
            );
            return Err(ConfigError::new(why));
        }
        Ok(match is_start {
            true => ModelPattern::Start(start.to_owned()),
            false => ModelPattern::Name(start.to_owned()),
        })
    }

    pub(super) fn matches(&self, model: &str) -> bool {
        match self {
            ModelPattern::Name(name) => name == model,
            ModelPattern::Start(start) => model.starts_with(start),
        }
    }
}

impl fmt::Display for ModelPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ModelPattern::Name(name) => f.write_str(name),
            ModelPattern::Start(start) => write!(f, "{start}*"),
        }
    }
}
