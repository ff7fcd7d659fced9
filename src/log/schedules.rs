//! [`Schedules`]: inputs that are posted at certain times.

use std::sync::Arc;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::environment::{Environment, SystemEnvironment};
use crate::error::{InputError, MemoryError};
use crate::event::input::InputEvent;
use crate::log::mailbox::PostedInput;

/// The schedules of sessions, returned by
/// [`SessionStore::schedules`](crate::SessionStore::schedules).
///
/// A schedule belongs to its session, and is deleted with it. Forks do not inherit it.
#[async_trait]
pub trait Schedules: Send + Sync {
    /// Adds a schedule, or replaces the session's schedule with the same id. The schedule is
    /// durable when this returns.
    ///
    /// # Errors
    ///
    /// [`MemoryError::NoSession`] if no session of this name has an entry, and
    /// [`MemoryError::SubAgent`] if the session belongs to a sub-agent.
    async fn put(&self, schedule: &Schedule) -> Result<(), MemoryError>;

    /// Removes a schedule. Returns `false` if no schedule has this id.
    async fn remove(&self, session: &str, id: &str) -> Result<bool, MemoryError>;

    /// Returns the schedules of a session, sorted by id.
    async fn of_session(&self, session: &str) -> Result<Vec<Schedule>, MemoryError>;

    /// Returns at most `limit` schedules that are due by the clock of the store. If more are due,
    /// the store chooses any of them.
    async fn due(&self, limit: usize) -> Result<Vec<Schedule>, MemoryError>;

    /// Returns the time of the store, in milliseconds since 1970. The default is the clock of this
    /// process.
    async fn now(&self) -> Result<u64, MemoryError> {
        Ok(SystemEnvironment.now())
    }

    /// Sets the next time of a schedule after it was carried out, or removes the schedule for
    /// `None`. Returns `false`, and changes nothing, if the schedule has changed: another worker
    /// was faster, or it was replaced.
    async fn advance(&self, schedule: &Schedule, next: Option<u64>) -> Result<bool, MemoryError>;
}

/// An input that is posted to a session at a certain time, once or repeatedly.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Schedule {
    /// The id of the session.
    pub session: Arc<str>,
    /// The id of the schedule within the session.
    pub id: Arc<str>,
    /// The next time, in milliseconds since 1970.
    pub next: u64,
    /// The later times, as a cron expression; `None` for a single time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<Arc<str>>,
    /// The time zone of the cron expression, such as `Europe/Berlin`; `None` means UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<Arc<str>>,
    /// The input to post. [`input`](Schedule::input) replaces its id.
    #[schemars(with = "serde_json::Value")]
    pub event: InputEvent,
}

impl Schedule {
    /// Builds a schedule that posts an input once, at a time in milliseconds since 1970.
    pub fn once(
        session: impl Into<Arc<str>>,
        id: impl Into<Arc<str>>,
        time: u64,
        event: InputEvent,
    ) -> Self {
        let (session, id) = (session.into(), id.into());
        Schedule { session, id, next: time, cron: None, time_zone: None, event }
    }

    /// Returns the input of the next time. Its id consists of the schedule's id and the time, so
    /// that several workers can post it and the session takes it once.
    ///
    /// # Errors
    ///
    /// Fails if the event cannot be posted; see [`PostedInput::new`].
    pub fn input(&self) -> Result<PostedInput, InputError> {
        PostedInput::new(format!("schedule:{}:{}", self.id, self.next), self.event.clone())
    }

    /// Returns whether both are the same schedule at the same time.
    pub fn is_same(&self, other: &Schedule) -> bool {
        self.session == other.session && self.id == other.id && self.next == other.next
    }
}
