//! Snapshots of sessions.

use loopwright_core::log::Snapshot;

use super::error::StoreError;
use super::store::Store;
use crate::sql::integer;

const LATEST: &str = "SELECT entries, data FROM snapshot WHERE session = $1";
/// Insertion of a snapshot, unless the session was deleted or has a newer one.
const STORE: &str = "\
INSERT INTO snapshot (session, entries, data)
SELECT number, $2, $3 FROM session WHERE number = $1 AND entries >= $2 FOR KEY SHARE
ON CONFLICT (session) DO UPDATE SET entries = excluded.entries, data = excluded.data
    WHERE snapshot.entries < excluded.entries";

impl Store {
    /// Returns the snapshot of a session.
    pub(super) async fn snapshot(&self, number: i64) -> Result<Option<Snapshot>, StoreError> {
        let rows = self.query(LATEST, &[&number]).await?;
        Ok(rows.first().map(|row| Snapshot::new(row.get::<_, i64>(0) as u64, row.get(1))))
    }

    /// Stores a snapshot, unless the stored one has at least as many entries.
    pub(super) async fn store_snapshot(
        &self,
        number: i64,
        snapshot: Snapshot,
    ) -> Result<(), StoreError> {
        let entries = integer(snapshot.entries);
        self.query(STORE, &[&number, &entries, &snapshot.data]).await?;
        Ok(())
    }
}
