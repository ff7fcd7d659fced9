//! The error of retrievers and of embedders.

use std::error::Error;

use super::Failure;

/// Describes why a [`Retriever`](crate::retrieval::Retriever) or an
/// [`Embedder`](crate::retrieval::Embedder) has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RetrievalError {
    /// The source or the model cannot be used now; the text says why and what to do.
    #[error(transparent)]
    Failed(Failure),
}

impl RetrievalError {
    /// Builds a failure from another error, whose text becomes the message. With a message alone it
    /// is `RetrievalError::Failed("the index is missing".into())`.
    pub fn failed(error: impl Error + Send + Sync + 'static) -> Self {
        RetrievalError::Failed(Failure::of(error))
    }
}
