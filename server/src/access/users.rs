//! [`Users`]: the tokens of a server, and whom each of them names.

use super::caller::Caller;
use super::token::TokenDigest;
use crate::error::ConfigError;

/// The minimum length of a token, in characters.
const MIN_TOKEN_CHARS: usize = 16;

/// The tokens that a served server accepts.
#[derive(Clone, Default)]
pub(crate) struct Users(Vec<(TokenDigest, Caller)>);

impl Users {
    /// Adds the token of a caller.
    pub(crate) fn add(&mut self, token: &str, caller: Caller) -> Result<(), ConfigError> {
        if token.chars().count() < MIN_TOKEN_CHARS {
            let why = format!(
                "The token is too short: give one of at least {MIN_TOKEN_CHARS} characters, such \
                 as `openssl rand -hex 16` makes."
            );
            return Err(ConfigError(why.into()));
        }
        self.add_digest(TokenDigest::of(token), caller)
    }

    /// Adds a caller whose token has this digest.
    pub(crate) fn add_digest(
        &mut self,
        digest: TokenDigest,
        caller: Caller,
    ) -> Result<(), ConfigError> {
        if let Some((_, other)) = self.0.iter().find(|(known, _)| *known == digest) {
            let why = format!("`{other}` and `{caller}` have the same token: give each its own.");
            return Err(ConfigError(why.into()));
        }
        self.0.push((digest, caller));
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the caller with this token. The time does not depend on which one it is.
    pub(crate) fn with_token(&self, token: &str) -> Option<&Caller> {
        let digest = TokenDigest::of(token);
        let mut found = None;
        for (known, caller) in &self.0 {
            if known.equals(&digest) {
                found = Some(caller);
            }
        }
        found
    }
}
