//! The writer of all sessions. Appends that arrive at the same time are one statement, and wait for
//! one flush of the server's log.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, PoisonError};

use loopwright_core::log::MemoryError;
use tokio::sync::mpsc::UnboundedReceiver;

use super::append::Append;
use super::error::StoreError;
use super::rows::{Prepared, Rows};
use super::store::{Retries, Store};

/// Maximum number of appends in a statement.
const MAX_BATCH: usize = 256;
/// Maximum size of the JSON in a statement, in bytes, unless a single append is larger.
const MAX_BATCH_BYTES: usize = 4 * 1024 * 1024;

/// Statement that writes the appends of a batch whose session is still owned and has the expected
/// length. Sessions are found by number, not by the index of workers, which has all sessions of the
/// store. Rows are locked in the order of their numbers, so that two statements cannot wait for
/// each other. Returns the sessions that were found.
const APPEND: &str = "\
WITH job AS (
    SELECT * FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[],
        $7::bigint[], $8::text[], $9::boolean[], $10::text[], $11::bigint[])
        AS job (number, epoch, at, count, info, changed, principal, listed, root, due)
), own AS (
    SELECT s.number, s.name, job.count FROM session s JOIN job ON job.number = s.number
    WHERE s.worker IS NOT DISTINCT FROM $1 AND s.epoch = job.epoch AND s.entries = job.at
    ORDER BY s.number FOR NO KEY UPDATE OF s
), described AS (
    UPDATE session s SET entries = job.at + job.count, info = job.info, changed = job.changed,
        principal = job.principal, listed = job.listed, root = job.root, due = job.due
    FROM job JOIN own ON own.number = job.number
    WHERE s.number = job.number AND own.count > 0
), added AS (
    INSERT INTO entry (session, position, json, input, words)
    SELECT e.* FROM unnest($12::bigint[], $13::bigint[], $14::text[], $15::text[], $16::text[])
        AS e (number, position, json, input, words) JOIN own ON own.number = e.number
), resolved AS (
    DELETE FROM pending p USING unnest($17::bigint[], $18::text[]) AS r (number, call), own
    WHERE own.number = r.number AND p.session = r.number AND p.call = r.call
), asked AS (
    INSERT INTO pending (session, since, call, tool, json)
    SELECT a.* FROM unnest($19::bigint[], $20::bigint[], $21::text[], $22::text[], $23::text[])
        AS a (number, since, call, tool, json) JOIN own ON own.number = a.number
), decided AS (
    INSERT INTO decision (session, time, position, principal, json)
    SELECT own.name, d.time, d.position, d.principal, d.json
    FROM unnest($24::bigint[], $25::bigint[], $26::bigint[], $27::text[], $28::text[])
        AS d (number, time, position, principal, json) JOIN own ON own.number = d.number
    ON CONFLICT (time, session, position)
        DO UPDATE SET principal = excluded.principal, json = excluded.json
)
SELECT number FROM own";

const ENDS: &str = "SELECT s.number, s.entries FROM session s \
    JOIN unnest($2::bigint[], $3::bigint[]) AS job (number, epoch) ON job.number = s.number \
    WHERE s.worker IS NOT DISTINCT FROM $1 AND s.epoch = job.epoch";

/// Writes appends until the store is dropped.
pub(super) async fn run(store: Arc<Store>, mut appends: UnboundedReceiver<Append>) {
    let mut waiting = VecDeque::new();
    loop {
        if waiting.is_empty() {
            match appends.recv().await {
                Some(append) => waiting.push_back(append),
                None => return,
            }
        }
        while waiting.len() < MAX_BATCH
            && let Ok(append) = appends.try_recv()
        {
            waiting.push_back(append);
        }
        let batch = take_batch(&mut waiting);
        let results = write(&store, &batch).await;
        for (append, result) in batch.into_iter().zip(results) {
            let _ = append.done.send(result); // unless the caller was dropped
        }
    }
}

/// Takes the next appends, one per session. A session has several if callers were dropped: their
/// appends, and the next one.
fn take_batch(waiting: &mut VecDeque<Append>) -> Vec<Append> {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    let (mut sessions, mut later) = (BTreeSet::new(), VecDeque::new());
    while let Some(append) = waiting.pop_front() {
        let size = append.bytes();
        let is_full = !batch.is_empty() && bytes + size > MAX_BATCH_BYTES;
        if !sessions.insert(append.number) || is_full {
            later.push_back(append);
        } else {
            bytes += size;
            batch.push(append);
        }
    }
    *waiting = later;
    batch
}

/// Writes a batch. If the server refuses it, each append is tried alone.
async fn write(store: &Store, batch: &[Append]) -> Vec<Result<(), MemoryError>> {
    match write_all(store, batch).await {
        Ok(results) => results,
        Err(error) if batch.len() > 1 && !error.is_transient() => {
            let mut results = Vec::with_capacity(batch.len());
            for append in batch {
                let alone = write_all(store, std::slice::from_ref(append)).await;
                results.extend(alone.unwrap_or_else(|error| vec![Err(store.error(error))]));
            }
            results
        }
        Err(error) => vec![Err(store.error(error)); batch.len()],
    }
}

/// Writes a batch in one statement. After an error nothing is written.
async fn write_all(
    store: &Store,
    batch: &[Append],
) -> Result<Vec<Result<(), MemoryError>>, StoreError> {
    let mut results: Vec<Option<Result<(), MemoryError>>> = Vec::with_capacity(batch.len());
    let mut prepared = Vec::with_capacity(batch.len());
    for append in batch {
        results.push(match Prepared::of(append) {
            _ if !store.has(append.number, append.epoch) => Some(Err(MemoryError::Lost)),
            Ok(ready) => {
                prepared.push(ready);
                None
            }
            Err(error) => Some(Err(error)),
        });
    }
    if !prepared.is_empty() {
        let written = repeat(store, &prepared).await?;
        let open = results.iter_mut().filter(|result| result.is_none());
        open.zip(written).for_each(|(result, written)| *result = Some(written));
    }
    Ok(results.into_iter().map(|result| result.unwrap_or(Err(MemoryError::Lost))).collect())
}

/// Sends a statement until its result is known. If the connection breaks, it may or may not have
/// been written: the same statement is sent again, which writes nothing if it was. Sessions whose
/// result remains unknown are lost.
async fn repeat(
    store: &Store,
    prepared: &[Prepared<'_>],
) -> Result<Vec<Result<(), MemoryError>>, StoreError> {
    let mut retries = Retries::default();
    let mut may_be_written = false;
    loop {
        let attempt = async {
            let client = store.connections.writer.get().await?;
            let result = send(store, &client, prepared, &mut may_be_written).await;
            if result.as_ref().is_err_and(StoreError::is_transient) {
                drop(deadpool_postgres::Client::take(client));
            }
            result
        };
        match attempt.await {
            Err(error) if error.is_transient() && retries.pause().await => {}
            Err(_) if may_be_written => {
                let lost = prepared.iter().map(|ready| {
                    store.lose(ready.append.number, ready.append.epoch);
                    Err(MemoryError::Lost)
                });
                return Ok(lost.collect());
            }
            result => return result,
        }
    }
}

/// Sends the statement, and returns the result of each append.
async fn send(
    store: &Store,
    client: &deadpool_postgres::Client,
    prepared: &[Prepared<'_>],
    may_be_written: &mut bool,
) -> Result<Vec<Result<(), MemoryError>>, StoreError> {
    let rows = Rows::of(store.worker, prepared)?;
    let statement = client.prepare_cached(APPEND).await?;
    let params = rows.params();
    let is_repeated = std::mem::replace(may_be_written, true);
    let written = if prepared.iter().any(|ready| ready.append.durable) {
        client.query(&statement, &params).await
    } else {
        // Pipelined, so that this takes no longer.
        let begin = client.batch_execute("BEGIN; SET LOCAL synchronous_commit = off");
        let query = client.query(&statement, &params);
        let (started, written, committed) =
            futures::join!(begin, query, client.batch_execute("COMMIT"));
        started.and(written).and_then(|written| committed.map(|()| written))
    };
    let written = written.map_err(StoreError::from).inspect_err(|error| {
        // An error reported by the server has undone the statement, unless the connection ends with
        // it.
        if error.is_refusal() {
            *may_be_written = is_repeated;
        }
    })?;
    let written: BTreeSet<i64> = written.iter().map(|row| row.get(0)).collect();
    let mut ends = HashMap::new();
    if written.len() < prepared.len() {
        let (numbers, epochs) = (&rows.numbers, &rows.epochs);
        let found = client.query(ENDS, &[&store.worker, numbers, epochs]).await?;
        ends.extend(found.iter().map(|row| (row.get::<_, i64>(0), row.get::<_, i64>(1))));
    }
    let result = |ready: &Prepared<'_>| {
        let append = ready.append;
        let end = ends.get(&append.number).copied();
        let is_written = written.contains(&append.number)
            || is_repeated && end == Some(append.end()) && !append.entries.is_empty();
        if is_written {
            let mut info = append.info.lock().unwrap_or_else(PoisonError::into_inner);
            *info = ready.after.clone();
            return Ok(());
        }
        match end {
            Some(end) => Err(MemoryError::Conflict { at: append.at, end: end as u64 }),
            None => Err(MemoryError::Lost),
        }
    };
    Ok(prepared.iter().map(result).collect())
}
