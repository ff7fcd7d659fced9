//! Errors of model requests.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The reason why a model request failed.
///
/// Two errors are equal if their JSON is equal: the source is not compared.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ModelError {
    /// The kind of failure.
    pub kind: ModelErrorKind,
    /// A sentence for people: what was wrong, where, and what to do.
    pub message: String,
    /// The HTTP status, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The delay that the provider asks for before a retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Duration>,
    /// The provider's statement that the same request can, or cannot, succeed later; `None` without
    /// one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub should_retry: Option<bool>,
    /// `true` if a reply had begun, for which the provider may charge.
    #[serde(skip)]
    pub has_begun: bool,
    /// Boxed twice, so that the error stays small.
    #[serde(skip)]
    source: Option<Arc<Box<dyn Error + Send + Sync>>>,
}

impl ModelError {
    /// Builds an error of this kind.
    pub fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        ModelError {
            kind,
            message: message.into(),
            status: None,
            retry_after: None,
            should_retry: None,
            has_begun: false,
            source: None,
        }
    }

    /// Returns whether the same request can succeed later, according to the provider, else to
    /// [`ModelErrorKind::is_retryable`].
    pub fn is_retryable(&self) -> bool {
        self.should_retry.unwrap_or(self.kind.is_retryable())
    }

    /// Sets the error that caused this one. [`Error::source`] returns it. It is not serialised.
    pub fn with_source(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(Arc::new(source.into()));
        self
    }
}

impl PartialEq for ModelError {
    fn eq(&self, other: &Self) -> bool {
        let parts =
            |error: &ModelError| (error.kind, error.status, error.retry_after, error.should_retry);
        parts(self) == parts(other) && self.message == other.message
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for ModelError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| &**source as &(dyn Error + 'static))
    }
}

/// The kind of a [`ModelError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ModelErrorKind {
    /// The key is missing, wrong, or not allowed to make this request.
    Auth,
    /// Too many requests or tokens in a short time.
    RateLimited,
    /// A quota of the account is used up; a short wait does not help.
    QuotaExhausted,
    /// The account has no credit, or another problem with its payment.
    PaymentRequired,
    /// The provider is overloaded or has an internal error.
    Overloaded,
    /// The request is larger than the model's context window.
    ContextOverflow,
    /// The provider rejects the request.
    InvalidRequest,
    /// The provider's moderation or content filter rejected the request or the reply.
    ContentFiltered,
    /// No connection could be made, so nothing was sent: the name of the server is unknown, it
    /// refuses connections, its certificate is not accepted, or the proxy cannot be used.
    Unreachable,
    /// The connection broke.
    Network,
    /// The provider did not answer in time.
    Timeout,
    /// The provider's response could not be parsed.
    Protocol,
    /// The provider could not parse the model's output, such as a tool call that is not JSON. The
    /// next request should tell the model so.
    Malformed,
}

impl ModelErrorKind {
    /// Returns whether the same request can succeed later. After
    /// [`Malformed`](ModelErrorKind::Malformed) a different request is needed.
    pub fn is_retryable(self) -> bool {
        use ModelErrorKind::*;
        matches!(self, RateLimited | Overloaded | Unreachable | Network | Timeout | Protocol)
    }
}
