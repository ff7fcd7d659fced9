//! [`Users`]: the tokens of a server and their callers.

use loopwright_core::Principal;
use loopwright_host::ConfigError;

use super::caller::Caller;
#[cfg(feature = "jwt")]
use super::jwt::{JwtUsers, JwtVerifier, invalid};
use super::name::{check_name, is_alike};
use super::token::TokenDigest;
use crate::error::{ApiError, ErrorKind};

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
            return Err(ConfigError::new(why));
        }
        self.add_digest(TokenDigest::of(token), caller)
    }

    /// Adds a caller whose token has this digest.
    pub(crate) fn add_digest(
        &mut self,
        digest: TokenDigest,
        caller: Caller,
    ) -> Result<(), ConfigError> {
        if let Some(name) = caller.named().map(Principal::as_str) {
            let invalid = |why: String| Err(ConfigError::new(why));
            if let Err(why) = check_name(name) {
                let name = name.escape_debug();
                return invalid(format!("A user cannot have the name `{name}`: it {why}."));
            }
            if let Some(other) = self.alike(name).filter(|other| *other != name) {
                return invalid(format!(
                    "The names `{name}` and `{other}` differ only in case: choose others."
                ));
            }
        }
        if let Some((_, other)) = self.by_token.iter().find(|(known, _)| *known == digest) {
            let why = format!("`{other}` and `{caller}` have the same token: give each its own.");
            return Err(ConfigError::new(why));
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

    /// Returns whether a token names anybody but the operator.
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
            let caller = jwt.caller(token).await?;
            return self.check_issued(caller);
        }
        Err(ApiError::new(
            ErrorKind::Token,
            "The token is missing or wrong: send `Authorization: Bearer TOKEN` with a token of \
             this server.",
        ))
    }

    /// Checks that the caller of an issuer's token is not also a user of this server.
    #[cfg(feature = "jwt")]
    fn check_issued(&self, caller: Caller) -> Result<Caller, ApiError> {
        let name = caller.named().map(Principal::as_str).unwrap_or_default();
        check_name(name)
            .map_err(|why| invalid(&format!("the name in it, `{}`, {why}", name.escape_debug())))?;
        if self.alike(name).is_some() {
            tracing::warn!(%caller, "a token of the issuer names a user of this server");
            return Err(ApiError::new(
                ErrorKind::Token,
                format!(
                    "The token names `{caller}`, who is another user of this server: ask the \
                     server's operator to rename that one."
                ),
            ));
        }
        Ok(caller)
    }

    /// Returns the name of a user that differs from `name` at most in case.
    fn alike(&self, name: &str) -> Option<&str> {
        let mut names = self.by_token.iter().filter_map(|(_, own)| own.named());
        names.find(|own| is_alike(own.as_str(), name)).map(Principal::as_str)
    }

    /// Returns the caller with this token. The time does not depend on which token it is.
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
