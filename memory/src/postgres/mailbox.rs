//! Posted inputs and their receipts.

use std::sync::Arc;

use loopwright_core::log::{InputReceipt, MAX_UNREAD_INPUTS, MemoryError, PostedInput};
use loopwright_core::message::InputId;
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;

use super::error::{StoreError, missing, not_understood};
use super::store::{Params, Store};
use super::text::{from_text, to_text};
use crate::codec;

/// Lock under which inputs are posted to a session. It is held until they are visible. Its key
/// belongs to the table of this schema, and to the name of the session.
const LOCK: &str = "SELECT pg_advisory_xact_lock_shared(\
    ('mailbox'::regclass::oid::bigint - 2147483648)::integer, hashtext($1))";
/// Query of the clock that then waits for the holders of the lock, which may have taken earlier
/// times. The lock refers to the time, so that it is taken second.
const NOW: &str = "WITH clock AS MATERIALIZED \
    (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS time) \
    SELECT time FROM clock, LATERAL pg_advisory_xact_lock(\
    ('mailbox'::regclass::oid::bigint - 2147483648)::integer, \
    hashtext($1) + 0 * (time % 2)::integer)";
/// Insertion of an input, unless its id is known.
const POST: &str = "\
WITH target AS (
    SELECT number, entries, root, (SELECT count(*) FROM mailbox m
        WHERE m.session = s.number AND m.receipt IS NULL) AS unread
    FROM session s WHERE name = $1
), known AS (
    SELECT m.receipt FROM mailbox m, target WHERE m.session = target.number
        AND md5(m.input) = md5($2) AND m.input = $2
), logged AS (
    SELECT 1 FROM target JOIN span ON span.session = target.number
    JOIN entry e ON e.session = span.source AND md5(e.input) = md5($2) AND e.input = $2
        AND e.position >= span.first AND e.position < span.until LIMIT 1
), added AS (
    INSERT INTO mailbox (session, input, json, time)
    SELECT number, $2, $3, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint
    FROM target
    WHERE entries > 0 AND root IS NULL AND unread < $4
        AND NOT EXISTS (SELECT 1 FROM known) AND NOT EXISTS (SELECT 1 FROM logged)
    ON CONFLICT DO NOTHING RETURNING 1
)
SELECT target.number, target.entries, target.root, EXISTS (SELECT 1 FROM known),
    (SELECT receipt FROM known), EXISTS (SELECT 1 FROM logged), target.unread,
    EXISTS (SELECT 1 FROM added)
FROM target";
const UNREAD: &str = "SELECT input, json, time FROM mailbox \
    WHERE session = $1 AND receipt IS NULL ORDER BY number";
const RECEIPT: &str = "SELECT input, receipt FROM mailbox \
    WHERE session = $1 AND md5(input) = md5($2) AND input = $2";
/// Update that writes a receipt if the session belongs to the writer. The row lock lasts until the
/// receipt is written, so that no other store can take over the session in between.
const ACKNOWLEDGE: &str = "\
WITH own AS (
    SELECT number FROM session WHERE number = $1 AND worker = $2 AND epoch = $3 FOR SHARE
), written AS (
    UPDATE mailbox m SET receipt = $5, json = CASE WHEN $6 THEN '' ELSE json END FROM own
    WHERE m.session = $1 AND md5(m.input) = md5($4) AND m.input = $4 AND m.receipt IS NULL
), refused AS (
    INSERT INTO mailbox (session, input, json, time, receipt)
    SELECT number, $4, '', 0, $5 FROM own WHERE NOT $6 AND NOT EXISTS
        (SELECT 1 FROM mailbox WHERE session = $1 AND md5(input) = md5($4) AND input = $4)
    ON CONFLICT (session, md5(input)) DO UPDATE SET receipt = excluded.receipt
        WHERE mailbox.receipt IS NULL
)
SELECT count(*) FROM own";

/// The outcome of a post.
pub(super) enum Posted {
    /// The input waits in the mailbox of the session with this number.
    Waits(i64),
    /// The input has a receipt already.
    Has(InputReceipt),
}

impl Store {
    /// Posts an input, and returns its receipt if it has one.
    pub(super) async fn post(
        &self,
        name: Arc<str>,
        id: InputId,
        json: String,
    ) -> Result<Posted, StoreError> {
        let (session, input) = (to_text(&name).into_owned(), to_text(&id).into_owned());
        let limit = MAX_UNREAD_INPUTS as i64;
        let post: [(&str, Params<'_>); 2] =
            [(LOCK, &[&session]), (POST, &[&session, &input, &json, &limit])];
        let row = match self.transact("BEGIN", &post).await {
            // The session was deleted at the same time.
            Err(StoreError::Postgres(error))
                if error.code() == Some(&SqlState::FOREIGN_KEY_VIOLATION) =>
            {
                return Err(MemoryError::NoSession(name).into());
            }
            rows => rows?.pop(),
        };
        let Some(row) = row.filter(|row| row.get::<_, i64>(1) > 0) else {
            return Err(MemoryError::NoSession(name).into());
        };
        if let Some(root) = row.get::<_, Option<&str>>(2) {
            let root = from_text(root).into_owned().into();
            return Err(MemoryError::SubAgent { session: name, root }.into());
        }
        if let Some(receipt) = row.get::<_, Option<&str>>(4) {
            return Ok(Posted::Has(decode_receipt(&id, receipt)?));
        }
        let (is_known, is_logged, is_added) = (row.get(3), row.get(5), row.get(7));
        match (is_known, is_logged, is_added) {
            (true, _, _) | (_, _, true) => Ok(Posted::Waits(row.get(0))),
            (_, true, _) => Ok(Posted::Has(InputReceipt::Accepted)),
            _ => {
                let unread = row.get::<_, i64>(6) as u64;
                if unread < MAX_UNREAD_INPUTS {
                    return Ok(Posted::Waits(row.get(0))); // posted at the same time by another
                }
                Err(MemoryError::MailboxFull { session: name, unread }.into())
            }
        }
    }

    /// Returns the inputs of a session that have no receipt, in the order of posting.
    pub(super) async fn unread(&self, number: i64) -> Result<Vec<PostedInput>, StoreError> {
        self.query(UNREAD, &[&number]).await?.iter().map(decode_input).collect()
    }

    /// Returns the server's time, once all inputs with an earlier time are visible.
    pub(super) async fn now(&self, name: &str) -> Result<u64, StoreError> {
        let rows = self.query(NOW, &[&to_text(name)]).await?;
        let time = rows.first().map(|row| row.get::<_, i64>(0) as u64);
        time.ok_or_else(|| missing("the time"))
    }

    /// Returns the receipt of an input.
    pub(super) async fn receipt(
        &self,
        number: i64,
        id: &InputId,
    ) -> Result<Option<InputReceipt>, StoreError> {
        let rows = self.query(RECEIPT, &[&number, &to_text(id)]).await?;
        let receipt = rows.first().and_then(|row| row.get::<_, Option<String>>(1));
        receipt.map(|json| decode_receipt(id, &json)).transpose()
    }

    /// Writes the receipt of an input of a session that this store owns.
    pub(super) async fn acknowledge(
        &self,
        (number, epoch): (i64, i64),
        id: InputId,
        receipt: String,
        is_accepted: bool,
    ) -> Result<(), StoreError> {
        if !self.has(number, epoch) {
            return Err(MemoryError::Lost.into());
        }
        let input = to_text(&id).into_owned();
        // An accepted input is in the log, so this need not wait for the disk.
        let begin = if is_accepted { "BEGIN; SET LOCAL synchronous_commit = off" } else { "BEGIN" };
        let write: Params<'_> = &[&number, &self.worker, &epoch, &input, &receipt, &is_accepted];
        let rows = self.transact(begin, &[(ACKNOWLEDGE, write)]).await?;
        if rows.first().is_none_or(|row| row.get::<_, i64>(0) == 0) {
            self.lose(number, epoch);
            return Err(MemoryError::Lost.into());
        }
        Ok(())
    }
}

fn decode_receipt(id: &str, json: &str) -> Result<InputReceipt, StoreError> {
    let decoded = codec::decode(json.as_bytes());
    decoded.map_err(|why| not_understood(&format!("the receipt of the input `{id}`"), &why))
}

fn decode_input(row: &Row) -> Result<PostedInput, StoreError> {
    let decoded = codec::decode(row.get::<_, &str>(1).as_bytes());
    let mut input: PostedInput = decoded.map_err(|why| {
        not_understood(&format!("the posted input `{}`", row.get::<_, &str>(0)), &why)
    })?;
    input.time = u64::try_from(row.get::<_, i64>(2)).ok();
    Ok(input)
}
