//! The schedules of a store.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use loopwright_core::log::{MemoryError, Schedule, SchedulePage, ScheduleQuery, Schedules};
use loopwright_core::{Environment, SystemEnvironment};
use rusqlite::Connection;

use super::job::Write;
use super::{Sqlite, schedule_rows};
use crate::sql::integer;

#[async_trait]
impl Schedules for Sqlite {
    async fn put(&self, schedule: &Schedule) -> Result<(), MemoryError> {
        let write = Write::PutSchedule { schedule: Box::new(schedule.clone()) };
        self.shared.write(&schedule.session, write, true).await
    }

    async fn remove(&self, session: &str, id: &str) -> Result<bool, MemoryError> {
        let id = id.into();
        self.change(session, |has_changed| Write::RemoveSchedule { id, has_changed }).await
    }

    async fn of_session(&self, session: &str) -> Result<Vec<Schedule>, MemoryError> {
        let session: Arc<str> = session.into();
        let read = move |connection: &Connection, file: &Path| {
            schedule_rows::of_session(connection, &session, file)
        };
        self.shared.read(read).await
    }

    async fn due(&self, limit: usize) -> Result<Vec<Schedule>, MemoryError> {
        let (now, limit) = (integer(SystemEnvironment.now()), integer(limit as u64));
        let read = move |connection: &Connection, file: &Path| {
            schedule_rows::due(connection, now, limit, file)
        };
        self.shared.read(read).await
    }

    async fn next_after(&self, time: u64) -> Result<Option<u64>, MemoryError> {
        let time = integer(time);
        let read =
            move |connection: &Connection, _: &Path| schedule_rows::next_after(connection, time);
        Ok(self.shared.read(read).await?.map(|next| next as u64))
    }

    async fn page(&self, query: &ScheduleQuery) -> Result<SchedulePage, MemoryError> {
        let query = query.clone();
        let read = move |connection: &Connection, file: &Path| {
            schedule_rows::page(connection, file, &query)
        };
        self.shared.read(read).await
    }

    async fn advance(
        &self,
        schedule: &Schedule,
        next: Option<&Schedule>,
    ) -> Result<bool, MemoryError> {
        let next = next.cloned().map(Box::new);
        let schedule = Box::new(schedule.clone());
        let session = schedule.session.clone();
        self.change(&session, |has_changed| Write::Advance { schedule, next, has_changed }).await
    }
}

impl Sqlite {
    /// Writes a change of a schedule, and returns whether there was something to change.
    async fn change(
        &self,
        session: &str,
        write: impl FnOnce(Arc<AtomicBool>) -> Write + Send,
    ) -> Result<bool, MemoryError> {
        let has_changed = Arc::new(AtomicBool::default());
        self.shared.write(session, write(has_changed.clone()), true).await?;
        Ok(has_changed.load(Ordering::Acquire))
    }
}
