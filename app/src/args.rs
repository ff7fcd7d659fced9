//! The command line.

use std::io::{IsTerminal, Read};
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use loopwright::ThinkingLevel;
use loopwright_tools::{Commands, Workspace, WorkspaceError};

use crate::agent::StartError;
use crate::print;

/// An agent that works on the files of a directory.
///
/// Without a command it starts a chat.
#[derive(Debug, Parser)]
#[command(name = "loopwright", version, args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) chat: Options,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Answer one prompt and exit.
    ///
    /// The answer goes to standard output, everything else to standard error. Exit codes: 0 done, 2 bad usage,
    /// 3 a tool call waits for confirmation, 4 a limit was reached, 5 the model failed, 130 aborted.
    Run(RunArgs),
    /// Talk to the agent, line by line.
    Chat(Options),
    /// Serve the agent over HTTP.
    ///
    /// `POST /api/agent-chat` answers one request with the events of its run; `/api/sessions` keeps conversations; `/` is a
    /// page to use them. Whoever reaches it can run commands here, so other machines reach it only with a token.
    Serve(ServeArgs),
    /// List the models that are known: formats, sizes, prices in US dollars per million tokens.
    ///
    /// Others can be used too; `?` is not known. Exit codes: 0 done, 1 no model fits, 2 bad usage.
    Models(ModelsArgs),
    /// Look at the tools, and run one without a model.
    #[command(subcommand)]
    Tools(Tools),
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
    /// Its text goes to standard output when it has ended, an error to standard error. Exit codes: 0 done, 1 the tool
    /// failed, 2 bad usage, 130 aborted.
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

/// Where tools work, and what commands may do there.
#[derive(Debug, Args)]
pub(crate) struct Place {
    /// The directory to work in; tools cannot leave it.
    #[arg(long, value_name = "DIR", default_value = ".")]
    root: PathBuf,
    /// Leave a file alone that somebody else changed after it was read, until it is read again.
    ///
    /// What was read is remembered for one session, so `tools call`, which is one call, has no use for it. Commands
    /// are not held by it.
    #[arg(long)]
    guard: bool,
    #[command(flatten)]
    commands: CommandOptions,
}

/// What commands may do.
#[derive(Debug, Args)]
pub(crate) struct CommandOptions {
    /// Let commands use the network; otherwise they have none, not even of this machine.
    #[arg(long)]
    network: bool,
    /// Run commands without confinement: they can do all that you can.
    #[arg(long, conflicts_with_all = ["readable", "writable"])]
    unconfined: bool,
    /// One more file or directory that commands may read and run programs from. May be repeated.
    #[arg(long, value_name = "PATH")]
    readable: Vec<PathBuf>,
    /// One more file or directory that commands may write. May be repeated.
    #[arg(long, value_name = "PATH")]
    writable: Vec<PathBuf>,
}

impl Place {
    /// The workspace that tools work in.
    pub(crate) fn workspace(&self) -> Result<Workspace, WorkspaceError> {
        let workspace = Workspace::open(&self.root)?;
        Ok(if self.guard { workspace.guarded() } else { workspace })
    }

    /// How commands are run.
    pub(crate) fn commands(&self) -> Commands {
        self.commands.commands()
    }
}

impl CommandOptions {
    /// How commands are run.
    pub(crate) fn commands(&self) -> Commands {
        let mut commands = Commands::new();
        if self.network {
            commands = commands.network();
        }
        if self.unconfined {
            commands = commands.unconfined();
        }
        let commands = self.readable.iter().fold(commands, Commands::readable);
        self.writable.iter().fold(commands, Commands::writable)
    }
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// What to do; read from standard input if it is missing or `-`.
    #[arg(value_name = "PROMPT")]
    prompt: Option<String>,
    /// Print each event as a line of JSON instead of the text.
    #[arg(long)]
    pub(crate) json: bool,
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

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The address to listen on. With one that other machines reach, a token is needed.
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:7777")]
    pub(crate) addr: SocketAddr,
    /// A directory that clients may work in, and in all below it; the current one if none is given. May be repeated.
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Vec<PathBuf>,
    /// What clients must send as `Authorization: Bearer TOKEN`, at least 16 characters; else LOOPWRIGHT_TOKEN, which other
    /// users of this machine cannot see.
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
    /// A name that clients may call the server by, besides its address and localhost. May be repeated.
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Vec<String>,
    /// The most runs at a time of one client's address; 32 if not given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_runs: Option<u32>,
    /// The model of sessions that name none, such as openai/gpt-4o-mini; `offline` for rules that need no model.
    ///
    /// Requests of /api/agent-chat bring their own model and key.
    #[arg(long, value_name = "PROVIDER/NAME")]
    pub(crate) model: Option<String>,
    /// The address of a server of your own for that model, up to but without `/chat/completions`.
    #[arg(long, value_name = "URL", requires = "model")]
    pub(crate) base_url: Option<String>,
    #[arg(long, value_name = "FILE", help = MODELS)]
    pub(crate) models: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) commands: CommandOptions,
}

const MODELS: &str = "A list of your own models, in TOML; else LOOPWRIGHT_MODELS, else loopwright/models.toml in \
                      $XDG_CONFIG_HOME or ~/.config";

/// What `run` and `chat` have in common.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The model, such as openai/gpt-4o-mini or ollama/qwen3:8b; `offline` for rules that need no model.
    ///
    /// Providers: openai, anthropic, google, openrouter, groq, deepseek, mistral, xai, together, azure, ollama,
    /// llamacpp, vllm, lmstudio, each with its usual key (OPENAI_API_KEY and so on). openai-chat/NAME and
    /// openai-responses/NAME choose between OpenAI's two formats. `loopwright models` lists models that are known.
    ///
    /// Without it: the provider whose key is in the environment, else a server on this machine that answers (Ollama,
    /// llama.cpp, vLLM, LM Studio), else offline rules.
    #[arg(long, value_name = "PROVIDER/NAME")]
    pub(crate) model: Option<String>,
    /// The address of a server of your own, up to but without `/chat/completions`.
    ///
    /// It speaks Chat Completions, unless the model is anthropic/NAME, google/NAME or openai-responses/NAME.
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    #[arg(long, value_name = "FILE", help = MODELS)]
    pub(crate) models: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) place: Place,
    /// The system prompt, instead of the built-in one.
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,
    /// How much the model thinks before it answers.
    #[arg(long, value_enum, default_value = "off")]
    pub(crate) thinking: Thinking,
    /// The loop: `pi` hears you while it works and takes follow-ups, `generic` is one plain loop.
    #[arg(long, value_enum, default_value = "pi")]
    pub(crate) pattern: Pattern,
    /// What the first turn of each request must call: a tool's name, or `required` for any.
    #[arg(long, value_name = "TOOL|required")]
    pub(crate) tool_choice: Option<String>,
    /// The most turns a request may take; 50 if not given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_turns: Option<u32>,
    /// What runs without confirmation: a tool's name, `read-only` (always included), or `all`. May be repeated.
    #[arg(long, value_name = "TOOL|read-only|all", value_parser = Approve::read)]
    pub(crate) approve: Vec<Approve>,
}

/// What runs without confirmation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Approve {
    ReadOnly,
    All,
    Tool(String),
}

impl Approve {
    fn read(text: &str) -> Result<Self, std::convert::Infallible> {
        Ok(match text {
            "read-only" => Approve::ReadOnly,
            "all" => Approve::All,
            tool => Approve::Tool(tool.to_owned()),
        })
    }
}

/// The loops to choose from.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Pattern {
    Generic,
    Pi,
}

/// [`ThinkingLevel`] on the command line.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Thinking {
    Off,
    Minimal,
    Low,
    Medium,
    High,
    #[value(name = "xhigh")]
    XHigh,
}

impl From<Thinking> for ThinkingLevel {
    fn from(level: Thinking) -> Self {
        match level {
            Thinking::Off => ThinkingLevel::Off,
            Thinking::Minimal => ThinkingLevel::Minimal,
            Thinking::Low => ThinkingLevel::Low,
            Thinking::Medium => ThinkingLevel::Medium,
            Thinking::High => ThinkingLevel::High,
            Thinking::XHigh => ThinkingLevel::XHigh,
        }
    }
}

impl RunArgs {
    /// What to do. Standard input is only read when it is asked for: it may be a pipe in which
    /// nothing ever comes.
    pub(crate) fn prompt(&self) -> Result<String, StartError> {
        let prompt = match self.prompt.as_deref() {
            None | Some("-") => read_stdin()?,
            Some(prompt) => prompt.to_owned(),
        };
        if prompt.trim().is_empty() {
            let why = "There is no prompt: write it after `run`, in quotes, or pipe it into standard input.";
            return Err(StartError(why.into()));
        }
        Ok(prompt)
    }
}

fn read_stdin() -> Result<String, StartError> {
    let mut stdin = std::io::stdin();
    if stdin.is_terminal() {
        print::tell("Type the prompt, then press Ctrl-D on a line of its own.");
    }
    let mut text = String::new();
    let read = stdin.read_to_string(&mut text);
    read.map_err(|why| StartError(format!("The prompt could not be read from standard input: {why}.")))?;
    Ok(text.trim_end().to_owned())
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
        let cli = Cli::try_parse_from(["loopwright", "--model", "offline", "--approve", "all"]).unwrap();
        assert!(cli.command.is_none());
        assert_eq!((cli.chat.model.as_deref(), &cli.chat.approve[..]), (Some("offline"), &[Approve::All][..]));
        assert!(Cli::try_parse_from(["loopwright", "--json"]).is_err());
        assert!(Cli::try_parse_from(["loopwright", "run", "x", "--max-turns", "0"]).is_err());
    }
}
