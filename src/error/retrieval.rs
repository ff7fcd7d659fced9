//! The error of retrievers and embedders.

use std::error::Error;

use super::Failure;

/// The reason why a [`Retriever`](crate::retrieval::Retriever) or an
/// [`Embedder`](crate::retrieval::Embedder) has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RetrievalError {
    /// The source or the model is not usable now. The text names the reason and the remedy.
    #[error(transparent)]
    Failed(Failure),
}

impl RetrievalError {
    /// Builds a failure from another error, whose text becomes the message. For a message alone,
    /// write `RetrievalError::Failed("the index is missing".into())`.
    pub fn failed(error: impl Error + Send + Sync + 'static) -> Self {
        RetrievalError::Failed(Failure::of(error))
    }
}
