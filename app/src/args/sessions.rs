//! The arguments of commands on sessions.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use loopwright_core::message::MessageId;

use super::verbosity::VerbosityArgs;
use crate::options::Options;

/// The location of the session store.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct StoreArgs {
    /// The session store: a file, a directory with a file for each session, or the address of a
    /// PostgreSQL database.
    ///
    /// The address is postgres://USER@HOST/DATABASE. The password is best in PGPASSWORD, since
    /// others can see the arguments of a program.
    ///
    /// By default LOOPWRIGHT_STORE, else loopwright/sessions.db in $XDG_DATA_HOME or
    /// ~/.local/share.
    #[arg(long = "store", id = "store", value_name = "PATH")]
    pub(crate) path: Option<PathBuf>,
}

/// The session that a command opens.
#[derive(Debug, Args)]
pub(crate) struct SessionArgs {
    /// Continue the session with this name, or start it.
    #[arg(long = "session", id = "session", value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Continue the session of this directory (or of --root) that was changed last.
    #[arg(long = "continue", short = 'c', conflicts_with = "session")]
    pub(crate) latest: bool,
    /// Do not store the conversation.
    #[arg(long, conflicts_with_all = ["session", "latest", "store"])]
    pub(crate) no_session: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ActionsArgs {
    /// The session; all sessions by default.
    pub(crate) session: Option<String>,
    /// List only calls of this tool.
    #[arg(long, value_name = "TOOL")]
    pub(crate) tool: Option<String>,
    /// Print each as a line of JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// The session; all sessions by default.
    pub(crate) session: Option<String>,
    /// List only decisions of this person, or of `system`, which decides at deadlines.
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
    /// List only decisions from this time on: a date, or a date and time such as 2026-11-24T14:05.
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// List only decisions before this time.
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
    /// List at most this many.
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
    /// Print each as a line of JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// The call to decide, and the person who decides.
#[derive(Debug, Args)]
pub(crate) struct DecisionArgs {
    /// The name of the session.
    pub(crate) session: String,
    /// The call, as `loopwright actions` lists it.
    pub(crate) call: String,
    /// The digest that was listed with the call, or its beginning. If the call has changed since,
    /// the decision is refused.
    #[arg(long, value_name = "DIGEST")]
    pub(crate) digest: Option<String>,
    /// The name of the person who decides; it is stored with the decision.
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
    /// Print each event as a line of JSON instead of the text.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) verbosity: VerbosityArgs,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) options: Options,
}

#[derive(Debug, Args)]
pub(crate) struct ApproveArgs {
    #[command(flatten)]
    pub(crate) decision: DecisionArgs,
    /// Run the call with these arguments instead.
    #[arg(long, value_name = "JSON")]
    pub(crate) args: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct AnswerArgs {
    #[command(flatten)]
    pub(crate) decision: DecisionArgs,
    /// The answer: an option or its number, several of them separated by commas, a text, or JSON;
    /// read from standard input if it is missing or `-`.
    ///
    /// A secret is read from standard input only, where other processes do not see it.
    #[arg(value_name = "ANSWER", allow_negative_numbers = true)]
    pub(crate) answer: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct DenyArgs {
    #[command(flatten)]
    pub(crate) decision: DecisionArgs,
    /// The reason, which is sent to the model.
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Sessions {
    /// List sessions, most recently changed first.
    List {
        /// Print each as a line of JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Print a conversation as Markdown.
    Show {
        /// The name of the session.
        session: String,
        /// Print its metadata as JSON instead.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Search for messages that contain all of these words. Exit codes: 0 found, 1 not found, 2 bad
    /// usage.
    Search {
        /// The words to search for.
        #[arg(required = true)]
        words: Vec<String>,
        /// The maximum number of messages to list.
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: usize,
        /// Print each as a line of JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Write a session to a file or to standard output.
    Export {
        /// The name of the session.
        session: String,
        /// All of its log as JSON Lines, or the conversation as Markdown.
        #[arg(long, value_enum, default_value = "jsonl")]
        format: Format,
        /// The file to write, which must not exist; standard output by default.
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Import a session that was exported as JSON Lines.
    Import {
        /// The file; standard input if it is `-`.
        file: PathBuf,
        /// The name of the imported session.
        #[arg(long, value_name = "NAME")]
        session: Option<String>,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Delete sessions permanently.
    Delete {
        /// The names of the sessions.
        #[arg(required = true)]
        sessions: Vec<String>,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Start a session with the history of another session.
    Fork {
        /// The session whose history is copied.
        session: String,
        /// The last message to include, such as m7; the copy ends with the last complete turn up to
        /// it. By default all messages.
        #[arg(long = "at", value_name = "MESSAGE", value_parser = message_id)]
        message: Option<MessageId>,
        /// The name of the new session.
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        #[command(flatten)]
        store: StoreArgs,
    },
}

impl Sessions {
    /// Returns the location of the session store.
    pub(crate) fn store(&self) -> &StoreArgs {
        match self {
            Sessions::List { store, .. }
            | Sessions::Show { store, .. }
            | Sessions::Search { store, .. }
            | Sessions::Export { store, .. }
            | Sessions::Import { store, .. }
            | Sessions::Delete { store, .. }
            | Sessions::Fork { store, .. } => store,
        }
    }
}

/// Parses a message id such as `m7`.
fn message_id(text: &str) -> Result<MessageId, String> {
    let number = text.strip_prefix('m').and_then(|number| number.parse().ok());
    number.map(MessageId).ok_or_else(|| {
        "give a message id as `loopwright sessions show` prints it, such as m7".into()
    })
}

/// The format of an exported session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Jsonl,
    Markdown,
}
