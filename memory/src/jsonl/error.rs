//! Errors of the file system, and blocking work.

use std::io;
use std::path::Path;

use loopwright_core::error::Failure;
use loopwright_core::log::MemoryError;
use tokio::task::spawn_blocking;

/// Returns the error for a failed operation on a file, with its path.
pub(super) fn failed(what: &str, path: &Path, error: io::Error) -> MemoryError {
    let why = format!("{} {what}: {error}", path.display());
    MemoryError::Failed(Failure::new(why).with_source(error))
}

/// Runs blocking work on a thread for it. The work continues even if this future is dropped.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, MemoryError> + Send + 'static,
) -> Result<T, MemoryError> {
    spawn_blocking(work).await.unwrap_or_else(|e| {
        let why = format!("the work on the session's file did not finish: {e}");
        Err(MemoryError::Failed(Failure::new(why).with_source(e)))
    })
}
