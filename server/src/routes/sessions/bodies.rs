//! The bodies of requests and responses of live sessions.

use std::sync::Arc;

use loopwright_core::Message;
use loopwright_core::compaction::Compaction;
use loopwright_core::event::{AbortRequest, Input, InputEvent, Prompt, Urgency};
use loopwright_core::log::{SessionInfo, Stage};
use loopwright_core::message::{CallId, Content, InputId, MessageId, RunId, UserMessage};
use loopwright_core::tool::TodoList;
use loopwright_host::{Agents, SessionSettings};
use loopwright_protocols::NOT_BLANK;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{ApiError, ErrorKind};
use crate::inputs::images::{self, ImageBody};

/// Maximum length of the key of a signal, in bytes.
const MAX_SIGNAL_KEY_BYTES: usize = 256;
/// Maximum length of a client's id of an input, in characters.
const MAX_INPUT_ID_CHARS: usize = 200;

/// A created session.
#[derive(Serialize, JsonSchema)]
pub(crate) struct CreatedSession {
    pub(crate) id: Arc<str>,
}

/// The options of a fork.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct ForkBody {
    /// The last message of the fork, which has fewer if this message's turn ends later. Defaults to
    /// the last message.
    #[serde(default)]
    pub(crate) message: Option<MessageId>,
    /// A name for people. Defaults to the session's.
    #[serde(default)]
    #[schemars(length(max = SessionSettings::MAX_NAME_CHARS))]
    pub(crate) name: Option<String>,
}

/// The directory, model and agent of a session.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Setup {
    /// The directory, if the agent works in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) directory: Option<String>,
    /// The model, as `PROVIDER/NAME`, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    /// The agent, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) agent: Option<String>,
    /// `true` if the session can only be read here: the server lacks its agent or does not
    /// allow its model.
    #[serde(rename = "readOnly")]
    pub(crate) read_only: bool,
}

impl Setup {
    /// Returns the setup of a session.
    pub(crate) fn of(agents: &Agents, session: &SessionInfo) -> Self {
        let settings = agents.stored_settings(session.settings.as_deref());
        let read_only = !agents.can_open(&settings);
        let settings = agents.with_defaults(settings);
        let SessionSettings { agent, work_dir, model, .. } = settings;
        let agent = agent.filter(|agent| !agent.is_empty()); // of a foreign session
        Setup { directory: work_dir, model, agent, read_only }
    }
}

/// The work that a session does without an input.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Wakes {
    /// The next time at which the session does something by itself, in milliseconds since 1970: a
    /// deadline of an action, or the end of its agent's wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    wakes_at: Option<u64>,
    /// The keys of the signals that its agent waits for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    awaited_signals: Vec<Arc<str>>,
}

impl Wakes {
    pub(crate) fn of(session: &SessionInfo) -> Self {
        let awaited_signals = session.awaited_signals().cloned().collect();
        Wakes { wakes_at: session.wakes_at(), awaited_signals }
    }
}

/// The state of a session.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SessionStatus {
    pub(crate) session: SessionInfo,
    #[serde(flatten)]
    pub(crate) setup: Setup,
    /// The agent's commands, such as `/plan`. A request that begins with one runs it.
    pub(crate) commands: Vec<&'static str>,
    /// `true` if a run is in progress, in this process or another one.
    pub(crate) running: bool,
    /// `true` if a run was interrupted by the end of a process; `continue` resumes it.
    pub(crate) interrupted: bool,
    /// The reason that the session does not continue by itself: processes ended while they worked
    /// on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) held: Option<String>,
    #[serde(flatten)]
    pub(crate) wakes: Wakes,
    pub(crate) queue: Queue,
    /// The stages of the pattern's work on the last request, such as the nodes of a graph, in the
    /// order in which they first began; empty if the pattern has none. The current one has no
    /// `until`.
    pub(crate) stages: Vec<Stage>,
    /// The model's todo list; empty if it keeps none.
    pub(crate) todos: TodoList,
}

/// The texts of queued messages.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Queue {
    pub(crate) steering: Vec<String>,
    pub(crate) follow_up: Vec<String>,
}

/// The default number of messages per page.
const PAGE_MESSAGES: u32 = 100;
const MAX_PAGE_MESSAGES: u32 = 1_000;
/// The size of a page's JSON, in bytes, at which it gets no further message.
const MAX_PAGE_BYTES: usize = 1024 * 1024;

/// A query for messages.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct PageQuery {
    /// Only messages before this one, none if there is no such message. Defaults to the latest
    /// messages.
    #[serde(default)]
    before: Option<MessageId>,
    /// The maximum number of messages.
    #[serde(default)]
    limit: Option<u32>,
}

/// A page of the messages of a session.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Messages {
    /// The messages, in the order of the conversation.
    pub(crate) messages: Vec<Arc<Message>>,
    /// The `before` of the page with earlier messages. Missing on the first page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) before: Option<MessageId>,
    /// The number of the session's last event that is part of its messages.
    pub(crate) seq: u64,
}

impl PageQuery {
    /// Returns the page of a conversation whose last event has number `seq`.
    pub(crate) fn page(&self, all: &[Arc<Message>], seq: u64) -> Result<Messages, ApiError> {
        let limit = self.limit.unwrap_or(PAGE_MESSAGES);
        if !(1..=MAX_PAGE_MESSAGES).contains(&limit) {
            let why = format!("`limit` must be a number from 1 to {MAX_PAGE_MESSAGES}.");
            return Err(ApiError::new(ErrorKind::BadRequest, why));
        }
        let position = |id| all.iter().position(|message| message.id == id).unwrap_or(0);
        let end = self.before.map_or(all.len(), position);
        let (mut start, mut bytes) = (end, 0);
        while start > 0 && end - start < limit as usize && bytes < MAX_PAGE_BYTES {
            start -= 1;
            bytes += serde_json::to_vec(&all[start]).map_or(0, |json| json.len());
        }
        let before = all.get(start).filter(|_| start > 0).map(|message| message.id);
        Ok(Messages { messages: all[start..end].to_vec(), before, seq })
    }
}

/// A message of the user.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend("anyOf" = [
    { "required": ["message"], "properties": { "message": { "type": "string" } } },
    { "required": ["images"], "properties": { "images": { "minItems": 1 } } },
]))]
pub(crate) struct MessageBody {
    /// The text. It can be missing if there are images.
    #[serde(default)]
    #[schemars(regex(pattern = NOT_BLANK))]
    message: Option<String>,
    /// Images, which follow the text. If the model is known to take no images, the message is
    /// refused with status 400.
    #[serde(default)]
    #[schemars(length(max = 10))]
    images: Vec<ImageBody>,
    /// The client's id of this input. An input whose id the session already has is accepted and
    /// changes nothing.
    #[serde(default)]
    #[schemars(length(min = 1, max = 200))]
    id: Option<String>,
}

/// A message that changes the run in progress.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct SteerBody {
    #[serde(flatten)]
    message: MessageBody,
    /// The effect on calls in progress. Defaults to `skip_pending`.
    #[serde(default)]
    urgency: Option<Urgency>,
    /// The call of a sub-agent, to send the message to the sub-agent. For a sub-agent of a
    /// sub-agent, both calls with `~` between them, as in the `call` of an action.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub(crate) call: Option<CallId>,
}

/// An event for which the agent waits, or will wait.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct SignalBody {
    /// The key under which the agent waits.
    #[schemars(length(min = 1, max = 256))]
    key: Arc<str>,
    /// The value for the agent, at most 64 KiB of JSON. Defaults to `null`.
    #[serde(default)]
    value: Value,
    /// The client's id of this input. A signal whose id the session already has is accepted and
    /// changes nothing.
    #[serde(default)]
    #[schemars(length(min = 1, max = 200))]
    id: Option<String>,
}

impl SignalBody {
    pub(crate) fn input(self) -> Result<Input, ApiError> {
        if !(1..=MAX_SIGNAL_KEY_BYTES).contains(&self.key.len()) {
            let why = format!("A key has between 1 and {MAX_SIGNAL_KEY_BYTES} bytes.");
            return Err(ApiError::at("/key", why));
        }
        let event = InputEvent::Signal { key: self.key, value: self.value };
        Ok(Input { id: input_id(self.id)?, event })
    }
}

/// The run to stop.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct AbortBody {
    /// The run. Defaults to the one in progress, or the calls that wait for decisions. With it, an
    /// abort that arrives late does not stop the next run.
    #[serde(default)]
    run: Option<RunId>,
    /// The client's id of this input. An abort whose id the session already has is accepted and
    /// changes nothing.
    #[serde(default)]
    #[schemars(length(min = 1, max = 200))]
    id: Option<String>,
}

impl AbortBody {
    pub(crate) fn input(self) -> Result<Input, ApiError> {
        let mut request = AbortRequest::new();
        request.run = self.run;
        Ok(Input { id: input_id(self.id)?, event: InputEvent::Abort(request) })
    }
}

impl MessageBody {
    /// Returns the message, and the client's id of the input.
    pub(crate) fn prompt(self) -> Result<(Prompt, Option<InputId>), ApiError> {
        let images = images::contents(self.images)?;
        let is_blank = |text: &String| text.trim().is_empty();
        if self.message.as_ref().map_or(images.is_empty(), is_blank) {
            return Err(ApiError::at(
                "/message",
                "The message is empty: write what is to be done.",
            ));
        }
        let text = self.message.map(Content::text);
        let prompt = Prompt::from(UserMessage::new(text.into_iter().chain(images).collect()));
        Ok((prompt, input_id(self.id)?))
    }
}

impl SteerBody {
    /// Returns the message, and the client's id of the input.
    pub(crate) fn prompt(self) -> Result<(Prompt, Option<InputId>), ApiError> {
        let (mut prompt, input) = self.message.prompt()?;
        prompt.urgency = self.urgency;
        Ok((prompt, input))
    }
}

/// Returns the client's id of an input, or an error if it is too long or empty.
pub(crate) fn input_id(id: Option<String>) -> Result<Option<InputId>, ApiError> {
    match id {
        Some(id) if id.is_empty() || id.chars().count() > MAX_INPUT_ID_CHARS => Err(ApiError::at(
            "/id",
            format!(
                "An id has between 1 and {MAX_INPUT_ID_CHARS} characters; without one the server \
                 makes it."
            ),
        )),
        id => Ok(id.map(Into::into)),
    }
}

/// The options of a compaction, which replaces older messages by a summary.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct CompactBody {
    /// The points that the summary should emphasise.
    #[serde(default)]
    pub(crate) instructions: Option<String>,
    /// The client's id of this input. A compaction whose id the session already has is not
    /// repeated, and the answer is the first one's.
    #[serde(default)]
    #[schemars(length(min = 1, max = 200))]
    pub(crate) id: Option<String>,
}

/// The compactions. Empty if there was nothing to replace.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Compacted {
    pub(crate) compactions: Vec<Arc<Compaction>>,
}

/// The options of continuing a session. The body may be `{}`, but it must be JSON, which a page of
/// another site cannot send without the server's consent.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct ContinueBody {
    /// The client's id of this input. An input whose id the session already has is accepted and
    /// changes nothing.
    #[serde(default)]
    #[schemars(length(min = 1, max = 200))]
    pub(crate) id: Option<String>,
}

/// An accepted input, which is in the session's log.
#[derive(Serialize, JsonSchema)]
pub(crate) struct AcceptedInput {
    /// The id of the input: the client's, or a new one.
    pub(crate) input: InputId,
}
