//! [`Caller`]: on whose behalf a request is made.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use loopwright_core::agent::Principal;
use loopwright_core::event::Prompt;

use crate::error::{ApiError, ErrorKind};
use crate::server::Server;

/// Extracts the principal of a request: that which a layer of the host has inserted into the
/// request's extensions, else that of the server. No part of the request itself names it.
///
/// A server with a principal of its own refuses requests of others: its sessions work for that
/// principal, also when a request is not there any more that says something else.
pub(crate) struct Caller {
    pub(crate) principal: Option<Principal>,
    /// A layer has named it, so the server may have other callers.
    is_named: bool,
}

impl Caller {
    /// Makes the caller the principal of a request of the user.
    pub(crate) fn sends(self, prompt: Prompt) -> Prompt {
        match self.principal {
            Some(principal) => prompt.with(principal),
            None => prompt,
        }
    }

    /// Returns whom a decision names. On a server of one principal that is nobody: it says nothing.
    pub(crate) fn decider(self) -> Option<Principal> {
        self.principal.filter(|_| self.is_named)
    }
}

impl FromRequestParts<Server> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, server: &Server) -> Result<Self, ApiError> {
        let named = |principal: &&Principal| !principal.as_str().is_empty();
        let of_request = parts.extensions.get::<Principal>().filter(named);
        let of_server = server.shared().principal.as_ref().filter(named);
        match (of_request, of_server) {
            (Some(caller), Some(owner)) if caller != owner => {
                let why = "This server works for another principal: do not set one for the server \
                           if each request has its own.";
                Err(ApiError::new(ErrorKind::Forbidden, why))
            }
            (of_request, of_server) => Ok(Caller {
                principal: of_request.or(of_server).cloned(),
                is_named: of_request.is_some(),
            }),
        }
    }
}
