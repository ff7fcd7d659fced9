//! What paths name: a session, a call in it.

use std::collections::HashMap;

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;

use crate::error::{ApiError, Kind};

/// The most bytes of a session's or a call's name.
const LONGEST: usize = 200;

/// The session that a path names. What can be no name is one that is not there.
pub(crate) struct Id(pub(crate) String);

/// The session and the call that a path names.
pub(crate) struct Call(pub(crate) String, pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let none = || ApiError::new(Kind::NotFound, "There is no session of this name.");
        let Path(mut names) = Path::<HashMap<String, String>>::from_request_parts(parts, state)
            .await
            .map_err(|_| none())?;
        names.remove("id").filter(|id| is_name(id)).map(Id).ok_or_else(none)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Call {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Id(id) = Id::from_request_parts(parts, state).await?;
        let none =
            || ApiError::new(Kind::NotFound, "There is no call of this name in the session.");
        let Path(mut names) = Path::<HashMap<String, String>>::from_request_parts(parts, state)
            .await
            .map_err(|_| none())?;
        names
            .remove("call")
            .filter(|call| is_name(call))
            .map(|call| Call(id, call))
            .ok_or_else(none)
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.len() <= LONGEST && !text.contains(char::is_control)
}
