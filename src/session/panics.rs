//! Panics of the host's code, and their messages.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;

use crate::error::MemoryError;

/// Returns the message of a panic.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("without a text").to_owned()
}

/// Returns an error if the memory panics.
pub(crate) fn without_panic<T>(
    call: impl Future<Output = Result<T, MemoryError>>,
) -> impl Future<Output = Result<T, MemoryError>> {
    let panicked = |_| Err(MemoryError::Failed("the session's memory panicked".into()));
    AssertUnwindSafe(call).catch_unwind().map(move |done| done.unwrap_or_else(panicked))
}
