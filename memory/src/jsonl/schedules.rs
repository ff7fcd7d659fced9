//! The schedules of a store.

use async_trait::async_trait;
use loopwright_core::log::{MemoryError, Schedule, SchedulePage, ScheduleQuery, Schedules};
use loopwright_core::{Environment, SystemEnvironment};

use super::Jsonl;
use super::schedule_file::ScheduleFile;

#[async_trait]
impl Schedules for Jsonl {
    async fn put(&self, schedule: &Schedule) -> Result<(), MemoryError> {
        let schedule = schedule.clone();
        self.change(move |store, _lock| {
            store.info(&schedule.session)?.require_root()?;
            ScheduleFile::read(store.folder.directory())?.put(schedule)
        })
        .await
    }

    async fn remove(&self, session: &str, id: &str) -> Result<bool, MemoryError> {
        let (session, id) = (session.to_owned(), id.to_owned());
        self.change(move |store, _lock| {
            ScheduleFile::read(store.folder.directory())?.remove(&session, &id)
        })
        .await
    }

    async fn of_session(&self, session: &str) -> Result<Vec<Schedule>, MemoryError> {
        let mut schedules = self.all_schedules().await?;
        schedules.retain(|schedule| *schedule.session == *session);
        schedules.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(schedules)
    }

    async fn due(&self, limit: usize) -> Result<Vec<Schedule>, MemoryError> {
        let now = SystemEnvironment.now();
        let mut schedules = self.all_schedules().await?;
        schedules.retain(|schedule| schedule.due_at() <= now);
        // A failing one must not hide the others.
        schedules.sort_by_cached_key(|_| SystemEnvironment.random());
        schedules.truncate(limit);
        Ok(schedules)
    }

    async fn next_after(&self, time: u64) -> Result<Option<u64>, MemoryError> {
        let schedules = self.all_schedules().await?;
        Ok(schedules.iter().map(Schedule::due_at).filter(|next| *next > time).min())
    }

    async fn page(&self, query: &ScheduleQuery) -> Result<SchedulePage, MemoryError> {
        let query = query.clone();
        self.work(move |store| {
            let mut schedules = ScheduleFile::read(store.folder.directory())?.schedules;
            if query.owner.is_some() {
                // A session that cannot be read has no owner.
                let is_owner = |schedule: &Schedule| {
                    store.info(&schedule.session).is_ok_and(|info| info.owner == query.owner)
                };
                schedules.retain(is_owner);
            }
            Ok(query.page(schedules))
        })
        .await
    }

    async fn advance(
        &self,
        schedule: &Schedule,
        next: Option<&Schedule>,
    ) -> Result<bool, MemoryError> {
        let (schedule, next) = (schedule.clone(), next.cloned());
        self.change(move |store, _lock| {
            ScheduleFile::read(store.folder.directory())?.advance(&schedule, next)
        })
        .await
    }
}

impl Jsonl {
    async fn all_schedules(&self) -> Result<Vec<Schedule>, MemoryError> {
        self.work(|store| Ok(ScheduleFile::read(store.folder.directory())?.schedules)).await
    }
}
