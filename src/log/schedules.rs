//! [`Schedules`]: inputs that are posted at certain times.

use std::sync::Arc;

use async_trait::async_trait;

use crate::environment::{Environment, SystemEnvironment};
use crate::error::MemoryError;
use crate::log::schedule::Schedule;
use crate::log::schedule_page::{SchedulePage, ScheduleQuery};

/// Maximum number of schedules of a session.
pub const MAX_SESSION_SCHEDULES: usize = 100;
/// Maximum number of schedules of all sessions of a store.
pub const MAX_SCHEDULES: usize = 100_000;

/// The schedules of sessions, returned by
/// [`SessionStore::schedules`](crate::SessionStore::schedules).
///
/// A schedule belongs to its session, and is deleted with it. Forks do not inherit it. Whoever
/// looks after the store carries schedules out with [`post_due_schedules`]: the server, a fleet, or
/// [`GenericAgent::keep_running_due`].
///
/// [`post_due_schedules`]: crate::log::post_due_schedules
/// [`GenericAgent::keep_running_due`]: crate::GenericAgent::keep_running_due
#[async_trait]
pub trait Schedules: Send + Sync {
    /// Adds a schedule, or replaces the session's schedule with the same id. The schedule is
    /// durable when this returns.
    ///
    /// # Errors
    ///
    /// [`MemoryError::NoSession`] if no session of this name has an entry,
    /// [`MemoryError::SubAgent`] if the session belongs to a sub-agent, and
    /// [`MemoryError::TooManySchedules`] for a new schedule if the session has
    /// [`MAX_SESSION_SCHEDULES`], or the store [`MAX_SCHEDULES`].
    async fn put(&self, schedule: &Schedule) -> Result<(), MemoryError>;

    /// Removes a schedule. Returns `false` if no schedule has this id.
    async fn remove(&self, session: &str, id: &str) -> Result<bool, MemoryError>;

    /// Returns the schedules of a session, sorted by id.
    async fn of_session(&self, session: &str) -> Result<Vec<Schedule>, MemoryError>;

    /// Returns at most `limit` schedules that are due by the clock of the store. If more are due,
    /// the store chooses any of them. One that cannot be read is logged and left out.
    async fn due(&self, limit: usize) -> Result<Vec<Schedule>, MemoryError>;

    /// Returns the earliest next time of all schedules that is later than this time.
    async fn next_after(&self, time: u64) -> Result<Option<u64>, MemoryError>;

    /// Returns a page of the schedules of all sessions, the next one first.
    async fn page(&self, query: &ScheduleQuery) -> Result<SchedulePage, MemoryError>;

    /// Returns the time of the store, in milliseconds since 1970. The default is the clock of this
    /// process.
    async fn now(&self) -> Result<u64, MemoryError> {
        Ok(SystemEnvironment.now())
    }

    /// Replaces a schedule that was carried out by the one for its next time, or removes it for
    /// `None`. Returns `false`, and changes nothing, if it is no longer the
    /// [same](Schedule::is_same): another worker was faster, or a person has replaced it.
    async fn advance(
        &self,
        schedule: &Schedule,
        next: Option<&Schedule>,
    ) -> Result<bool, MemoryError>;
}

/// Checks that another schedule of a session may be added, for stores: the session has
/// `of_session`, and the store `all`.
///
/// # Errors
///
/// Fails with [`MemoryError::TooManySchedules`].
pub fn check_schedule_room(
    session: &Arc<str>,
    of_session: usize,
    all: usize,
) -> Result<(), MemoryError> {
    if of_session >= MAX_SESSION_SCHEDULES {
        let (session, max) = (Some(session.clone()), MAX_SESSION_SCHEDULES);
        return Err(MemoryError::TooManySchedules { session, max });
    }
    if all >= MAX_SCHEDULES {
        return Err(MemoryError::TooManySchedules { session: None, max: MAX_SCHEDULES });
    }
    Ok(())
}
