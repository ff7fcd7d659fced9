//! [`InvalidCursor`]: a text that is no position in a list.

/// Describes a text that is no position in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is no position in the list: use that of the page before")]
#[non_exhaustive]
pub struct InvalidCursor;
