//! What goes wrong with a session, as clients are told.

use loopwright_core::agent::{AgentError, InputError};
use loopwright_core::log::MemoryError;

use crate::error::{ApiError, Kind};

impl From<MemoryError> for ApiError {
    fn from(error: MemoryError) -> Self {
        let kind = match &error {
            MemoryError::NoSession(_) => Kind::NotFound,
            MemoryError::InUse(_)
            | MemoryError::Conflict { .. }
            | MemoryError::Exists(_)
            | MemoryError::HasBranches { .. } => Kind::Conflict,
            _ => {
                tracing::error!(%error, "the store of sessions failed");
                Kind::Internal
            }
        };
        ApiError::new(kind, sentence(&error))
    }
}

impl From<InputError> for ApiError {
    fn from(error: InputError) -> Self {
        let kind = match &error {
            InputError::Memory(memory) => return memory.clone().into(),
            InputError::Full(_) => Kind::TooMany,
            InputError::Busy
            | InputError::NothingToContinue
            | InputError::Known(_)
            | InputError::NotPending(_)
            | InputError::DigestDiffers(_)
            | InputError::NoCompaction
            | InputError::NotCompacted(_)
            | InputError::Gone => Kind::Conflict,
            InputError::BadArguments(_) => return ApiError::at("/arguments", sentence(&error)),
            InputError::BadDecision(_) => return ApiError::at("/decision", sentence(&error)),
            _ => Kind::BadRequest,
        };
        ApiError::new(kind, sentence(&error))
    }
}

impl From<AgentError> for ApiError {
    fn from(error: AgentError) -> Self {
        match error {
            AgentError::Memory(memory) => memory.into(),
            other => ApiError::new(Kind::Internal, sentence(&other)),
        }
    }
}

/// A run goes on, so the session cannot be deleted.
pub(crate) fn running() -> ApiError {
    ApiError::new(
        Kind::Conflict,
        "A run goes on in this session: abort it first, and delete the session then.",
    )
}

fn sentence(error: &dyn std::fmt::Display) -> String {
    let text = error.to_string();
    let mut letters = text.chars();
    let mut text: String =
        letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect();
    if !text.ends_with(['.', '!', '?']) {
        text.push('.');
    }
    text
}

/// Enough of a text to know it by.
pub(crate) fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(200).collect()
}
