//! [`DecodeError`].

/// Describes what is wrong with a request, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
#[non_exhaustive]
pub struct DecodeError {
    /// The place in the body, as a JSON Pointer (RFC 6901); empty for the whole body.
    pub path: String,
    /// A sentence that says what is wrong and what to do.
    pub message: String,
}

impl DecodeError {
    /// Builds an error at this place.
    pub fn at(path: impl Into<String>, message: impl Into<String>) -> Self {
        DecodeError { path: path.into(), message: message.into() }
    }
}
