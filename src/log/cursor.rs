//! [`InvalidCursor`], the error of a text that is not a position in a list.

/// The error of a text that is not a position in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is no position in the list: use that of the page before")]
#[non_exhaustive]
pub struct InvalidCursor;
