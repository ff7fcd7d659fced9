//! The interpreter's process: runs one script, whose calls go through its pipes.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: loopwright_code::LimitedAllocator = loopwright_code::LimitedAllocator;

fn main() -> ExitCode {
    loopwright_code::serve()
}
