//! The app around the agent: a chat in the terminal, `run` for scripts, and `serve` with a page for
//! browsers.

use std::process::ExitCode;

use loopwright::AgentBuilder;
use loopwright_cli::{AgentRejection, AgentSetup, App};

fn assistant(setup: &AgentSetup) -> Result<AgentBuilder, AgentRejection> {
    Ok(starter::assistant(setup.model()?, "notes.txt"))
}

fn main() -> ExitCode {
    App::new(env!("CARGO_PKG_NAME")).agent("assistant", assistant).run()
}
