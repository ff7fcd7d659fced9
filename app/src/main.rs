//! The `loopwright` binary: one prompt with `run`, a conversation with `chat`, the answer to a call that waits
//! with `approve` and `deny`, what was said with `sessions`, a server with `serve`, `models` to choose from, one tool with
//! `tools call`.

mod actions;
mod agent;
mod args;
mod chat;
mod interrupt;
mod log;
mod model;
mod models;
mod print;
mod run;
mod serve;
mod sessions;
mod store;
mod tools;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use crate::agent::StartError;
use crate::args::{Cli, Command};

/// Events and requests are made on one thread and dropped on another, which it does well.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Bad usage, as clap has it.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.command {
        Some(Command::Run(args)) => args.prompt().and_then(|prompt| start(run::run(&args, prompt))),
        Some(Command::Serve(args)) => start(serve::serve(&args)),
        Some(Command::Models(args)) => models::models(&args),
        Some(Command::Chat(args)) => start(chat::chat(&args)),
        Some(Command::Actions(args)) => start(actions::actions(&args)),
        Some(Command::Approve(args)) => start(actions::approve(&args)),
        Some(Command::Deny(args)) => start(actions::deny(&args)),
        Some(Command::Sessions(what)) => start(sessions::sessions(&what)),
        Some(Command::Tools(what)) => start(tools::tools(&what)),
        None => start(chat::chat(&cli.chat)),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(why) => {
            print::complain(&why);
            ExitCode::from(USAGE)
        }
    }
}

/// Runs a front end on this thread and the agent on two others. So an agent never stands still
/// because a terminal or a pipe takes no more text, and a tool that blocks a thread leaves one.
fn start(front_end: impl Future<Output = Result<u8, StartError>>) -> Result<u8, StartError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|why| StartError(format!("The runtime could not be started: {why}.")))?;
    let done = runtime.block_on(front_end);
    // What is dropped with the session has an end of its own, such as a temporary directory; but a tool that was
    // given up may block a thread for ever.
    runtime.shutdown_timeout(Duration::from_millis(300));
    done
}
