//! The `loopwright` binary: one prompt with `run`, a conversation with `chat`; what waits with
//! `actions`, and the answer to it with `approve` and `deny`; what was said with `sessions`; a
//! server with `serve`; `models` to choose from; one tool with `tools call`; what is set with
//! `config`; and for shells and manuals `completions` and `man`.

mod actions;
mod agent;
mod args;
mod chat;
mod config;
mod interrupt;
mod log;
mod model;
mod models;
mod print;
mod run;
mod serve;
mod sessions;
mod shell;
mod stdin;
mod store;
mod telling;
mod tools;
mod tui;

use std::process::ExitCode;
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches};

use crate::agent::StartError;
use crate::args::{ChatArgs, Cli, Command};
use crate::config::Config;

/// Events and requests are made on one thread and dropped on another, which it does well.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Bad usage, as clap has it.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let matches = Cli::command().get_matches();
    let mut cli = Cli::from_arg_matches(&matches).unwrap_or_else(|why| why.exit());
    let done = configure(&mut cli, &matches).and_then(|()| dispatch(cli));
    match done {
        Ok(code) => ExitCode::from(code),
        Err(why) => {
            print::complain(&why);
            ExitCode::from(USAGE)
        }
    }
}

/// Fills in what flags do not say and the environment or the user's file does; what a project's
/// file or a session says is added when the directory is known ([`store::Session::options`]).
fn configure(cli: &mut Cli, matches: &ArgMatches) -> Result<(), StartError> {
    if let Some(Command::Completions { .. } | Command::Man { .. }) = &cli.command {
        return Ok(()); // there may be no user yet
    }
    let config = Config::load(cli.no_config)?;
    let (options, at) = match &mut cli.command {
        None => (Some(&mut cli.chat.options), Some(&mut cli.chat.which.at)),
        Some(Command::Chat(args)) => (Some(&mut args.options), Some(&mut args.which.at)),
        Some(Command::Run(args)) => (Some(&mut args.options), Some(&mut args.which.at)),
        Some(Command::Approve(args)) => (Some(&mut args.answer.options), Some(&mut args.answer.at)),
        Some(Command::Deny(args)) => (Some(&mut args.answer.options), Some(&mut args.answer.at)),
        Some(Command::Actions(args)) => (None, Some(&mut args.at)),
        Some(Command::Sessions(what)) => (None, Some(what.at())),
        Some(Command::Completions { .. } | Command::Man { .. }) => return Ok(()),
        Some(Command::Config(args)) => (Some(&mut args.options), None), // it tells what is a flag and what is not
        Some(Command::Models(args)) => {
            config.under_models(&mut args.models);
            return Ok(());
        }
        Some(Command::Tools(what)) => return config.under_place(what.place()),
        Some(Command::Serve(args)) => {
            let given = matches
                .subcommand_matches("serve")
                .and_then(|matches| matches.value_source("addr"));
            return config.under_serve(args, given == Some(ValueSource::CommandLine));
        }
    };
    if let Some(at) = at {
        config.under_store(at);
    }
    if let Some(options) = options {
        options.config = config;
    }
    Ok(())
}

fn dispatch(cli: Cli) -> Result<u8, StartError> {
    match cli.command {
        Some(Command::Run(args)) => args.prompt().and_then(|prompt| start(run::run(&args, prompt))),
        Some(Command::Serve(args)) => start(serve::serve(&args)),
        Some(Command::Config(args)) => start(config::config(&args)),
        Some(Command::Models(args)) => models::models(&args),
        Some(Command::Completions { shell }) => shell::completions(shell),
        Some(Command::Man { directory }) => shell::man(directory.as_deref()),
        Some(Command::Chat(args)) => talk(args),
        Some(Command::Actions(args)) => start(actions::actions(&args)),
        Some(Command::Approve(args)) => start(actions::approve(&args)),
        Some(Command::Deny(args)) => start(actions::deny(&args)),
        Some(Command::Sessions(what)) => start(sessions::sessions(&what)),
        Some(Command::Tools(what)) => start(tools::tools(&what)),
        None => talk(cli.chat),
    }
}

/// A conversation: on the whole screen where there is one, else line by line.
fn talk(args: ChatArgs) -> Result<u8, StartError> {
    if !args.plain && tui::is_possible() { start(tui::tui(args)) } else { start(chat::chat(&args)) }
}

/// Runs a front end on this thread and the agent on two others. So an agent never stands still
/// because a terminal or a pipe takes no more text, and a tool that blocks a thread leaves one.
fn start(front_end: impl Future<Output = Result<u8, StartError>>) -> Result<u8, StartError> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime =
        runtime.map_err(|why| StartError(format!("The runtime could not be started: {why}.")))?;
    let done = runtime.block_on(front_end);
    // What is dropped with the session has an end of its own, such as a temporary directory; but a
    // tool that was given up may block a thread for ever.
    runtime.shutdown_timeout(Duration::from_millis(300));
    done
}
