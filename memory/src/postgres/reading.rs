//! Reading logs, and searching them.

use std::sync::Arc;

use loopwright_core::log::{LogEntry, MemoryError, SearchHit, SessionInfo};
use loopwright_core::message::Message;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::error::{StoreError, missing, not_understood};
use super::store::Store;
use super::text::{from_text, like, to_text};
use crate::codec;
use crate::sql::integer;

/// Query of a session's entries, own and shared, and of their number.
const ENTRIES: &str = "\
SELECT s.entries, s.name, e.position, e.json FROM session s
LEFT JOIN (span p JOIN entry e ON e.session = p.source AND e.position >= p.first
    AND e.position < p.until AND e.position >= $2) ON p.session = s.number
WHERE s.{which} = $1 ORDER BY e.position";
/// The columns of a description, with the number of unread inputs.
pub(super) const INFO: &str = "s.info, s.name, (SELECT count(*) FROM mailbox m \
    WHERE m.session = s.number AND m.receipt IS NULL)";

/// The rows of a log. They are decoded on the caller's runtime.
pub(super) struct LogRows {
    rows: Vec<Row>,
    from: u64,
}

impl LogRows {
    /// Decodes the entries. A missing entry is an error.
    pub(super) fn decode(&self) -> Result<Vec<LogEntry>, StoreError> {
        let Some(first) = self.rows.first() else {
            return Ok(Vec::new());
        };
        let (end, name) = (first.get::<_, i64>(0) as u64, from_text(first.get(1)).into_owned());
        let mut entries = Vec::with_capacity(self.rows.len());
        let mut next = self.from;
        for row in &self.rows {
            let Some(position) = row.get::<_, Option<i64>>(2) else {
                continue; // a session without entries from there on
            };
            if position as u64 != next {
                break;
            }
            let entry = codec::decode(row.get::<_, &str>(3).as_bytes());
            let what = || format!("entry {position} of the session `{name}`");
            entries.push(entry.map_err(|why| not_understood(&what(), &why))?);
            next += 1;
        }
        if next < end {
            return Err(missing(&format!("entry {next} of the session `{name}`")));
        }
        Ok(entries)
    }
}

impl Store {
    /// Reads the log of an open session.
    pub(super) async fn load(&self, session: i64, from: u64) -> Result<LogRows, StoreError> {
        self.entries("number", &session, from).await
    }

    /// Reads the log of a session with at least one entry.
    pub(super) async fn read(&self, name: &str, from: u64) -> Result<LogRows, StoreError> {
        let read = self.entries("name", &to_text(name), from).await?;
        match read.rows.first() {
            Some(row) if row.get::<_, i64>(0) > 0 => Ok(read),
            _ => Err(MemoryError::NoSession(name.into()).into()),
        }
    }

    async fn entries(
        &self,
        which: &str,
        session: &(dyn ToSql + Sync),
        from: u64,
    ) -> Result<LogRows, StoreError> {
        let sql = ENTRIES.replace("{which}", which);
        let rows = self.query(&sql, &[session, &integer(from)]).await?;
        Ok(LogRows { rows, from })
    }

    /// Returns the description of a session with at least one entry.
    pub(super) async fn info(&self, name: &str) -> Result<SessionInfo, StoreError> {
        let sql = format!("SELECT {INFO} FROM session s WHERE s.name = $1 AND s.entries > 0");
        let rows = self.query(&sql, &[&to_text(name)]).await?;
        decode_info(rows.first().ok_or_else(|| MemoryError::NoSession(name.into()))?)
    }

    /// Returns the messages that contain all words, from one session or from all listed ones.
    pub(super) async fn search(
        &self,
        query: &str,
        limit: usize,
        session: Option<i64>,
    ) -> Result<Vec<SearchHit>, StoreError> {
        let words: Vec<String> = query.split_whitespace().map(|word| word.to_lowercase()).collect();
        if words.is_empty() || limit == 0 {
            return Ok(Vec::new());
        }
        let patterns: Vec<String> = words.iter().map(|word| like(word)).collect();
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let conditions: String =
            (0..patterns.len()).map(|n| format!(" AND e.words LIKE ${}", n + 3)).collect();
        let selected = match session {
            Some(_) => "s.number = $1",
            None => "s.listed AND $1::bigint IS NULL",
        };
        let sql = format!(
            "SELECT s.name, e.json FROM entry e JOIN span p ON p.source = e.session \
             AND e.position >= p.first AND e.position < p.until \
             JOIN session s ON s.number = p.session \
             WHERE {selected} {conditions} \
             ORDER BY s.changed DESC, s.name, e.position DESC LIMIT $2"
        );
        let mut params: Vec<&(dyn ToSql + Sync)> = vec![&session, &limit];
        params.extend(patterns.iter().map(|pattern| pattern as &(dyn ToSql + Sync)));
        // It depends on the words whether the index helps.
        let rows = self.query_with(&sql, &params, false).await?;
        let hit = |row: &Row| {
            let name: Arc<str> = from_text(row.get(0)).into();
            let entry = codec::decode::<LogEntry>(row.get::<_, &str>(1).as_bytes());
            let what = || format!("a message of the session `{name}`");
            let entry = entry.map_err(|why| not_understood(&what(), &why))?;
            let message: Option<&Arc<Message>> = entry.message();
            Ok(message.map(|message| SearchHit::new(name.clone(), message.clone())))
        };
        rows.iter().filter_map(|row| hit(row).transpose()).collect()
    }
}

/// Returns the description in a row with the columns [`INFO`].
pub(super) fn decode_info(row: &Row) -> Result<SessionInfo, StoreError> {
    let decoded = codec::decode(row.get::<_, &str>(0).as_bytes());
    let what = || format!("the description of the session `{}`", from_text(row.get(1)));
    let mut info: SessionInfo = decoded.map_err(|why| not_understood(&what(), &why))?;
    info.set_unread(row.get::<_, i64>(2) as u64);
    Ok(info)
}
