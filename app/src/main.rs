//! The `loopwright` binary: `run` answers one prompt, `chat` is a conversation, `serve` a server.
//! `actions`, `approve`, `deny` and `answer` resolve pending calls; the other commands show and
//! manage sessions, models, tools and settings.

mod answer;
mod args;
mod commands;
mod config;
mod environment;
mod error;
mod exit_code;
mod facts;
mod interrupt;
mod log;
mod options;
mod output;
mod session;
mod settings;
mod stdin;
mod tui;
mod wording;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use tokio::runtime;

use crate::args::{ChatArgs, Cli, Command};
use crate::commands::{
    actions, chat, completions, config as config_command, models, run, serve, sessions, tools,
};
use crate::config::Config;
use crate::error::StartError;

/// Allocates faster than the system's allocator if one thread frees what another has allocated, as
/// is the case for events and requests.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The time that tasks and destructors have at the end of the process.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(300);

fn main() -> ExitCode {
    match dispatch(Cli::parse()) {
        Ok(code) => ExitCode::from(code),
        Err(why) => {
            output::error(&why);
            ExitCode::from(exit_code::USAGE)
        }
    }
}

/// Runs the command and returns its exit code.
fn dispatch(cli: Cli) -> Result<u8, StartError> {
    let config = || Config::load(cli.no_config);
    match cli.command.unwrap_or(Command::Chat(cli.chat)) {
        Command::Run(args) => {
            let config = config()?;
            let prompt = run::prompt(&args)?;
            start(run::run(&args, &config, prompt))
        }
        Command::Chat(args) => start_chat(args, Arc::new(config()?)),
        Command::Actions(args) => start(actions::actions(&args, &config()?)),
        Command::Approve(args) => start(actions::approve(&args, &config()?)),
        Command::Deny(args) => start(actions::deny(&args, &config()?)),
        Command::Answer(args) => start(actions::answer(&args, &config()?)),
        Command::Sessions(args) => start(sessions::sessions(&args, &config()?)),
        Command::Serve(args) => start(serve::serve(config()?.serve(args)?)),
        Command::Config(args) => start(config_command::config(&args, &config()?)),
        Command::Models(args) => models::models(&args, &config()?),
        Command::Tools(args) => start(tools::tools(&args, &config()?)),
        // These work without a home directory, for example when a package is built.
        Command::Completions { shell } => completions::completions(shell),
        Command::Man { directory } => completions::man(directory.as_deref()),
    }
}

/// Starts the terminal app on a terminal, and otherwise the chat line by line.
fn start_chat(args: ChatArgs, config: Arc<Config>) -> Result<u8, StartError> {
    if !args.plain && tui::is_possible() {
        start(tui::tui(args, config))
    } else {
        start(chat::chat(&args, &config))
    }
}

/// Runs a front end on this thread, and the agent on two others. An agent is then never blocked by
/// a terminal or a pipe that accepts no text, and a tool that blocks one thread leaves another.
fn start(front_end: impl Future<Output = Result<u8, StartError>>) -> Result<u8, StartError> {
    let runtime = runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime =
        runtime.map_err(|why| StartError(format!("The runtime could not be started: {why}.")))?;
    let done = runtime.block_on(front_end);
    // A session's destructors may have work to do, such as the removal of a temporary directory,
    // but a tool that was abandoned may block a thread forever.
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    done
}
