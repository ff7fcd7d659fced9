//! The command line.

mod options;
mod serve;
mod sessions;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

pub(crate) use self::options::{Approve, Options, Pattern, Place, Thinking, without_key};
pub(crate) use self::serve::{ADDR, ServeArgs};
pub(crate) use self::sessions::{
    ActionsArgs, AnswerArgs, ApproveArgs, DenyArgs, Format, Sessions, StoreAt, Which,
};
use crate::agent::StartError;
use crate::print::Volume;
use crate::stdin;
use options::MODELS;

/// An agent that works on the files of a directory.
///
/// Without a command it starts a chat.
#[derive(Debug, Parser)]
#[command(name = "loopwright", version, args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) chat: ChatArgs,
    /// Read no loopwright.toml, neither yours nor the project's.
    #[arg(long, global = true)]
    pub(crate) no_config: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Answer one prompt and exit.
    ///
    /// The answer goes to standard output, everything else to standard error. Exit codes: 0 done, 2
    /// bad usage, 3 a tool call waits for confirmation, 4 a limit was reached, 5 the model failed,
    /// 130 aborted.
    Run(RunArgs),
    /// Talk to the agent; line by line where standard input or output is no terminal.
    Chat(ChatArgs),
    /// List what waits for your answer, in one session or in all.
    ///
    /// Exit codes: 0 done, 1 nothing waits, 2 bad usage.
    Actions(ActionsArgs),
    /// Let a call that waits run, and go on with its session. Exit codes are those of `run`.
    Approve(ApproveArgs),
    /// Refuse a call that waits, and go on with its session. Exit codes are those of `run`.
    Deny(DenyArgs),
    /// Look at conversations, and move them about.
    #[command(subcommand)]
    Sessions(Sessions),
    /// Serve the agent over HTTP.
    ///
    /// `POST /api/agent-chat` answers one request with the events of its run; `/api/sessions` keeps
    /// conversations; `/` is a page to use them. Whoever reaches it can run commands here, so other
    /// machines reach it only with a token.
    Serve(ServeArgs),
    /// Show the settings in force, and where each comes from.
    ///
    /// From weakest to strongest: built in, your loopwright.toml ($XDG_CONFIG_HOME/loopwright or
    /// ~/.config/loopwright; another with LOOPWRIGHT_CONFIG), the project's (in the directory that
    /// --root names), environment variables such as LOOPWRIGHT_MODEL, what a session keeps, flags.
    Config(ConfigArgs),
    /// List the models that are known: formats, sizes, prices in US dollars per million tokens.
    ///
    /// Others can be used too; `?` is not known. Exit codes: 0 done, 1 no model fits, 2 bad usage.
    Models(ModelsArgs),
    /// Look at the tools, and run one without a model.
    #[command(subcommand)]
    Tools(Tools),
    /// Print a script that completes this command line in a shell.
    ///
    /// For bash, `source <(loopwright completions bash)` in ~/.bashrc.
    Completions {
        /// The shell.
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write those of all commands.
    Man {
        /// The directory to write a page of each command into.
        #[arg(value_name = "DIR")]
        directory: Option<PathBuf>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Tools {
    /// List the tools.
    List {
        /// Print all about them as JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: Place,
    },
    /// Run one tool and print its result. Nothing asks for confirmation.
    ///
    /// Its text goes to standard output when it has ended, an error to standard error. Exit codes:
    /// 0 done, 1 the tool failed, 2 bad usage, 130 aborted.
    Call {
        /// The tool, such as read_file.
        name: String,
        /// Its arguments, such as '{"path": "src/main.rs"}'.
        #[arg(value_name = "JSON")]
        arguments: String,
        /// Print the result, or the error, as JSON with its details.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: Place,
    },
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// What to do; read from standard input if it is missing or `-`.
    #[arg(value_name = "PROMPT")]
    prompt: Option<String>,
    /// Read standard input to its end and put it below the prompt, at most 1 MiB of text.
    ///
    /// A pipe or a file is read without this flag too, unless nothing comes in three seconds.
    #[arg(long, requires = "prompt", conflicts_with = "resume")]
    stdin: bool,
    /// Leave standard input alone: the list that a shell's loop goes through, or a pipe that nobody
    /// ends.
    #[arg(long, requires = "prompt", conflicts_with_all = ["stdin", "resume"])]
    no_stdin: bool,
    /// Print each event as a line of JSON instead of the text.
    #[arg(long)]
    pub(crate) json: bool,
    /// The answer must be JSON that fits the JSON Schema in this file, and is printed alone, on one
    /// line.
    ///
    /// The model is asked twice again if it does not fit; then the exit code is 5.
    #[arg(long, value_name = "FILE", conflicts_with = "resume")]
    pub(crate) output_schema: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) speech: Speech,
    /// Go on with a run that was interrupted, or with what waits, instead of a prompt.
    #[arg(long, conflicts_with = "prompt")]
    pub(crate) resume: bool,
    #[command(flatten)]
    pub(crate) which: Which,
    #[command(flatten)]
    pub(crate) options: Options,
}

/// How much is told on standard error.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Speech {
    /// Print the answer when it is complete, and nothing else but errors.
    #[arg(long, short)]
    quiet: bool,
    /// Tell all on standard error: what the model thinks, whole results of tools, tokens and what
    /// they cost.
    #[arg(long, short, conflicts_with_all = ["quiet", "json"])]
    verbose: bool,
}

impl Speech {
    /// How much is told.
    pub(crate) fn volume(self) -> Volume {
        match self {
            Speech { quiet: true, .. } => Volume::Quiet,
            Speech { verbose: true, .. } => Volume::Verbose,
            _ => Volume::Normal,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    /// Talk line by line, even where a terminal could show more.
    #[arg(long)]
    pub(crate) plain: bool,
    #[command(flatten)]
    pub(crate) which: Which,
    #[command(flatten)]
    pub(crate) options: Options,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// Print each setting as a line of JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// What is in force when this session goes on.
    #[arg(long, value_name = "NAME")]
    pub(crate) session: Option<String>,
    #[command(flatten)]
    pub(crate) at: StoreAt,
    #[command(flatten)]
    pub(crate) options: Options,
}

#[derive(Debug, Args)]
pub(crate) struct ModelsArgs {
    /// Only those with this in their name, such as `anthropic` or `haiku`, whatever the case.
    #[arg(value_name = "FILTER", default_value = "", hide_default_value = true)]
    pub(crate) filter: String,
    /// Print each model as a line of JSON instead of the table.
    #[arg(long)]
    pub(crate) json: bool,
    #[arg(long, value_name = "FILE", help = MODELS)]
    pub(crate) models: Option<PathBuf>,
}

impl Tools {
    /// Where the tools work.
    pub(crate) fn place(&mut self) -> &mut Place {
        match self {
            Tools::List { place, .. } | Tools::Call { place, .. } => place,
        }
    }
}

impl RunArgs {
    /// What to do, with what comes on standard input where that is asked for. Nothing where no
    /// prompt is wanted.
    pub(crate) fn prompt(&self) -> Result<Option<String>, StartError> {
        if self.resume {
            return Ok(None);
        }
        let prompt = match self.prompt.as_deref() {
            Some("-") if self.stdin || self.no_stdin => {
                let why = "With `-` standard input is the prompt: write a prompt, or leave --stdin and --no-stdin out.";
                return Err(StartError(why.into()));
            }
            None | Some("-") => stdin::read("prompt")?,
            Some(prompt) if prompt.trim().is_empty() || self.no_stdin => prompt.to_owned(),
            Some(prompt) if self.stdin => stdin::below(prompt, &stdin::read("text")?),
            Some(prompt) => match stdin::piped()?.filter(|text| !text.is_empty()) {
                Some(text) => stdin::below(prompt, &text),
                None => prompt.to_owned(),
            },
        };
        if prompt.trim().is_empty() {
            let why = "There is no prompt: write it after `run`, in quotes, or pipe it into standard input.";
            return Err(StartError(why.into()));
        }
        Ok(Some(prompt))
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn flags_without_a_command_are_those_of_chat() {
        let cli =
            Cli::try_parse_from(["loopwright", "--model", "offline", "--approve", "all"]).unwrap();
        assert!(cli.command.is_none());
        let options = cli.chat.options;
        assert_eq!(
            (options.model.as_deref(), &options.approve[..]),
            (Some("offline"), &[Approve::All][..])
        );
        assert!(Cli::try_parse_from(["loopwright", "--json"]).is_err());
        assert!(Cli::try_parse_from(["loopwright", "run", "x", "--max-turns", "0"]).is_err());
    }
}
