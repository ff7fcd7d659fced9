//! The command line.

mod cluster;
mod custom;
mod mcp;
mod rules;
mod schedules;
mod serve;
mod sessions;
mod verbosity;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

pub(crate) use self::cluster::{ClusterArgs, ClusterCommand, PlacementArg};
pub(crate) use self::custom::{built_in_flags, is_built_in};
pub(crate) use self::mcp::McpArgs;
pub(crate) use self::schedules::{
    AddScheduleArgs, ScheduleCommand, SchedulesArgs, WakeArgs, WhenArgs,
};
use self::serve::name_without_separators;
pub(crate) use self::serve::{DEFAULT_ADDR, DEFAULT_GRACE, LogFormat, ServeArgs, UserArg};
pub(crate) use self::sessions::{
    ActionsArgs, AnswerArgs, ApproveArgs, AuditArgs, DecisionArgs, DenyArgs, Format, SessionArgs,
    Sessions, StoreArgs,
};
pub(crate) use self::verbosity::VerbosityArgs;
use crate::options::{FILES, Flags, MODELS, Options};

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
    /// Do not read any loopwright.toml, neither yours nor the project's.
    #[arg(long, global = true)]
    pub(crate) no_config: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Answer one prompt and exit.
    ///
    /// The answer goes to standard output, everything else to standard error. Exit codes: 0 done, 2
    /// bad usage, 3 a tool call waits for approval or a question for its answer, 4 a limit was
    /// reached, 5 the model failed, 6 the answer is cut off or empty, 7 the command of --until did
    /// not succeed, 130 aborted.
    Run(RunArgs),
    /// Chat with the agent; line by line if standard input or output is not a terminal.
    Chat(ChatArgs),
    /// Work in an editor that speaks the Agent Client Protocol, such as Zed.
    ///
    /// The editor starts this command and talks to it over standard input and output. A session
    /// works in the directory that the editor opens, unless --root names another one.
    Acp(Box<AcpArgs>),
    /// List the calls and questions that wait for you, in one session or in all.
    ///
    /// Exit codes: 0 done, 1 no call waits, 2 bad usage.
    Actions(ActionsArgs),
    /// List who decided what, when, and from where; the latest decision is first.
    ///
    /// Exit codes: 0 done, 1 there is no such decision, 2 bad usage.
    Audit(AuditArgs),
    /// Approve a pending call and continue its session. Exit codes: as for `run`.
    Approve(ApproveArgs),
    /// Deny a pending call and continue its session. Exit codes: as for `run`.
    Deny(DenyArgs),
    /// Answer a question, or provide the input of a suspended call, and continue its session.
    ///
    /// An answer that does not fit the question is refused and changes nothing. Exit codes: as for
    /// `run`.
    Answer(AnswerArgs),
    /// List, show, search, copy and delete conversations.
    #[command(subcommand)]
    Sessions(Sessions),
    /// List messages that are sent at certain times, and add or remove them.
    ///
    /// Exit codes: 0 done, 1 nothing is scheduled, 2 bad usage.
    Schedules(SchedulesArgs),
    /// Wake the agents whose timer rings, and send the messages whose time has come.
    ///
    /// It does what else sessions have to do that no process has open, with the settings that they
    /// were started with, in their directories. Calls that need approval wait. `serve` does all
    /// this too. Exit codes: 0 done, 2 bad usage, 5 work is left over.
    Wake(WakeArgs),
    /// Serve the agent over HTTP.
    ///
    /// `POST /api/agent-chat` answers one request with the events of its run; `/api/sessions`
    /// stores conversations; `/` is a web page for them. Clients can run commands on this machine,
    /// so other machines need a token.
    Serve(Box<ServeArgs>),
    /// Serve the agents to an MCP client, such as an editor or another agent.
    ///
    /// The client starts this command and talks to it over standard input and output. Each agent is
    /// a tool, and its sessions are stored like all others. Approvals are requested through the
    /// client, if it can ask its user. A continued session has the options of this command, not the
    /// ones it was started with.
    Mcp(Box<McpArgs>),
    /// Show the servers that share a database.
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// Show the settings in force, and where each of them is set.
    ///
    /// From weakest to strongest: built in, your loopwright.toml ($XDG_CONFIG_HOME/loopwright or
    /// ~/.config/loopwright; another with LOOPWRIGHT_CONFIG), the project's (in the directory that
    /// --root names), environment variables such as LOOPWRIGHT_MODEL, the session, flags.
    Config(ConfigArgs),
    /// List the known models: formats, sizes, prices in US dollars per million tokens.
    ///
    /// Other models can be used too; `?` means unknown. Exit codes: 0 done, 1 no model matches, 2
    /// bad usage.
    Models(ModelsArgs),
    /// Make a token for a user of the server.
    ///
    /// The token goes to standard output, once; it is stored nowhere. The setting for the server
    /// goes to standard error.
    Token(TokenArgs),
    /// List the tools, and run one without a model.
    #[command(subcommand)]
    Tools(Tools),
    /// Print a script that completes this command line in a shell.
    ///
    /// For bash, `source <(loopwright completions bash)` in ~/.bashrc.
    Completions {
        /// The shell to print the script for.
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write the pages of all commands.
    Man {
        /// The directory to write a page for each command into.
        #[arg(value_name = "DIR")]
        directory: Option<PathBuf>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Tools {
    /// List the tools.
    List {
        /// Print their full descriptions and schemas as JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        files: Flags<FILES>,
    },
    /// Run one tool and print its result, without asking for approval.
    ///
    /// The result goes to standard output when the tool has ended, an error to standard error. Exit
    /// codes: 0 done, 1 the tool failed, 2 bad usage, 130 aborted.
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
        files: Flags<FILES>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The prompt; read from standard input if it is missing or `-`.
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Option<String>,
    /// Read standard input to its end and append it to the prompt, at most 1 MiB of text.
    ///
    /// A pipe or a file is read without this flag too, unless nothing arrives in three seconds.
    #[arg(long, requires = "prompt", conflicts_with = "resume")]
    pub(crate) stdin: bool,
    /// Do not read standard input, for example in a shell loop that reads it, or if it is a pipe
    /// that stays open.
    #[arg(long, requires = "prompt", conflicts_with_all = ["stdin", "resume"])]
    pub(crate) no_stdin: bool,
    /// Print each event as a line of JSON instead of the text.
    #[arg(long)]
    pub(crate) json: bool,
    /// Require an answer in JSON that matches the JSON Schema in this file, and print it alone on
    /// one line.
    ///
    /// If the answer does not match, the model is asked up to two more times; after that the exit
    /// code is 5.
    #[arg(long, value_name = "FILE", conflicts_with = "resume")]
    pub(crate) output_schema: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) verbosity: VerbosityArgs,
    /// Continue an interrupted run, or deliver queued messages, instead of sending a prompt.
    #[arg(long, conflicts_with = "prompt")]
    pub(crate) resume: bool,
    #[command(flatten)]
    pub(crate) session: SessionArgs,
    #[command(flatten)]
    pub(crate) options: Options,
}

#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    /// Chat line by line, even on a terminal.
    #[arg(long)]
    pub(crate) plain: bool,
    #[command(flatten)]
    pub(crate) session: SessionArgs,
    #[command(flatten)]
    pub(crate) options: Options,
}

#[derive(Debug, Args)]
pub(crate) struct AcpArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) options: Options,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// Print each setting as a line of JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Show the settings that are in force when this session is continued.
    #[arg(long, value_name = "NAME")]
    pub(crate) session: Option<String>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) options: Options,
}

#[derive(Debug, Args)]
pub(crate) struct ModelsArgs {
    /// List only models with this text in their name, such as `anthropic` or `haiku`, ignoring
    /// case.
    #[arg(value_name = "FILTER", default_value = "", hide_default_value = true)]
    pub(crate) filter: String,
    /// Print each model as a line of JSON instead of the table.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) models: Flags<MODELS>,
}

#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    /// The user's name, without `:` and `,`.
    #[arg(value_name = "NAME", value_parser = name_without_separators)]
    pub(crate) name: String,
    /// A role of the user: `admin` may do everything, `reader` read all sessions and the metrics,
    /// `approver` decide the actions of all sessions; actions can name other roles. May be
    /// repeated.
    #[arg(long, value_name = "ROLE", value_parser = name_without_separators)]
    pub(crate) role: Vec<String>,
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
        let settings = cli.chat.options.settings.0;
        assert_eq!(settings.model.as_deref(), Some("offline"));
        assert_eq!(settings.approve, Some(vec!["all".to_owned()]));
        assert!(Cli::try_parse_from(["loopwright", "--json"]).is_err());
        assert!(Cli::try_parse_from(["loopwright", "run", "x", "--max-turns", "0"]).is_err());
    }
}
