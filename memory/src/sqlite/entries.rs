//! Reading of a session's entries, including entries shared with its parents.

use std::path::Path;
use std::sync::Arc;

use loopwright_core::log::LogEntry;
use rusqlite::{Connection, Row};

use super::error::{StoreError, damaged, not_understood};
use super::rows::{FIND_SESSION, Session, crc, find};
use crate::codec;

const ENTRIES: &str = "SELECT position, json, crc FROM entry \
    WHERE session = ?1 AND position >= ?2 AND position < ?3 ORDER BY position";

/// A range of a log's entries that are rows of one session.
struct Segment {
    number: i64,
    name: Arc<str>,
    first: u64,
    end: u64,
    /// `true` for the session itself. No row may follow its last entry.
    is_last: bool,
}

/// Returns the entries of a session from position `from` on.
pub(super) fn read(
    connection: &Connection,
    session: Session,
    from: u64,
    file: &Path,
) -> Result<Vec<LogEntry>, StoreError> {
    let mut entries = Vec::new();
    let mut statement = connection.prepare(ENTRIES)?;
    for segment in segments(connection, session, from, file)?.into_iter().rev() {
        let what = |position| format!("entry {position} of session `{}`", segment.name);
        let mut position = segment.first;
        let bound = if segment.is_last { i64::MAX } else { segment.end as i64 };
        let mut rows = statement.query((segment.number, segment.first as i64, bound))?;
        while let Some(row) = rows.next()? {
            let json = checked_json(row, segment.number, position)
                .filter(|_| position < segment.end)
                .ok_or_else(|| damaged(file, &what(position)))?;
            let entry = codec::decode(json.as_bytes())
                .map_err(|why| not_understood(file, &what(position), &why))?;
            entries.push(entry);
            position += 1;
        }
        if position != segment.end {
            return Err(damaged(file, &what(position)).into());
        }
    }
    Ok(entries)
}

/// Returns the segments of a session's log: its own entries first, then its parents' entries.
fn segments(
    connection: &Connection,
    mut session: Session,
    from: u64,
    file: &Path,
) -> Result<Vec<Segment>, StoreError> {
    let mut segments = Vec::new();
    let mut shared_end = None; // `None` for the session itself, whose entries are all needed
    loop {
        let first = session.first_own();
        let end = shared_end.unwrap_or(session.info.entries);
        if from < end && first < end {
            segments.push(Segment {
                number: session.number,
                name: session.info.id.clone(),
                first: first.max(from),
                end,
                is_last: shared_end.is_none(),
            });
        }
        let Some((parent, shared)) = session.info.parent.clone().filter(|_| from < first.min(end))
        else {
            return Ok(segments);
        };
        let is_valid =
            |parent: &Session| parent.number < session.number && parent.info.entries >= shared;
        session = find(&mut connection.prepare(FIND_SESSION)?, &parent, file)?
            .filter(is_valid)
            .ok_or_else(|| {
                let name = &session.info.id;
                damaged(file, &format!("what session `{name}` shares with `{parent}`"))
            })?;
        shared_end = Some(shared.min(end));
    }
}

/// Returns the JSON of the entry at `position`, if its checksum matches.
fn checked_json<'r>(row: &'r Row<'_>, session: i64, position: u64) -> Option<&'r str> {
    let stored_position = row.get::<_, i64>(0).ok()?;
    let json = row.get_ref(1).ok()?.as_str().ok()?;
    let stored = row.get::<_, u32>(2).ok()?;
    let actual = crc([&session.to_le_bytes(), &stored_position.to_le_bytes(), json.as_bytes()]);
    (stored_position == position as i64 && stored == actual).then_some(json)
}
