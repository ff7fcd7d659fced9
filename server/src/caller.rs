//! [`Caller`]: on whose behalf a request is made.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use loopwright_core::agent::Principal;
use loopwright_core::event::Prompt;

use crate::server::Server;

/// Extracts the principal of a request: that which a layer of the host has inserted into the
/// request's extensions, else that of the server. No part of the request itself names it.
pub(crate) struct Caller(pub(crate) Option<Principal>);

impl Caller {
    /// Makes the caller the principal of a message.
    pub(crate) fn sends(self, prompt: Prompt) -> Prompt {
        match self.0 {
            Some(principal) => prompt.with(principal),
            None => prompt,
        }
    }
}

impl FromRequestParts<Server> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, server: &Server) -> Result<Self, Infallible> {
        let of_request = parts.extensions.get::<Principal>().cloned();
        Ok(Caller(of_request.or_else(|| server.shared().principal.clone())))
    }
}
