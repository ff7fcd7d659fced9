//! Schedules.

use std::sync::Arc;

use async_trait::async_trait;
use loopwright_core::Principal;
use loopwright_core::log::{
    MAX_SCHEDULES, MAX_SESSION_SCHEDULES, MemoryError, Schedule, SchedulePage, ScheduleQuery,
    Schedules, check_schedule_room,
};
use tokio_postgres::Row;

use super::error::{StoreError, not_understood};
use super::handle::StoreHandle;
use super::listing::{more, selected};
use super::store::{Params, Store};
use super::text::{from_text, to_text};
use crate::codec;
use crate::sql::integer;

const PUT: &str = "\
WITH target AS (
    SELECT number, root, (SELECT count(*) FROM schedule WHERE session = number) AS of_session,
        (SELECT count(*) FROM schedule) AS of_all,
        EXISTS (SELECT FROM schedule WHERE session = number AND md5(id) = md5($2)) AS is_known
    FROM session WHERE name = $1 AND entries > 0
), put AS (
    INSERT INTO schedule (session, id, next, json, nonce)
    SELECT number, $2, $3, $4, $7 FROM target
    WHERE root IS NULL AND (is_known OR (of_session < $5 AND of_all < $6))
    ON CONFLICT (session, md5(id)) DO UPDATE
    SET next = excluded.next, json = excluded.json, nonce = excluded.nonce
)
SELECT root, is_known, of_session, of_all FROM target";
const REMOVE: &str = "\
DELETE FROM schedule USING session s WHERE session = s.number AND s.name = $1
    AND md5(id) = md5($2) AND id = $2 RETURNING 1";
const OF_SESSION: &str = "\
SELECT schedule.json FROM schedule JOIN session s ON s.number = session
WHERE s.name = $1 ORDER BY id";
const DUE: &str = "\
SELECT json FROM schedule
WHERE next <= (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)
ORDER BY random() LIMIT $1";
const NEXT: &str = "SELECT min(next) FROM schedule WHERE next > $1";
const PAGE: &str = "\
SELECT json FROM schedule JOIN session s ON s.number = session
WHERE (next, s.name, id) > ($1, $2, $3) AND {of_owner} ORDER BY next, s.name, id LIMIT $5";
const NOW: &str = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
const ADVANCE: &str = "\
UPDATE schedule SET next = $5, json = $6 FROM session s
WHERE session = s.number AND s.name = $1 AND md5(id) = md5($2) AND id = $2 AND next = $3
    AND nonce = $4
RETURNING 1";
const END: &str = "\
DELETE FROM schedule USING session s
WHERE session = s.number AND s.name = $1 AND md5(id) = md5($2) AND id = $2 AND next = $3
    AND nonce = $4
RETURNING 1";

impl Store {
    async fn put_schedule(&self, schedule: Schedule) -> Result<(), StoreError> {
        let (name, id) = (to_text(&schedule.session), to_text(&schedule.id));
        let (next, json) = (integer(schedule.due_at()), codec::encode(&schedule)?);
        let limits = (MAX_SESSION_SCHEDULES as i64, MAX_SCHEDULES as i64);
        let nonce = i64::from(schedule.nonce);
        let params: Params<'_> = &[&name, &id, &next, &json, &limits.0, &limits.1, &nonce];
        let rows = self.query(PUT, params).await?;
        let session = schedule.session.clone();
        let Some(row) = rows.first() else {
            return Err(MemoryError::NoSession(session).into());
        };
        if let Some(root) = row.get::<_, Option<&str>>(0) {
            let root = from_text(root).into_owned().into();
            return Err(MemoryError::SubAgent { session, root }.into());
        }
        if !row.get::<_, bool>(1) {
            let count = |n: usize| row.get::<_, i64>(n) as usize;
            check_schedule_room(&session, count(2), count(3))?;
        }
        Ok(())
    }

    async fn schedule_page(&self, query: ScheduleQuery) -> Result<SchedulePage, StoreError> {
        let of_owner = "md5(s.principal) = md5($4) AND s.principal = $4";
        let sql = PAGE.replace("{of_owner}", &selected(of_owner, query.owner.is_some()));
        let (time, name, id) = match &query.after {
            Some(after) => (integer(after.time), to_text(&after.session), to_text(&after.id)),
            None => (-1, "".into(), "".into()),
        };
        let owner = query.owner.as_ref().map(|owner| to_text(Principal::as_str(owner)));
        // One more than the limit shows whether another page follows.
        let limit = more(query.limit);
        let rows = self.query(&sql, &[&time, &name, &id, &owner, &limit]).await?;
        Ok(query.page(decode(rows)?))
    }

    async fn advance_schedule(
        &self,
        schedule: Schedule,
        next: Option<Schedule>,
    ) -> Result<bool, StoreError> {
        let (name, id) = (to_text(&schedule.session), to_text(&schedule.id));
        let (current, nonce) = (integer(schedule.due_at()), i64::from(schedule.nonce));
        let rows = match next {
            None => self.query(END, &[&name, &id, &current, &nonce]).await?,
            Some(next) => {
                let (time, json) = (integer(next.due_at()), codec::encode(&next)?);
                let params: Params<'_> = &[&name, &id, &current, &nonce, &time, &json];
                self.query(ADVANCE, params).await?
            }
        };
        Ok(!rows.is_empty())
    }
}

#[async_trait]
impl Schedules for StoreHandle {
    async fn put(&self, schedule: &Schedule) -> Result<(), MemoryError> {
        let schedule = schedule.clone();
        self.run(async move |store: Arc<Store>| store.put_schedule(schedule).await).await
    }

    async fn remove(&self, session: &str, id: &str) -> Result<bool, MemoryError> {
        let (name, id) = (to_text(session).into_owned(), to_text(id).into_owned());
        let remove = async move |store: Arc<Store>| store.query(REMOVE, &[&name, &id]).await;
        self.run(remove).await.map(|rows| !rows.is_empty())
    }

    async fn of_session(&self, session: &str) -> Result<Vec<Schedule>, MemoryError> {
        let name = to_text(session).into_owned();
        let read = async move |store: Arc<Store>| decode(store.query(OF_SESSION, &[&name]).await?);
        self.run(read).await
    }

    async fn due(&self, limit: usize) -> Result<Vec<Schedule>, MemoryError> {
        let limit = integer(limit as u64);
        let rows = self.run(async move |store: Arc<Store>| store.query(DUE, &[&limit]).await);
        // A newer version may have written a schedule that this version cannot read.
        let read = rows.await?.into_iter().filter_map(|row| match decode(vec![row]) {
            Ok(mut schedules) => schedules.pop(),
            Err(error) => {
                let error = self.store().error(error);
                tracing::warn!(%error, "a schedule is left out");
                None
            }
        });
        Ok(read.collect())
    }

    async fn next_after(&self, time: u64) -> Result<Option<u64>, MemoryError> {
        let time = integer(time);
        let rows = self.run(async move |store: Arc<Store>| store.query(NEXT, &[&time]).await);
        let next = rows.await?.first().and_then(|row| row.get::<_, Option<i64>>(0));
        Ok(next.map(|next| next as u64))
    }

    async fn page(&self, query: &ScheduleQuery) -> Result<SchedulePage, MemoryError> {
        let query = query.clone();
        self.run(async move |store: Arc<Store>| store.schedule_page(query.clone()).await).await
    }

    async fn now(&self) -> Result<u64, MemoryError> {
        let rows = self.run(async |store: Arc<Store>| store.query(NOW, &[]).await).await?;
        Ok(rows.first().map_or(0, |row| row.get::<_, i64>(0) as u64))
    }

    async fn advance(
        &self,
        schedule: &Schedule,
        next: Option<&Schedule>,
    ) -> Result<bool, MemoryError> {
        let (schedule, next) = (schedule.clone(), next.cloned());
        let advance = async move |store: Arc<Store>| store.advance_schedule(schedule, next).await;
        self.run(advance).await
    }
}

fn decode(rows: Vec<Row>) -> Result<Vec<Schedule>, StoreError> {
    let decode = |row: &Row| {
        codec::decode(row.get::<_, &str>(0).as_bytes())
            .map_err(|why| not_understood("a schedule", &why))
    };
    rows.iter().map(decode).collect()
}
