//! What the state wants done, and what it is told of it: the only words between the pure part and
//! the rest.

use std::path::PathBuf;
use std::sync::Arc;

use loopwright_core::agent::AgentState;
use loopwright_core::event::{Decision, ExternalAction};
use loopwright_core::message::{CallId, MessageId, Usage};
use loopwright_core::model::{ModelInfo, ThinkingLevel};
use serde_json::Value;

/// Something that is to be done outside of the state.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Effect {
    /// A request of the user.
    Prompt(String),
    /// A message for the run that goes on.
    Steer(String),
    /// A message for when the agent would otherwise stop.
    FollowUp(String),
    /// What waits in the queues comes back: [`Told::TakenBack`].
    TakeBack,
    /// Stop the run.
    Abort,
    /// The answer to a call.
    Decide { call: CallId, digest: Arc<str>, decision: Decision },
    /// This tool runs unasked from here on.
    Allow(Arc<str>),
    /// Have these arguments edited: [`Told::Edited`] or [`Told::NoEditor`].
    Edit { call: CallId, json: String },
    /// The diff that this call would make: [`Told::Preview`].
    Preview(Box<ExternalAction>),
    /// Have older turns summarised, with this in mind.
    Compact(Option<String>),
    /// Go on with what was interrupted, has failed, or waits.
    Continue,
    /// Another model for this session.
    SwitchModel(String),
    /// Another level of thinking for this session.
    SwitchThinking(ThinkingLevel),
    /// Another session; without a name, a new one.
    Open(Option<String>),
    /// A new session that shares this one's past, up to this message.
    Fork(Option<MessageId>),
    /// Write the conversation to a file.
    Export(Option<PathBuf>),
    /// What can be chosen from: [`Told::Listed`].
    List(Source),
    /// Tell which tools there are.
    Tools,
    /// Move what is shown: of the dialog while it is open, else of the transcript.
    Scroll(Scroll),
    /// Draw everything anew: something else may have written to the screen.
    Redraw,
    /// Give the terminal back until somebody says `fg`.
    Suspend,
    /// Leave.
    Quit,
}

/// How the part that is shown moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scroll {
    /// By lines; up is negative.
    Lines(i32),
    /// By screens; up is negative.
    Pages(i32),
    /// To the beginning.
    Top,
    /// To the end, and on with it.
    Bottom,
    /// To where this entry is seen.
    Show(u64),
}

/// What completions are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    /// Files of the root.
    Files,
    /// Models of the catalogue.
    Models,
    /// Sessions of the store.
    Sessions,
    /// Messages of this conversation; the state knows them.
    Messages,
}

/// One thing to choose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    /// What is put in.
    pub(crate) value: String,
    /// What is known of it, in a few words.
    pub(crate) note: String,
}

impl Choice {
    pub(crate) fn new(value: impl Into<String>, note: impl Into<String>) -> Self {
        Choice { value: value.into(), note: note.into() }
    }
}

/// How a notice is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Tone {
    /// It is good to know.
    Quiet,
    /// It should be read with care.
    Loud,
    /// Something went wrong.
    Error,
}

/// What came of an effect.
#[derive(Debug)]
pub(crate) enum Told {
    /// A session is open.
    Opened(Box<Opened>),
    /// None could be opened; a sentence. What was open before still is if `closed` is false.
    NotOpened { why: String, closed: bool },
    /// A line for the transcript.
    Notice(Tone, String),
    /// Names for the transcript, and what is to be said of each.
    Table(Vec<Choice>),
    /// A request did not reach the session; its text comes back.
    /// `ends` tells that no run comes of it.
    Undelivered { text: String, why: String, ends: bool },
    /// An answer was not taken.
    Refused { call: CallId, why: String },
    /// What was written in the editor.
    Edited { call: CallId, json: String },
    /// There is no editor: these are to be edited here.
    NoEditor { call: CallId, json: String },
    /// What an edit would do to the file, or why that cannot be shown.
    Preview(ExternalAction, Result<String, String>),
    /// What waited in the queues.
    TakenBack(Vec<String>),
    /// What can be chosen from.
    Listed(Source, Vec<Choice>),
}

/// A session that was opened, and with what.
#[derive(Debug)]
pub(crate) struct Opened {
    /// What the session is at this moment.
    pub(crate) state: AgentState,
    /// The model.
    pub(crate) model: ModelInfo,
    /// It is kept when the process ends.
    pub(crate) kept: bool,
    /// The directory.
    pub(crate) root: PathBuf,
    /// Tokens used in it so far.
    pub(crate) usage: Usage,
    /// US dollars spent on it so far.
    pub(crate) cost: f64,
    /// It is the one that was open before, with another model or level.
    pub(crate) same: bool,
}

/// Arguments as they are edited.
pub(crate) fn pretty(arguments: &Value) -> String {
    serde_json::to_string_pretty(arguments).unwrap_or_default()
}
