//! Sessions on the command line: which one, where they are kept, what is done with them.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use loopwright_core::message::MessageId;

use super::Speech;
use super::options::Options;

/// Where sessions are kept.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct StoreAt {
    /// Where sessions are kept: a file, or a directory with a file for each session.
    ///
    /// Else LOOPWRIGHT_STORE, else loopwright/sessions.db in $XDG_DATA_HOME or ~/.local/share.
    #[arg(long, value_name = "PATH")]
    pub(crate) store: Option<PathBuf>,
}

/// Which conversation.
#[derive(Debug, Args)]
pub(crate) struct Which {
    /// Go on with the session of this name, or begin it.
    #[arg(long, value_name = "NAME")]
    pub(crate) session: Option<String>,
    /// Go on with the session that was changed last.
    #[arg(long = "continue", short = 'c', conflicts_with = "session")]
    pub(crate) latest: bool,
    /// Keep nothing of the conversation.
    #[arg(long, conflicts_with_all = ["session", "latest", "store"])]
    pub(crate) no_session: bool,
    #[command(flatten)]
    pub(crate) at: StoreAt,
}

#[derive(Debug, Args)]
pub(crate) struct ActionsArgs {
    /// The session; all of them if it is missing.
    pub(crate) session: Option<String>,
    /// Only calls of this tool.
    #[arg(long, value_name = "TOOL")]
    pub(crate) tool: Option<String>,
    /// Print each as a line of JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) at: StoreAt,
}

/// Which call is answered, by whom.
#[derive(Debug, Args)]
pub(crate) struct AnswerArgs {
    /// The session.
    pub(crate) session: String,
    /// The call, as `loopwright actions` lists it.
    pub(crate) call: String,
    /// The digest that was listed with the call, or its beginning: what is answered is then what
    /// was shown.
    #[arg(long, value_name = "DIGEST")]
    pub(crate) digest: Option<String>,
    /// Who answers; it is kept with the answer.
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
    /// Print each event as a line of JSON instead of the text.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) speech: Speech,
    #[command(flatten)]
    pub(crate) at: StoreAt,
    #[command(flatten)]
    pub(crate) options: Options,
}

#[derive(Debug, Args)]
pub(crate) struct ApproveArgs {
    #[command(flatten)]
    pub(crate) answer: AnswerArgs,
    /// Run it with these arguments instead.
    #[arg(long, value_name = "JSON")]
    pub(crate) args: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct DenyArgs {
    #[command(flatten)]
    pub(crate) answer: AnswerArgs,
    /// Why; the model is told.
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Sessions {
    /// List sessions, the one changed last first.
    List {
        /// Print each as a line of JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        at: StoreAt,
    },
    /// Print a conversation as Markdown.
    Show {
        /// The session.
        session: String,
        /// Print what is known of it as JSON instead.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        at: StoreAt,
    },
    /// Find messages that contain all of these words. Exit codes: 0 found, 1 not found, 2 bad
    /// usage.
    Search {
        /// The words.
        #[arg(required = true)]
        words: Vec<String>,
        /// The most messages to list.
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: usize,
        /// Print each as a line of JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        at: StoreAt,
    },
    /// Write a session out.
    Export {
        /// The session.
        session: String,
        /// All of it, or what people read.
        #[arg(long, value_enum, default_value = "jsonl")]
        format: Format,
        /// The file to write; standard output if it is missing. One that is there is not
        /// overwritten.
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
        #[command(flatten)]
        at: StoreAt,
    },
    /// Take in a session that was exported as JSON Lines.
    Import {
        /// The file; standard input if it is `-`.
        file: PathBuf,
        /// Its name here.
        #[arg(long, value_name = "NAME")]
        session: Option<String>,
        #[command(flatten)]
        at: StoreAt,
    },
    /// Remove sessions for good.
    Delete {
        /// The sessions.
        #[arg(required = true)]
        sessions: Vec<String>,
        #[command(flatten)]
        at: StoreAt,
    },
    /// Begin a session with the past of another one.
    Fork {
        /// The session whose past it shares.
        session: String,
        /// After which message, such as m7, back to where a turn had ended; all of it if not given.
        #[arg(long = "at", value_name = "MESSAGE", value_parser = message)]
        message: Option<MessageId>,
        /// Its name.
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        #[command(flatten)]
        at: StoreAt,
    },
}

impl Sessions {
    /// Where the sessions are kept.
    pub(crate) fn at(&mut self) -> &mut StoreAt {
        match self {
            Sessions::List { at, .. }
            | Sessions::Show { at, .. }
            | Sessions::Search { at, .. }
            | Sessions::Export { at, .. }
            | Sessions::Import { at, .. }
            | Sessions::Delete { at, .. }
            | Sessions::Fork { at, .. } => at,
        }
    }
}

/// `m7`, as `sessions show` has it.
fn message(text: &str) -> Result<MessageId, String> {
    let number = text.strip_prefix('m').and_then(|number| number.parse().ok());
    number
        .map(MessageId)
        .ok_or_else(|| "write a message as `loopwright sessions show` does, such as m7".into())
}

/// How a session is written out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Jsonl,
    Markdown,
}
