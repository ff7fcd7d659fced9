//! [`on_stack`]: deep recursion on a stack that is large enough.

use std::io;
use std::panic::resume_unwind;
use std::thread;

/// The stack that a level of recursion takes at most, in an unoptimised build.
const LEVEL_BYTES: usize = 16 << 10;
/// The levels for which the stack of any thread has room.
pub(super) const USUAL_LEVELS: usize = 24;

/// Runs what recurses at most `levels` deep, on a thread of its own if that is unusually deep.
///
/// # Errors
///
/// Fails if the system cannot start a thread. Nothing was run then.
pub(super) fn on_stack<T: Send>(levels: usize, run: impl FnOnce() -> T + Send) -> io::Result<T> {
    if levels <= USUAL_LEVELS {
        return Ok(run());
    }
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size((levels + USUAL_LEVELS) * LEVEL_BYTES);
        let thread = thread.spawn_scoped(scope, run)?;
        Ok(thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })
}
