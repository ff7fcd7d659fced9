//! A message together with the error that caused it.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The message of an error and, if known, the error that caused it.
///
/// Variants such as [`MemoryError::Failed`](crate::log::MemoryError::Failed) and
/// [`StepError::Pattern`](crate::StepError::Pattern) contain one. [`Error::source`] returns the
/// cause, so it can be downcast to the type of the library that failed.
///
/// Two failures are equal if their messages are equal; causes are not compared. A failure is
/// serialised as its message, without the cause.
///
/// ```
/// use std::error::Error;
/// use std::io;
///
/// use loopwright_core::error::Failure;
/// use loopwright_core::log::MemoryError;
///
/// let cause = io::Error::other("connection reset");
/// let failure = Failure::new(format!("the store cannot be read: {cause}")).with_source(cause);
/// let error = MemoryError::Failed(failure);
/// assert!(error.source().unwrap().downcast_ref::<io::Error>().is_some());
/// ```
#[derive(Clone)]
pub struct Failure {
    message: Arc<str>,
    /// Boxed twice, so that errors with a failure stay small.
    source: Option<Arc<Box<dyn Error + Send + Sync>>>,
}

impl Failure {
    /// Builds a failure without a cause.
    pub fn new(message: impl Into<Arc<str>>) -> Self {
        Failure { message: message.into(), source: None }
    }

    /// Builds a failure from the error that caused it. The error's text becomes the message.
    pub fn of(error: impl Error + Send + Sync + 'static) -> Self {
        Failure::new(error.to_string()).with_source(error)
    }

    /// Sets the error that caused the failure. The message should already contain the essence of
    /// it, because front ends show only the message.
    pub fn with_source(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(Arc::new(source.into()));
        self
    }

    /// Returns the message.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Some(source) => write!(f, "{:?} (from {source:?})", self.message),
            None => write!(f, "{:?}", self.message),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| &**source as &(dyn Error + 'static))
    }
}

impl PartialEq for Failure {
    fn eq(&self, other: &Self) -> bool {
        self.message == other.message
    }
}

impl Eq for Failure {}

impl Serialize for Failure {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.message)
    }
}

impl<'de> Deserialize<'de> for Failure {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from).map(Failure::from)
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Failure::new(message)
    }
}

impl From<&str> for Failure {
    fn from(message: &str) -> Self {
        Failure::new(message)
    }
}
