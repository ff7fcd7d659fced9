//! [`Mailbox`]: the durable inputs of processes that do not own a session.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::error::{InputError, MemoryError};
use crate::event::input::InputEvent;
use crate::message::InputId;

/// An input for the mailbox of a session, stored by
/// [`SessionStore::post`](crate::SessionStore::post).
///
/// Only the [`Principal`](crate::Principal) of the host's values
/// ([`Prompt::with`](crate::event::Prompt::with)) is serialised.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PostedInput {
    /// The client's id of the input. Posting the same id again changes nothing.
    pub id: InputId,
    /// The content of the input.
    pub event: InputEvent,
    /// Time of posting in milliseconds since 1970, by the clock of the store, which sets it. `None`
    /// for inputs stored by older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<u64>,
    /// The input stays unread while the queue that it is for is full. Other inputs are refused
    /// then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waits: bool,
}

impl PostedInput {
    /// Builds an input with this id.
    ///
    /// # Errors
    ///
    /// Fails with [`InputError::NotPostable`] for an abort that names no run and for a reset,
    /// because they would stop whatever run is in progress when they arrive.
    pub fn new(id: impl Into<InputId>, event: InputEvent) -> Result<Self, InputError> {
        let why = match &event {
            InputEvent::Abort(abort) if abort.run.is_none() => "an abort must name its run",
            InputEvent::Reset => "a reset stops whatever run is in progress when it arrives",
            _ => "",
        };
        if !why.is_empty() {
            return Err(InputError::NotPostable(why.into()));
        }
        Ok(PostedInput { id: id.into(), event, time: None, waits: false })
    }

    /// Sets that the input stays in the mailbox while the queue that it is for is full, instead of
    /// being refused: its sender does not wait for the receipt.
    pub fn waits_for_room(mut self) -> Self {
        self.waits = true;
        self
    }
}

/// The receipt of a posted input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputReceipt {
    /// The input is in the log of the session.
    Accepted,
    /// The input was refused and changed nothing, with the error that a handle would have returned.
    Refused(InputError),
}

impl InputReceipt {
    /// Converts a refusal into its error.
    pub fn into_result(self) -> Result<(), InputError> {
        match self {
            InputReceipt::Accepted => Ok(()),
            InputReceipt::Refused(why) => Err(why),
        }
    }
}

/// The owner's access to the mailbox of its session, returned by [`Memory::mailbox`].
///
/// [`Memory::mailbox`]: crate::Memory::mailbox
///
/// # Contract
///
/// - An input is unread from the return of [`SessionStore::post`] until it has a receipt. Both are
///   durable, and are kept for as long as the session exists.
/// - [`acknowledge`](Mailbox::acknowledge) must check that the session still belongs to this owner
///   and write in one step, like an append. A check followed by a write is not enough: between
///   them, another owner may accept the input.
/// - The [`time`](PostedInput::time) of an input is the time of posting, not of reading, because it
///   decides whether a decision was sent before its deadline. After [`now`](Mailbox::now) has
///   returned a time, [`unread`](Mailbox::unread) must return all inputs posted before it. So the
///   time must be taken within the transaction, or under the lock, that makes the input visible,
///   and `now` must wait for posts in progress.
/// - The futures may be dropped at any time.
///
/// [`SessionStore::post`]: crate::SessionStore::post
#[async_trait]
pub trait Mailbox: Send + Sync {
    /// Returns the inputs without a receipt, in the order of posting.
    async fn unread(&self) -> Result<Vec<PostedInput>, MemoryError>;

    /// Returns the time in milliseconds since 1970, by the clock of the store. The session calls
    /// this when the deadline of an action has passed, before it reads the mailbox.
    async fn now(&self) -> Result<u64, MemoryError>;

    /// Returns the receipt of the input with this id, or `None` if it has none or was not posted.
    async fn receipt(&self, input: &InputId) -> Result<Option<InputReceipt>, MemoryError>;

    /// Writes the receipt of an input, unless it has one. The refusal of an input that was not
    /// posted is recorded too, so that a later copy gets the same answer. Its acceptance is not,
    /// because the log has its id.
    ///
    /// # Errors
    ///
    /// [`MemoryError::Lost`] or [`MemoryError::Conflict`] if the session now belongs to another
    /// owner. Nothing was written then.
    async fn acknowledge(&self, input: &InputId, receipt: &InputReceipt)
    -> Result<(), MemoryError>;

    /// Waits until an input may have been posted since the last call. It should resolve within 100
    /// ms of a post, and may resolve without one. The session then reads its mailbox. It also reads
    /// the mailbox from time to time, so a missed notification delays an input but does not lose
    /// it.
    async fn posted(&self);
}
