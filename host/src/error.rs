//! [`ConfigError`]: the reason that a host could not be set up.

use std::fmt;

use loopwright_core::error::Failure;

/// The reason that a server or another host could not be set up, as a sentence for its operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError(Failure);

impl ConfigError {
    /// Creates an error with a sentence, or with the error of a library.
    pub fn new(why: impl Into<Failure>) -> Self {
        ConfigError(why.into())
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}
