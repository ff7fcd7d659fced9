//! Path parameters: a session, and a call or a schedule in it.

use std::collections::HashMap;

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;

use crate::error::{ApiError, ErrorKind};

/// Maximum length of the id of a session or call, in bytes.
const MAX_ID_BYTES: usize = 200;

/// The session id in a path. An invalid id is answered like a missing session.
pub(crate) struct SessionId(pub(crate) String);

/// The session and the call in a path.
pub(crate) struct CallPath {
    pub(crate) session: String,
    pub(crate) call: String,
}

/// The id of a schedule in a path.
pub(crate) struct SchedulePath(pub(crate) String);

impl SessionId {
    /// Returns whether a session can have this id.
    pub(crate) fn is_legal(id: &str) -> bool {
        is_id(id)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for SessionId {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        parameter(parts, state, "id")
            .await
            .map(SessionId)
            .ok_or_else(|| ApiError::new(ErrorKind::NotFound, "There is no session with this id."))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for CallPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let SessionId(session) = SessionId::from_request_parts(parts, state).await?;
        match parameter(parts, state, "call").await {
            Some(call) => Ok(CallPath { session, call }),
            None => {
                let why = "There is no call with this id in the session.";
                Err(ApiError::new(ErrorKind::NotFound, why))
            }
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for SchedulePath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        parameter(parts, state, "schedule").await.map(SchedulePath).ok_or_else(|| {
            let why = "There is no such schedule: an id has 1 to 200 bytes, and no control \
                       characters.";
            ApiError::new(ErrorKind::NotFound, why)
        })
    }
}

/// Returns a parameter of the path, or `None` if it is not a valid id.
async fn parameter<S: Send + Sync>(parts: &mut Parts, state: &S, name: &str) -> Option<String> {
    let parameters = Path::<HashMap<String, String>>::from_request_parts(parts, state).await;
    parameters.ok()?.0.remove(name).filter(|id| is_id(id))
}

fn is_id(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_ID_BYTES && !text.contains(char::is_control)
}
