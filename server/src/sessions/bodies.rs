//! What the routes of live sessions take and give.

use std::sync::Arc;

use loopwright_core::compaction::Compaction;
use loopwright_core::event::{Prompt, Urgency};
use loopwright_core::log::SessionInfo;
use loopwright_core::message::{History, InputId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ApiError;

/// How a session is to be; kept with it, so that it is the same after a restart. Keys are the
/// server's own.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Settings {
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// The directory to work in, below one of the server's roots; the first root if it is missing.
    #[serde(default, alias = "root", skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub(crate) work_dir: Option<String>,
    /// The model, as `PROVIDER/NAME`; the server's own choice if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"\S"))]
    pub(crate) model: Option<String>,
    /// The system prompt, instead of the server's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) system: Option<String>,
    /// The tools whose calls run without confirmation; `all` stands for all of them. Tools that
    /// only read never need one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) auto_approve: Option<Vec<String>>,
}

/// A session was begun.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Created {
    pub(crate) id: Arc<str>,
}

/// All sessions, the one changed last first.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Listed {
    pub(crate) sessions: Vec<OfList>,
}

/// A session of the list.
#[derive(Serialize, JsonSchema)]
pub(crate) struct OfList {
    #[serde(flatten)]
    pub(crate) session: SessionInfo,
    /// Whether its run was cut off: it does not go on in this server.
    pub(crate) interrupted: bool,
}

/// One session.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Session {
    pub(crate) session: SessionInfo,
    /// Whether a run goes on.
    pub(crate) running: bool,
    /// Whether a run was cut off by the end of a server; `continue` goes on with it.
    pub(crate) interrupted: bool,
    pub(crate) queue: Queue,
}

/// The texts of what waits.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Queue {
    pub(crate) steering: Vec<String>,
    pub(crate) follow_up: Vec<String>,
}

/// What was said.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Messages {
    pub(crate) messages: History,
    /// The number of the last event that tells of them: the events after it go on from here.
    pub(crate) seq: u64,
}

/// Something that the user says.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Said {
    /// The text.
    #[schemars(regex(pattern = r"\S"))]
    message: String,
    /// The client's id of this input: the same one again is acknowledged and changes nothing.
    #[serde(default)]
    #[schemars(length(min = 1, max = 200))]
    id: Option<String>,
}

/// A message that should change the run that goes on.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Steered {
    #[serde(flatten)]
    said: Said,
    /// What it does to what is going on; `skip_pending` if it is missing.
    #[serde(default)]
    urgency: Option<Urgency>,
}

impl Said {
    pub(crate) fn prompt(self) -> Result<Prompt, ApiError> {
        if self.message.trim().is_empty() {
            return Err(ApiError::at("/message", "The message is empty: say what is to be done."));
        }
        let prompt = Prompt::from(self.message);
        Ok(match input_id(self.id)? {
            Some(id) => prompt.id(id),
            None => prompt,
        })
    }
}

impl Steered {
    pub(crate) fn prompt(self) -> Result<Prompt, ApiError> {
        let prompt = self.said.prompt()?;
        Ok(match self.urgency {
            Some(urgency) => prompt.urgency(urgency),
            None => prompt,
        })
    }
}

/// A client's id of an input, if it is one.
pub(crate) fn input_id(id: Option<String>) -> Result<Option<InputId>, ApiError> {
    match id {
        Some(id) if id.is_empty() || id.chars().count() > 200 => Err(ApiError::at(
            "/id",
            "An id has between 1 and 200 characters; without one the server makes it.",
        )),
        id => Ok(id.map(Into::into)),
    }
}

/// How older messages are to be replaced by a summary.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Compact {
    /// What the summary should mind.
    #[serde(default)]
    pub(crate) instructions: Option<String>,
}

/// What was replaced; nothing where there was nothing to replace.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Compacted {
    pub(crate) compactions: Vec<Arc<Compaction>>,
}

/// A body that says nothing. It is JSON all the same, which a page of another site cannot send
/// unasked.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Nothing {}

/// An input is in the session's log.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Accepted {
    /// Its id: the client's, or the one made for it.
    pub(crate) input: InputId,
}
