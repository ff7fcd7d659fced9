//! Statements that store, read and delete facts. The scope is a condition of each.

use std::collections::HashSet;
use std::sync::Arc;

use loopwright_core::message::MessageId;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::error::FileError;
use super::fact::{Fact, NewFact, Scope, ScopeId};
use super::words;

/// The time for which applied changes and recalled facts are known: 30 days, in milliseconds.
const RECORD_TIME_MS: u64 = 30 * 24 * 60 * 60 * 1000;

type Result<T> = std::result::Result<T, FileError>;

/// Returns the id of a scope, or `None` if the scope has never had a fact.
pub(super) fn scope_id(connection: &Connection, scope: &Scope) -> Result<Option<ScopeId>> {
    let (kind, name) = scope.parts();
    let mut statement = connection.prepare("SELECT id FROM scope WHERE kind = ? AND name = ?")?;
    Ok(statement.query_row((kind, name), |row| row.get(0).map(ScopeId)).optional()?)
}

/// Stores a fact, or refreshes the time of the one with the same text.
pub(super) fn remember(
    connection: &Connection,
    scope: &Scope,
    new: &NewFact,
    now: u64,
) -> Result<Fact> {
    let (kind, name) = scope.parts();
    connection
        .prepare("INSERT OR IGNORE INTO scope (kind, name) VALUES (?, ?)")?
        .execute((kind, name))?;
    let mut scope_id = connection.prepare("SELECT id FROM scope WHERE kind = ? AND name = ?")?;
    let in_scope: i64 = scope_id.query_row((kind, name), |row| row.get(0))?;
    let digest = new.digest();
    let refresh = "UPDATE fact SET refreshed = max(refreshed, ?1) WHERE scope = ?2 AND digest = ?3 \
        RETURNING id, text, created, refreshed, session, message";
    let mut refresh = connection.prepare(refresh)?;
    let known = refresh.query_row(params![now as i64, in_scope, digest], |row| read(row, scope));
    if let Some(fact) = known.optional()? {
        return Ok(fact);
    }
    let insert = "INSERT INTO fact (scope, text, digest, created, refreshed, session, message) \
        VALUES (?1, ?2, ?3, ?4, ?4, ?5, ?6) \
        RETURNING id, text, created, refreshed, session, message";
    let message = new.message.map(|message| message.0 as i64);
    let values = params![in_scope, new.text, digest, now as i64, new.session, message];
    let fact = connection.prepare(insert)?.query_row(values, |row| read(row, scope))?;
    words::index(connection, ScopeId(in_scope), &fact)?;
    connection.prepare("UPDATE scope SET facts = facts + 1 WHERE id = ?")?.execute((in_scope,))?;
    Ok(fact)
}

/// Stores facts once for a key. Returns the ids of the facts that the first call with the key has
/// stored, and the ids of the facts that still exist.
pub(super) fn remember_once(
    connection: &Connection,
    key: &str,
    scope: &Scope,
    facts: &[NewFact],
    now: u64,
) -> Result<(Vec<u64>, Vec<Fact>)> {
    if let Some(ids) = applied(connection, key)? {
        let facts = by_ids(connection, std::slice::from_ref(scope), &ids)?;
        return Ok((ids, facts));
    }
    let stored: Vec<Fact> =
        facts.iter().map(|new| remember(connection, scope, new, now)).collect::<Result<_>>()?;
    let ids: Vec<u64> = stored.iter().map(|fact| fact.id).collect();
    set_applied(connection, key, &ids, now)?;
    Ok((ids, stored))
}

/// Deletes a fact once for a key. Returns whether it existed.
pub(super) fn forget_once(
    connection: &Connection,
    key: &str,
    scope: &Scope,
    id: u64,
    now: u64,
) -> Result<bool> {
    if let Some(ids) = applied(connection, key)? {
        return Ok(!ids.is_empty());
    }
    let is_found = forget(connection, scope, id)?;
    let ids = is_found.then_some(id);
    set_applied(connection, key, ids.as_slice(), now)?;
    Ok(is_found)
}

/// Returns the facts that the change with this key has stored or deleted, or `None` if it has not
/// been made.
fn applied(connection: &Connection, key: &str) -> Result<Option<Vec<u64>>> {
    let mut statement = connection.prepare("SELECT facts FROM applied WHERE key = ?")?;
    let ids: Option<String> = statement.query_row((key,), |row| row.get(0)).optional()?;
    Ok(ids.map(|ids| read_ids(&ids)))
}

fn set_applied(connection: &Connection, key: &str, ids: &[u64], now: u64) -> Result<()> {
    prune(connection, now)?;
    let sql = "INSERT INTO applied (key, time, facts) VALUES (?, ?, ?)";
    connection.prepare(sql)?.execute((key, now as i64, write_ids(ids)))?;
    Ok(())
}

/// Deletes a fact. Returns whether it existed.
pub(super) fn forget(connection: &Connection, scope: &Scope, id: u64) -> Result<bool> {
    let Some(in_scope) = scope_id(connection, scope)? else { return Ok(false) };
    let delete = "DELETE FROM fact WHERE scope = ? AND id = ? \
        RETURNING id, text, created, refreshed, session, message";
    let mut delete = connection.prepare(delete)?;
    let deleted = delete.query_row((in_scope.0, id as i64), |row| read(row, scope)).optional()?;
    let Some(fact) = deleted else { return Ok(false) };
    words::remove(connection, in_scope, &fact)?;
    forget_recalled(connection, &HashSet::from([id]))?;
    let vectors = connection.prepare("DELETE FROM vector WHERE fact = ?")?.execute((id as i64,))?;
    connection
        .prepare("UPDATE scope SET facts = facts - 1, removals = removals + ? WHERE id = ?")?
        .execute((vectors as i64, in_scope.0))?;
    Ok(true)
}

/// Deletes all facts of a scope, its name, and records of where they were recalled. Returns the
/// number of facts.
pub(super) fn forget_all(connection: &Connection, scope: &Scope) -> Result<u64> {
    let Some(in_scope) = scope_id(connection, scope)? else { return Ok(0) };
    let mut deleted = HashSet::new();
    for fact in page(connection, std::slice::from_ref(scope), 0, usize::MAX)? {
        words::remove(connection, in_scope, &fact)?;
        deleted.insert(fact.id);
    }
    forget_recalled(connection, &deleted)?;
    for sql in [
        "DELETE FROM fact WHERE scope = ?",
        "DELETE FROM vector WHERE scope = ?",
        "DELETE FROM scope WHERE id = ?",
    ] {
        connection.execute(sql, (in_scope.0,))?;
    }
    Ok(deleted.len() as u64)
}

/// Removes these facts from the records of recalled facts, and records without any other fact.
fn forget_recalled(connection: &Connection, facts: &HashSet<u64>) -> Result<()> {
    let mut select = connection.prepare("SELECT session, scopes, facts FROM recalled")?;
    let mut rows = select.query(())?;
    let mut changed: Vec<(String, Vec<u8>, Vec<u64>)> = Vec::new();
    while let Some(row) = rows.next()? {
        let ids = read_ids(&row.get::<_, String>(2)?);
        let left: Vec<u64> = ids.iter().copied().filter(|id| !facts.contains(id)).collect();
        if left.len() < ids.len() {
            changed.push((row.get(0)?, row.get(1)?, left));
        }
    }
    let mut delete = connection.prepare("DELETE FROM recalled WHERE session = ? AND scopes = ?")?;
    let update = "UPDATE recalled SET facts = ? WHERE session = ? AND scopes = ?";
    let mut update = connection.prepare(update)?;
    for (session, scopes, left) in changed {
        match &left[..] {
            [] => delete.execute((session, scopes))?,
            left => update.execute((write_ids(left), session, scopes))?,
        };
    }
    Ok(())
}

/// Returns at most `limit` facts of the scopes with ids above `after`, in the order of their ids.
pub(super) fn page(
    connection: &Connection,
    scopes: &[Scope],
    after: u64,
    limit: usize,
) -> Result<Vec<Fact>> {
    let sql = "SELECT id, text, created, refreshed, session, message FROM fact \
        WHERE scope = ? AND id > ? ORDER BY id LIMIT ?";
    let limit_of_scope = i64::try_from(limit).unwrap_or(i64::MAX);
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let mut facts = Vec::new();
    for scope in distinct(scopes) {
        let Some(in_scope) = scope_id(connection, scope)? else { continue };
        let mut statement = connection.prepare(sql)?;
        let rows =
            statement.query_map((in_scope.0, after, limit_of_scope), |row| read(row, scope))?;
        for fact in rows {
            facts.push(fact?);
        }
    }
    facts.sort_by_key(|fact| fact.id);
    facts.truncate(limit);
    Ok(facts)
}

/// Returns the facts with these ids that are in one of the scopes, in the order of `ids`.
pub(super) fn by_ids(connection: &Connection, scopes: &[Scope], ids: &[u64]) -> Result<Vec<Fact>> {
    let sql = "SELECT id, text, created, refreshed, session, message FROM fact \
        WHERE scope = ? AND id = ?";
    let mut statement = connection.prepare(sql)?;
    let mut known = Vec::new();
    for scope in distinct(scopes) {
        known.extend(scope_id(connection, scope)?.map(|id| (scope, id)));
    }
    let mut facts = Vec::new();
    for id in ids {
        for (scope, in_scope) in &known {
            let values = (in_scope.0, *id as i64);
            facts.extend(statement.query_row(values, |row| read(row, scope)).optional()?);
        }
    }
    Ok(facts)
}

/// Iterates over the scopes, each once.
pub(super) fn distinct(scopes: &[Scope]) -> impl Iterator<Item = &Scope> {
    scopes.iter().enumerate().filter(|(at, scope)| !scopes[..*at].contains(scope)).map(|(_, s)| s)
}

/// The key of a user request for which facts are recalled.
#[derive(Clone)]
pub(super) struct RecallKey {
    pub(super) session: Arc<str>,
    /// A digest of the scopes that facts are recalled from.
    pub(super) scopes: Vec<u8>,
    /// A digest of the request.
    pub(super) request: Vec<u8>,
}

/// Returns the facts recalled for a request, or `None` if it is not the last request of the
/// session.
pub(super) fn recalled(connection: &Connection, key: &RecallKey) -> Result<Option<Vec<u64>>> {
    let sql = "SELECT facts FROM recalled WHERE session = ? AND scopes = ? AND request = ?";
    let mut statement = connection.prepare(sql)?;
    let values = (&*key.session, &key.scopes, &key.request);
    let ids: Option<String> = statement.query_row(values, |row| row.get(0)).optional()?;
    Ok(ids.map(|ids| read_ids(&ids)))
}

/// Records the facts recalled for a request. They replace the facts of the previous request. Facts
/// deleted meanwhile are left out.
pub(super) fn set_recalled(
    connection: &Connection,
    key: &RecallKey,
    ids: &[u64],
    now: u64,
) -> Result<()> {
    prune(connection, now)?;
    let mut exists = connection.prepare("SELECT 1 FROM fact WHERE id = ?")?;
    let mut left = Vec::new();
    for id in ids {
        if exists.exists((*id as i64,))? {
            left.push(*id);
        }
    }
    let sql = "INSERT OR REPLACE INTO recalled (session, scopes, request, time, facts) \
        VALUES (?, ?, ?, ?, ?)";
    let values = (&*key.session, &key.scopes, &key.request, now as i64, write_ids(&left));
    connection.prepare(sql)?.execute(values)?;
    Ok(())
}

/// Deletes records of applied changes and recalled facts that are at least 30 days old.
pub(super) fn prune(connection: &Connection, now: u64) -> rusqlite::Result<()> {
    let time = now.saturating_sub(RECORD_TIME_MS);
    connection.execute("DELETE FROM applied WHERE time < ?", (time as i64,))?;
    connection.execute("DELETE FROM recalled WHERE time < ?", (time as i64,))?;
    Ok(())
}

fn read(row: &Row<'_>, scope: &Scope) -> rusqlite::Result<Fact> {
    Ok(Fact {
        id: row.get::<_, i64>(0)? as u64,
        scope: scope.clone(),
        text: row.get(1)?,
        created: row.get::<_, i64>(2)? as u64,
        refreshed: row.get::<_, i64>(3)? as u64,
        session: row.get(4)?,
        message: row.get::<_, Option<i64>>(5)?.map(|number| MessageId(number as u64)),
    })
}

fn write_ids(ids: &[u64]) -> String {
    ids.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
}

fn read_ids(text: &str) -> Vec<u64> {
    text.split_whitespace().filter_map(|id| id.parse().ok()).collect()
}
