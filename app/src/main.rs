//! The `loopwright` binary: an [`App`] with the agent that works on files.

mod init;

use std::process::ExitCode;

use loopwright_cli::App;

/// Allocates faster than the system's allocator if one thread frees what another has allocated, as
/// is the case for events and requests.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    App::new("loopwright").coding_agent().command(init::command(), |args, _| init::run(args)).run()
}
