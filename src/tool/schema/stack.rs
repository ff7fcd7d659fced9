//! [`on_stack`]: deep recursion on a large enough stack.

use std::io;
use std::panic::resume_unwind;
use std::thread;

/// Maximum stack of one level of recursion, in an unoptimised build.
const LEVEL_BYTES: usize = 16 << 10;
/// The error if the system has no memory for a thread.
pub(super) const NO_STACK: &str = "there is no memory to check it against the schema";
/// Minimum stack of a thread: as large as the stack of a thread of tokio, where all else fits.
const LEAST_BYTES: usize = 2 << 20;
/// Levels of recursion that fit on the stack of any thread.
pub(super) const USUAL_LEVELS: usize = 24;

/// Runs a function that recurses at most `levels` deep, on a thread of its own if that is unusually
/// deep.
///
/// # Errors
///
/// Fails if the system cannot start a thread. The function has not run then.
pub(super) fn on_stack<T: Send>(levels: usize, run: impl FnOnce() -> T + Send) -> io::Result<T> {
    if levels <= USUAL_LEVELS {
        return Ok(run());
    }
    thread::scope(|scope| {
        let bytes = ((levels + USUAL_LEVELS) * LEVEL_BYTES).max(LEAST_BYTES);
        let thread = thread::Builder::new().stack_size(bytes).spawn_scoped(scope, run)?;
        Ok(thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })
}
