//! [`Users`]: the tokens of a server, and whom each of them names.

use super::caller::Caller;
#[cfg(feature = "jwt")]
use super::jwt::{JwtUsers, JwtVerifier};
use super::token::TokenDigest;
use crate::error::{ApiError, ConfigError, ErrorKind};

/// The minimum length of a token, in characters.
const MIN_TOKEN_CHARS: usize = 16;

/// The tokens that a served server accepts.
#[derive(Default)]
pub(crate) struct Users {
    by_token: Vec<(TokenDigest, Caller)>,
    #[cfg(feature = "jwt")]
    jwt: Option<JwtVerifier>,
}

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
        if let Some((_, other)) = self.by_token.iter().find(|(known, _)| *known == digest) {
            let why = format!("`{other}` and `{caller}` have the same token: give each its own.");
            return Err(ConfigError(why.into()));
        }
        self.by_token.push((digest, caller));
        Ok(())
    }

    /// Accepts the tokens of an issuer too.
    #[cfg(feature = "jwt")]
    pub(crate) fn set_jwt(&mut self, users: JwtUsers) -> Result<(), ConfigError> {
        self.jwt = Some(JwtVerifier::new(users)?);
        Ok(())
    }

    /// Returns whether no token is needed.
    pub(crate) fn is_empty(&self) -> bool {
        #[cfg(feature = "jwt")]
        if self.jwt.is_some() {
            return false;
        }
        self.by_token.is_empty()
    }

    /// Returns whether a token names somebody else than the operator.
    pub(crate) fn has_others(&self) -> bool {
        #[cfg(feature = "jwt")]
        if self.jwt.is_some() {
            return true;
        }
        self.by_token.iter().any(|(_, caller)| caller.named().is_some())
    }

    /// Returns the caller with this token.
    pub(crate) async fn caller(&self, token: Option<&str>) -> Result<Caller, ApiError> {
        let token = token.unwrap_or_default();
        if let Some(caller) = self.with_token(token) {
            return Ok(caller.clone());
        }
        #[cfg(feature = "jwt")]
        if let Some(jwt) = &self.jwt
            && token.contains('.')
        {
            return jwt.caller(token).await;
        }
        Err(ApiError::new(
            ErrorKind::Token,
            "The token is missing or wrong: send `Authorization: Bearer TOKEN` with a token of \
             this server.",
        ))
    }

    /// Looks a token up. The time does not depend on which one it is.
    fn with_token(&self, token: &str) -> Option<&Caller> {
        let digest = TokenDigest::of(token);
        let mut found = None;
        for (known, caller) in &self.by_token {
            if known.equals(&digest) {
                found = Some(caller);
            }
        }
        found
    }
}
