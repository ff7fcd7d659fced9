//! Snapshots: the states of long sessions, which are then opened without their whole logs.

use loopwright_core::log::Snapshot;
use rusqlite::{Connection, OptionalExtension};

use super::error::StoreError;
use super::rows::crc;

const LATEST: &str = "SELECT entries, data, crc FROM snapshot WHERE session = ?1";
const STORE: &str = "REPLACE INTO snapshot (session, entries, data, crc) VALUES (?1, ?2, ?3, ?4)";

fn checksum(session: i64, entries: i64, data: &[u8]) -> u32 {
    crc([&session.to_le_bytes(), &entries.to_le_bytes(), data])
}

/// Returns the snapshot of a session, unless it is damaged.
pub(super) fn latest(
    connection: &Connection,
    session: i64,
) -> Result<Option<Snapshot>, StoreError> {
    let row = connection.query_row(LATEST, [session], |row| {
        Ok((row.get::<_, i64>(0), row.get::<_, Vec<u8>>(1), row.get::<_, u32>(2)))
    });
    let Some((Ok(entries), Ok(data), Ok(stored))) = row.optional()? else { return Ok(None) };
    let is_whole = stored == checksum(session, entries, &data);
    Ok(is_whole.then(|| Snapshot::new(entries as u64, data)))
}

/// Stores a snapshot, unless the stored one has at least as many entries and is not damaged.
pub(super) fn store(
    connection: &Connection,
    session: i64,
    snapshot: &Snapshot,
) -> Result<(), StoreError> {
    if latest(connection, session)?.is_some_and(|old| old.entries >= snapshot.entries) {
        return Ok(());
    }
    let (entries, data) = (snapshot.entries as i64, &snapshot.data);
    connection.execute(STORE, (session, entries, data, checksum(session, entries, data)))?;
    Ok(())
}
