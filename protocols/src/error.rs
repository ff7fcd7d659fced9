//! [`DecodeError`]: an error in a client's request.

/// An error in a request, and its position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
#[non_exhaustive]
pub struct DecodeError {
    /// The position in the body, as a JSON Pointer (RFC 6901). Empty for the whole body.
    pub path: String,
    /// A sentence about what is wrong and what to do.
    pub message: String,
}

impl DecodeError {
    /// Builds an error at this position.
    pub fn at(path: impl Into<String>, message: impl Into<String>) -> Self {
        DecodeError { path: path.into(), message: message.into() }
    }
}
