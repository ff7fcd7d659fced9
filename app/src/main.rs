//! The `loopwright` binary: an [`App`] with the coding agent.

mod init;

use std::process::ExitCode;

use loopwright_cli::App;

/// An allocator that is faster than the system's if one thread frees another's memory, as happens
/// with events and requests.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    App::new("loopwright").coding_agent().command(init::command(), |args, _| init::run(args)).run()
}
