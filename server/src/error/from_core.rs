//! Conversions of the errors of sessions, stores and hosts into API errors.

use loopwright_core::agent::{AgentError, InputError};
use loopwright_core::log::{InvalidSchedule, MemoryError};
use loopwright_host::{AgentRejection, RejectionKind};
use loopwright_protocols::DecodeError;

use super::{ApiError, ErrorKind};

impl From<MemoryError> for ApiError {
    fn from(error: MemoryError) -> Self {
        let kind = match &error {
            MemoryError::NoSession(_) | MemoryError::NoSchedules => ErrorKind::NotFound,
            MemoryError::InUse(_)
            | MemoryError::Conflict { .. }
            | MemoryError::Lost
            | MemoryError::Exists(_)
            | MemoryError::HasBranches { .. }
            | MemoryError::SubAgent { .. }
            | MemoryError::TooManySchedules { .. } => ErrorKind::Conflict,
            MemoryError::MailboxFull { .. } => ErrorKind::TooMany,
            _ => {
                tracing::error!(%error, "the session store failed");
                ErrorKind::Internal
            }
        };
        ApiError::new(kind, sentence(&error))
    }
}

impl From<InvalidSchedule> for ApiError {
    fn from(error: InvalidSchedule) -> Self {
        let path = match &error {
            InvalidSchedule::Input(error) => return error.clone().into(),
            InvalidSchedule::Cron { .. } | InvalidSchedule::NeverDue(_) => "/cron",
            InvalidSchedule::TimeZone(_) | InvalidSchedule::NeedsCron => "/time_zone",
            InvalidSchedule::Past => "/time",
            _ => return ApiError::new(ErrorKind::BadRequest, sentence(&error)),
        };
        ApiError::at(path, sentence(&error))
    }
}

impl From<InputError> for ApiError {
    fn from(error: InputError) -> Self {
        let kind = match &error {
            InputError::Memory(memory) => return memory.clone().into(),
            InputError::Full(_) | InputError::QueueFull { .. } | InputError::SignalsFull(_) => {
                ErrorKind::TooMany
            }
            InputError::Busy => ErrorKind::RunInProgress,
            InputError::BadArguments(_) => return ApiError::at("/arguments", sentence(&error)),
            InputError::BadDecision(_) => return ApiError::at("/decision", sentence(&error)),
            InputError::BadSignal(_) => return ApiError::at("/value", sentence(&error)),
            InputError::OutputSchema(_) | InputError::NotPostable(_) | InputError::StartsNoRun => {
                ErrorKind::BadRequest
            }
            // The input is right, but not for the present state of the session.
            _ => ErrorKind::Conflict,
        };
        ApiError::new(kind, sentence(&error))
    }
}

impl From<DecodeError> for ApiError {
    fn from(error: DecodeError) -> Self {
        ApiError::at(error.path, error.message)
    }
}

impl From<AgentError> for ApiError {
    fn from(error: AgentError) -> Self {
        match error {
            AgentError::Memory(memory) => memory.into(),
            other => ApiError::new(ErrorKind::Internal, sentence(&other)),
        }
    }
}

impl From<AgentRejection> for ApiError {
    fn from(rejection: AgentRejection) -> Self {
        let kind = match rejection.kind() {
            RejectionKind::BadRequest => ErrorKind::BadRequest,
            RejectionKind::Unauthorized => ErrorKind::Unauthorized,
            RejectionKind::NotAllowed => ErrorKind::NotAllowed,
            RejectionKind::UnknownAgent => ErrorKind::UnknownAgent,
            RejectionKind::Internal => ErrorKind::Internal,
        };
        let error = ApiError::new(kind, rejection.message());
        match rejection.path() {
            Some(path) => error.with_path(path),
            None => error,
        }
    }
}

/// Returns the error's text with a capital letter and a full stop.
fn sentence(error: &dyn std::fmt::Display) -> String {
    let text = error.to_string();
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    let mut text: String = first.chain(letters).collect();
    if !text.ends_with(['.', '!', '?']) {
        text.push('.');
    }
    text
}
