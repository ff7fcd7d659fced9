//! [`Schedules`]: inputs that are posted at a time.

use std::sync::Arc;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::environment::{Environment, SystemEnvironment};
use crate::error::{InputError, MemoryError};
use crate::log::input::InputEvent;
use crate::log::mailbox::PostedInput;

/// Stores the schedules of sessions. [`SessionStore::schedules`](crate::SessionStore::schedules)
/// returns it.
///
/// A schedule belongs to its session, and is deleted with it. Forks do not have it.
#[async_trait]
pub trait Schedules: Send + Sync {
    /// Adds a schedule, or replaces that of the session with the same id. The schedule is durable
    /// when this returns.
    ///
    /// # Errors
    ///
    /// [`MemoryError::NoSession`] if there is no session with an entry, and
    /// [`MemoryError::SubAgent`] if it belongs to a sub-agent.
    async fn put(&self, schedule: &Schedule) -> Result<(), MemoryError>;

    /// Removes a schedule. Returns false if there is none of this id.
    async fn remove(&self, session: &str, id: &str) -> Result<bool, MemoryError>;

    /// Returns the schedules of a session, sorted by id.
    async fn of_session(&self, session: &str) -> Result<Vec<Schedule>, MemoryError>;

    /// Returns at most `limit` schedules whose time has come by the clock of the store. If there
    /// are more, it may choose any of them.
    async fn due(&self, limit: usize) -> Result<Vec<Schedule>, MemoryError>;

    /// Returns the time of the store, in milliseconds since 1970. The default is the clock of this
    /// process.
    async fn now(&self) -> Result<u64, MemoryError> {
        Ok(SystemEnvironment.now())
    }

    /// Sets the next time of a schedule after it was carried out, or removes it if there is none.
    /// Returns false, and changes nothing, if it is not the same any more: another worker was
    /// faster, or it was replaced.
    async fn advance(&self, schedule: &Schedule, next: Option<u64>) -> Result<bool, MemoryError>;
}

/// Describes an input that is posted to a session at a time, once or again and again.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Schedule {
    /// The session.
    pub session: Arc<str>,
    /// The id of the schedule within the session.
    pub id: Arc<str>,
    /// The next time, in milliseconds since 1970.
    pub next: u64,
    /// The times after it, as a cron expression. `None` means that there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<Arc<str>>,
    /// The time zone of the cron expression, such as `Europe/Berlin`. `None` means UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<Arc<str>>,
    /// What is posted. Its id is replaced by [`input`](Schedule::input).
    #[schemars(with = "serde_json::Value")]
    pub event: InputEvent,
}

impl Schedule {
    /// Describes an input that is posted once, at a time in milliseconds since 1970.
    pub fn once(
        session: impl Into<Arc<str>>,
        id: impl Into<Arc<str>>,
        time: u64,
        event: InputEvent,
    ) -> Self {
        let (session, id) = (session.into(), id.into());
        Schedule { session, id, next: time, cron: None, time_zone: None, event }
    }

    /// Returns the input of the next time. Its id consists of the schedule's and of the time, so
    /// that several workers can post it, and the session takes it once.
    ///
    /// # Errors
    ///
    /// Fails if the event cannot be posted: see [`PostedInput::new`].
    pub fn input(&self) -> Result<PostedInput, InputError> {
        PostedInput::new(format!("schedule:{}:{}", self.id, self.next), self.event.clone())
    }

    /// Returns whether this is the other schedule at the same time.
    pub fn is_same(&self, other: &Schedule) -> bool {
        self.session == other.session && self.id == other.id && self.next == other.next
    }
}
