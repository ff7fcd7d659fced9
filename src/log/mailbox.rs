//! The durable mailbox of a session, for inputs of processes that do not own it.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::error::{InputError, MemoryError};
use crate::log::input::InputEvent;
use crate::message::InputId;

/// Holds an input for the mailbox of a session, which
/// [`SessionStore::post`](crate::SessionStore::post) stores.
///
/// Of the host's values ([`Prompt::with`](crate::event::Prompt::with)) only the
/// [`Principal`](crate::agent::Principal) is serialised.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PostedInput {
    /// The client's id of the input. The same id posted again changes nothing.
    pub id: InputId,
    /// The input.
    pub event: InputEvent,
    /// When it was posted, in milliseconds since 1970, by the clock of the store, which sets it.
    /// `None` for inputs that an older version has stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<u64>,
}

impl PostedInput {
    /// Builds an input with this id, which replaces that of the event.
    ///
    /// # Errors
    ///
    /// Fails with [`InputError::NotPostable`] for an abort that names no run and for a reset, which
    /// would stop whatever run is in progress when they arrive.
    pub fn new(id: impl Into<InputId>, mut event: InputEvent) -> Result<Self, InputError> {
        let why = match &event {
            InputEvent::Abort(abort) if abort.run.is_none() => "an abort must name its run",
            InputEvent::Reset => "a reset stops whatever run is in progress when it arrives",
            _ => "",
        };
        if !why.is_empty() {
            return Err(InputError::NotPostable(why.into()));
        }
        let id = id.into();
        event.set_id(id.clone());
        Ok(PostedInput { id, event, time: None })
    }
}

/// Says what became of a posted input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputReceipt {
    /// It is in the log of the session.
    Accepted,
    /// It was refused and changed nothing, for the reason that a handle would have returned.
    Refused(InputError),
}

impl InputReceipt {
    /// Returns the reason of a refusal as an error.
    pub fn into_result(self) -> Result<(), InputError> {
        match self {
            InputReceipt::Accepted => Ok(()),
            InputReceipt::Refused(why) => Err(why),
        }
    }
}

/// Gives the owner of a session access to its mailbox. [`Memory::mailbox`] returns it.
///
/// [`Memory::mailbox`]: crate::Memory::mailbox
///
/// # Contract
///
/// - An input is unread from the moment at which [`SessionStore::post`] has returned until it has a
///   receipt. Both are durable, and are kept for as long as the session exists.
/// - [`acknowledge`](Mailbox::acknowledge) must check that the session still belongs to this owner
///   and write in one step, as an append does. A check followed by a write is not enough: between
///   them, another owner may accept the input.
/// - The [`time`](PostedInput::time) of an input says when it was posted, not when its owner reads
///   it: that decides whether a decision was sent before its deadline. The inputs that were posted
///   before the time that [`now`](Mailbox::now) returned must be in what
///   [`unread`](Mailbox::unread) returns afterwards. So the time must be taken within the
///   transaction, or under the lock, that makes the input visible, and `now` must wait for those
///   that have begun.
/// - The futures may be dropped at any time.
///
/// [`SessionStore::post`]: crate::SessionStore::post
#[async_trait]
pub trait Mailbox: Send + Sync {
    /// Returns the inputs without a receipt, in the order in which they were posted.
    async fn unread(&self) -> Result<Vec<PostedInput>, MemoryError>;

    /// Returns the time in milliseconds since 1970, by the clock of the store. The session calls it
    /// when the deadline of an action has passed, before it reads the mailbox.
    async fn now(&self) -> Result<u64, MemoryError>;

    /// Returns the receipt of the input with this id, or `None` if it has none or was not posted.
    async fn receipt(&self, input: &InputId) -> Result<Option<InputReceipt>, MemoryError>;

    /// Writes the receipt of an input, unless it has one. A refusal of an input that was not posted
    /// is recorded too, so that a copy that is posted later gets the same answer; an acceptance of
    /// one is not, since its id is in the log.
    ///
    /// # Errors
    ///
    /// [`MemoryError::Lost`] or [`MemoryError::Conflict`] if the session belongs to another owner
    /// now. Nothing was written then.
    async fn acknowledge(&self, input: &InputId, receipt: &InputReceipt)
    -> Result<(), MemoryError>;

    /// Waits until an input may have been posted since the last call. It should resolve within
    /// 100 ms; it may resolve without a reason. The session then reads its mailbox. It also reads
    /// it from time to time without being told, so that a missed input waits, and is not lost.
    async fn posted(&self);
}
