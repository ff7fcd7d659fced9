//! Schedules.

use std::sync::Arc;

use async_trait::async_trait;
use loopwright_core::log::{MemoryError, Schedule, Schedules};
use tokio_postgres::Row;

use super::error::{StoreError, not_understood};
use super::handle::StoreHandle;
use super::store::{Params, Store};
use super::text::{from_text, to_text};
use crate::codec;
use crate::sql::integer;

const PUT: &str = "\
WITH target AS (SELECT number, root FROM session WHERE name = $1 AND entries > 0), put AS (
    INSERT INTO schedule (session, id, next, json)
    SELECT number, $2, $3, $4 FROM target WHERE root IS NULL
    ON CONFLICT (session, md5(id)) DO UPDATE SET next = excluded.next, json = excluded.json
)
SELECT root FROM target";
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
const NOW: &str = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
const ADVANCE: &str = "\
UPDATE schedule SET next = $4, json = $5 FROM session s
WHERE session = s.number AND s.name = $1 AND md5(id) = md5($2) AND id = $2 AND next = $3
RETURNING 1";
const END: &str = "\
DELETE FROM schedule USING session s
WHERE session = s.number AND s.name = $1 AND md5(id) = md5($2) AND id = $2 AND next = $3
RETURNING 1";

impl Store {
    async fn put_schedule(&self, schedule: Schedule) -> Result<(), StoreError> {
        let (name, id) = (to_text(&schedule.session), to_text(&schedule.id));
        let (next, json) = (integer(schedule.next), codec::encode(&schedule)?);
        let rows = self.query(PUT, &[&name, &id, &next, &json]).await?;
        let session = schedule.session.clone();
        let Some(row) = rows.first() else {
            return Err(MemoryError::NoSession(session).into());
        };
        match row.get::<_, Option<&str>>(0).map(|root| from_text(root).into_owned().into()) {
            Some(root) => Err(MemoryError::SubAgent { session, root }.into()),
            None => Ok(()),
        }
    }

    async fn advance_schedule(
        &self,
        schedule: Schedule,
        next: Option<u64>,
    ) -> Result<bool, StoreError> {
        let (name, id) = (to_text(&schedule.session), to_text(&schedule.id));
        let current = integer(schedule.next);
        let rows = match next {
            None => self.query(END, &[&name, &id, &current]).await?,
            Some(next) => {
                let mut advanced = schedule.clone();
                advanced.next = next;
                let (next, json) = (integer(next), codec::encode(&advanced)?);
                let params: Params<'_> = &[&name, &id, &current, &next, &json];
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

    async fn now(&self) -> Result<u64, MemoryError> {
        let rows = self.run(async |store: Arc<Store>| store.query(NOW, &[]).await).await?;
        Ok(rows.first().map_or(0, |row| row.get::<_, i64>(0) as u64))
    }

    async fn advance(&self, schedule: &Schedule, next: Option<u64>) -> Result<bool, MemoryError> {
        let schedule = schedule.clone();
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
