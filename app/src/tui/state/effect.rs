//! The interface between the pure state and the rest: effects that the state requests, and their
//! outcomes.

use std::path::PathBuf;
use std::sync::Arc;

use loopwright_core::event::{Decision, ExternalAction};
use loopwright_core::message::{CallId, MessageId, RunId, Usage};
use loopwright_core::model::{ModelInfo, ThinkingLevel};
use loopwright_core::session::AgentState;
use serde_json::Value;

use crate::facts::MemoryCommand;
use crate::slash::SlashReply;

/// An effect that the state requests.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Effect {
    /// Send a request.
    Prompt(String),
    /// Send a message to the run in progress.
    Steer(String),
    /// Queue a message until the agent would otherwise stop.
    FollowUp(String),
    /// Take back the queued messages: [`Outcome::TakenBack`].
    TakeBack,
    /// Abort this run, or the one in progress if none has been seen.
    Abort(Option<RunId>),
    /// Resolve a pending call. An approval is of the change with this digest, if one was shown.
    Decide { call: CallId, digest: Arc<str>, decision: Decision, change: Option<Arc<str>> },
    /// Allow all calls of a tool in this session.
    Allow(Arc<str>),
    /// Edit the arguments of a call: [`Outcome::Edited`] or [`Outcome::NoEditor`].
    Edit { call: CallId, json: String },
    /// Compute the diff that a call would make: [`Outcome::Preview`].
    Preview(Box<ExternalAction>),
    /// Summarise older turns, with these instructions.
    Compact(Option<String>),
    /// Continue a run that was interrupted or failed, or start one for queued messages.
    Continue,
    /// Switch the session to another model.
    SwitchModel(String),
    /// Switch the session to another thinking level.
    SwitchThinking(ThinkingLevel),
    /// Open a session, or a new one without a name.
    Open(Option<String>),
    /// Fork the session at a message.
    Fork(Option<MessageId>),
    /// Write the conversation to a file.
    Export(Option<PathBuf>),
    /// List choices: [`Outcome::Listed`].
    List(Source),
    /// List the agent's tools.
    Tools,
    /// List or delete remembered facts.
    Memory(MemoryCommand),
    /// Run a slash command of the app: [`Outcome::Replied`].
    Slash { name: String, arguments: String },
    /// Scroll the dialog while it is open, otherwise the transcript.
    Scroll(Scroll),
    /// Redraw the whole screen: another program may have written to it.
    Redraw,
    /// Stop the process until `fg`.
    Suspend,
    /// Quit the program.
    Quit,
}

/// A movement of the visible part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scroll {
    /// By lines; negative is up.
    Lines(i32),
    /// By screens; negative is up.
    Pages(i32),
    /// To the beginning.
    Top,
    /// To the end, following what is added.
    Bottom,
    /// To this entry.
    Show(u64),
}

/// A source of completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    /// Files below the root.
    Files,
    /// Models of the catalogue.
    Models,
    /// Sessions of the store.
    Sessions,
    /// Messages of this conversation, which the state knows.
    Messages,
}

/// A name with a description, as a completion or as a row of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    /// The text to insert.
    pub(crate) value: String,
    /// A short description.
    pub(crate) note: String,
}

impl Choice {
    /// Creates a choice.
    pub(crate) fn new(value: impl Into<String>, note: impl Into<String>) -> Self {
        Choice { value: value.into(), note: note.into() }
    }
}

/// The tone of a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Tone {
    /// Information.
    Quiet,
    /// Important.
    Loud,
    /// A failure.
    Error,
}

/// The outcome of an effect.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// A session that was opened.
    Opened(Box<Opened>),
    /// The sentence that says why no session could be opened. The current session stays open unless
    /// `closed`.
    NotOpened { why: String, closed: bool },
    /// A notice for the transcript.
    Notice(Tone, String),
    /// A table for the transcript.
    Table(Vec<Choice>),
    /// An input that did not reach the session; its text is restored. With `ends`, it causes no
    /// run.
    Undelivered { text: String, why: String, ends: bool },
    /// A decision that was refused.
    Refused { call: CallId, why: String },
    /// The arguments from the editor.
    Edited { call: CallId, json: String },
    /// A request to edit the arguments in the dialog, since no editor is set.
    NoEditor { call: CallId, json: String },
    /// The diff of a call, or the reason why it has none.
    Preview(ExternalAction, Result<String, String>),
    /// The reply of a slash command that was typed in this session, or the reason why it failed.
    Replied(Arc<str>, Result<SlashReply, String>),
    /// The messages that were queued.
    TakenBack(Vec<String>),
    /// The choices of a source.
    Listed(Source, Vec<Choice>),
}

/// A session that was opened.
#[derive(Debug)]
pub(crate) struct Opened {
    /// The current state of the session.
    pub(crate) state: AgentState,
    pub(crate) model: ModelInfo,
    /// `true` if the session outlives the process.
    pub(crate) is_persistent: bool,
    /// The directory that tools work in.
    pub(crate) root: PathBuf,
    /// Tokens used so far.
    pub(crate) usage: Usage,
    /// US dollars spent so far.
    pub(crate) cost: f64,
    /// `true` if facts can be distilled from the conversation.
    pub(crate) distils: bool,
    /// `true` if another process has the session open and runs its agent.
    pub(crate) is_attached: bool,
    /// `true` if it is the same session, opened with another model or level, or joined again.
    pub(crate) same: bool,
}

/// Formats arguments for the editor.
pub(crate) fn pretty(arguments: &Value) -> String {
    serde_json::to_string_pretty(arguments).unwrap_or_default()
}
