//! Open stores, and sessions that wait for one of them.

use std::sync::Arc;

use async_trait::async_trait;
use loopwright_core::log::{DueSession, MemoryError, Worker, Workers};

use super::error::StoreError;
use super::handle::StoreHandle;
use super::owners::{find, is_alive};
use super::store::Store;
use super::text::{from_text, to_text};
use crate::sql::integer;

/// Query of sessions that have work and no live owner. `alive` is computed once.
const DUE: &str = "\
WITH alive AS MATERIALIZED (SELECT id FROM worker WHERE {alive}), due AS (
    SELECT number FROM session
    WHERE due <= (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)
    UNION SELECT session FROM mailbox WHERE receipt IS NULL
)
SELECT s.name, s.entries FROM due JOIN session s USING (number)
WHERE s.entries > 0 AND s.root IS NULL AND NOT EXISTS (SELECT 1 FROM alive WHERE id = s.worker)
ORDER BY random() LIMIT $1";
const WORKERS: &str = "\
SELECT id, address, {alive}, takeovers, (SELECT count(*) FROM session WHERE worker = w.id)
FROM worker w ORDER BY id";

impl Store {
    async fn announce(&self, address: String) -> Result<(), StoreError> {
        let stored = to_text(&address).into_owned();
        *self.address() = stored.clone(); // renewals repeat it
        let write = "UPDATE worker SET address = $2 WHERE id = $1";
        self.query(write, &[&self.worker, &stored]).await.map(drop)
    }

    async fn all_workers(&self) -> Result<Vec<Worker>, StoreError> {
        let rows = self.query(&WORKERS.replace("{alive}", &is_alive()), &[]).await?;
        let workers = rows.iter().map(|row| {
            let address = from_text(row.get(1)).into_owned();
            let mut worker = Worker::new(row.get::<_, i32>(0) as u64);
            worker.address = Some(address).filter(|it| !it.is_empty()).map(Into::into);
            worker.is_alive = row.get(2);
            worker.takeovers = row.get::<_, i64>(3) as u64;
            worker.sessions = row.get::<_, i64>(4) as u64;
            worker
        });
        Ok(workers.collect())
    }

    async fn address_of(&self, name: &str) -> Result<Option<Arc<str>>, StoreError> {
        let attempt = || async {
            let client = self.client().await?;
            let owner = find(&client, name).await?;
            let Some(worker) = owner.and_then(|owner| owner.worker) else { return Ok(None) };
            let sql = format!("SELECT address FROM worker WHERE id = $1 AND {}", is_alive());
            let row = client.query_opt(&sql, &[&worker]).await?;
            let address = row.map(|row| from_text(row.get(0)).into_owned());
            Ok(address.filter(|it| !it.is_empty()).map(Into::into))
        };
        self.repeat(attempt).await
    }

    async fn due_sessions(&self, limit: usize) -> Result<Vec<DueSession>, StoreError> {
        let sql = DUE.replace("{alive}", &is_alive());
        let rows = self.query(&sql, &[&integer(limit as u64)]).await?;
        let due = rows.iter().map(|row| {
            DueSession::new(from_text(row.get(0)).into_owned(), row.get::<_, i64>(1) as u64)
        });
        Ok(due.collect())
    }
}

#[async_trait]
impl Workers for StoreHandle {
    async fn announce(&self, address: &str) -> Result<(), MemoryError> {
        let address = address.to_owned();
        self.run(async move |store: Arc<Store>| store.announce(address).await).await
    }

    async fn workers(&self) -> Result<Vec<Worker>, MemoryError> {
        self.run(async |store: Arc<Store>| store.all_workers().await).await
    }

    async fn address(&self, session: &str) -> Result<Option<Arc<str>>, MemoryError> {
        let name = session.to_owned();
        self.run(async move |store: Arc<Store>| store.address_of(&name).await).await
    }

    async fn due(&self, limit: usize) -> Result<Vec<DueSession>, MemoryError> {
        self.run(async move |store: Arc<Store>| store.due_sessions(limit).await).await
    }
}
