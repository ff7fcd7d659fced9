//! Forks, which share entries with their parents, and deletion.

use std::sync::Arc;

use loopwright_core::log::{LogEntry, MemoryError, SessionInfo};
use tokio_postgres::{Client, Transaction};

use super::error::StoreError;
use super::owners::Owner;
use super::rows::{self, Described};
use super::store::{Params, Store};
use super::text::{from_text, to_text};
use crate::codec;
use crate::sql::integer;

/// A fork: its description, the number of entries that it shares with its parent, and its own
/// entries.
pub(super) struct Fork {
    pub(super) parent: Arc<str>,
    pub(super) info: SessionInfo,
    pub(super) shared: u64,
    pub(super) entries: Vec<LogEntry>,
}

const ADD: &str = "INSERT INTO session \
    (name, entries, info, listed, changed, principal, root, parent, due) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING number";
/// The shared entries of a fork, and its own entries.
const ADD_SPANS: &str = "INSERT INTO span (session, source, first, until) \
    SELECT $1::bigint, source, first, least(until, $3::bigint) FROM span \
    WHERE session = $2::bigint AND first < $3::bigint \
    UNION ALL SELECT $1::bigint, $1::bigint, $3::bigint, 9223372036854775807";
const ADD_ENTRIES: &str = "INSERT INTO entry (session, position, json, input, words) \
    SELECT $1::bigint, $2::bigint + e.n - 1, e.json, e.input, e.words \
    FROM unnest($3::text[], $4::text[], $5::text[]) WITH ORDINALITY AS e (json, input, words, n)";

impl Store {
    /// Creates a fork.
    pub(super) async fn fork(&self, fork: Fork) -> Result<(), StoreError> {
        let mut client = self.client().await?;
        let tx = client.transaction().await?;
        let name = &fork.info.id;
        // The lock keeps the parent from being deleted meanwhile.
        let find = "SELECT number FROM session WHERE name = $1 AND entries >= $2 FOR KEY SHARE";
        let shared = integer(fork.shared);
        let parent = tx.query_opt(find, &[&to_text(&fork.parent), &shared]).await?;
        let Some(parent) = parent.map(|row| row.get::<_, i64>(0)) else {
            return Err(MemoryError::NoSession(fork.parent).into());
        };
        let taken = "SELECT number, worker, epoch, entries FROM session WHERE name = $1 FOR UPDATE";
        if let Some(row) = tx.query_opt(taken, &[&to_text(name)]).await? {
            let owner = Owner { number: row.get(0), worker: row.get(1), epoch: row.get(2) };
            self.ensure_free(tx.client(), owner, name).await?;
            if row.get::<_, i64>(3) > 0 {
                return Err(MemoryError::Exists(name.clone()).into());
            }
            remove(&tx, owner.number).await?;
        }
        let described = Described::of(&fork.info)?;
        let Described { info, changed, principal, listed, root, due } = &described;
        let (stored, entries) = (to_text(name), integer(fork.info.entries));
        let parent_column = (fork.shared > 0).then_some(parent);
        let new: Params<'_> =
            &[&stored, &entries, info, listed, changed, principal, root, &parent_column, due];
        let new = tx.query_one(ADD, new).await.map_err(|error| exists(error, name))?;
        let new: i64 = new.get(0);
        tx.execute(ADD_SPANS, &[&new, &parent, &shared]).await?;
        let own = fork.entries.iter();
        let json = own.clone().map(codec::encode).collect::<Result<Vec<_>, _>>()?;
        let inputs: Vec<_> = own.clone().map(rows::input).collect();
        let words: Vec<_> = own.map(rows::words).collect();
        tx.execute(ADD_ENTRIES, &[&new, &shared, &json, &inputs, &words]).await?;
        tx.commit().await?;
        Ok(())
    }

    /// Deletes a session and the sessions of its sub-agents.
    pub(super) async fn delete(&self, name: Arc<str>) -> Result<(), StoreError> {
        let mut client = self.client().await?;
        let tx = client.transaction().await?;
        let stored = to_text(&name);
        let find = "SELECT number, worker, epoch, entries, root FROM session WHERE name = $1 \
            FOR UPDATE";
        let row = tx.query_opt(find, &[&stored]).await?;
        let Some(row) = row.filter(|row| row.get::<_, i64>(3) > 0) else {
            return Err(MemoryError::NoSession(name).into());
        };
        let owner = Owner { number: row.get(0), worker: row.get(1), epoch: row.get(2) };
        self.ensure_free(tx.client(), owner, &name).await?;
        let branches = branches(tx.client(), owner.number).await?;
        if !branches.is_empty() {
            return Err(MemoryError::HasBranches { session: name, branches }.into());
        }
        if let Some(root) = row.get::<_, Option<&str>>(4) {
            let exists = "SELECT 1 FROM session WHERE name = $1 AND entries > 0";
            if tx.query_opt(exists, &[&root]).await?.is_some() {
                let root = from_text(root).into();
                return Err(MemoryError::SubAgent { session: name, root }.into());
            }
        }
        let find = "SELECT number, worker, epoch, name FROM session WHERE root = $1 \
            ORDER BY number FOR UPDATE";
        let sub_agents = tx.query(find, &[&stored]).await?;
        for row in &sub_agents {
            let owner = Owner { number: row.get(0), worker: row.get(1), epoch: row.get(2) };
            self.ensure_free(tx.client(), owner, &from_text(row.get(3))).await?;
        }
        for row in sub_agents {
            remove(&tx, row.get(0)).await?;
        }
        remove(&tx, owner.number).await?;
        tx.commit().await?;
        Ok(())
    }
}

/// Returns the names of the branches of a session.
async fn branches(client: &Client, number: i64) -> Result<Vec<String>, StoreError> {
    let sql = "SELECT name FROM session WHERE parent = $1 ORDER BY name";
    let rows = client.query(sql, &[&number]).await?;
    Ok(rows.iter().map(|row| from_text(row.get(0)).into_owned()).collect())
}

/// Removes a session with its entries, its mailbox and its pending actions. Decisions remain, for
/// audits.
async fn remove(tx: &Transaction<'_>, session: i64) -> Result<(), StoreError> {
    tx.execute("DELETE FROM entry WHERE session = $1", &[&session]).await?;
    tx.execute("DELETE FROM span WHERE session = $1", &[&session]).await?;
    tx.execute("DELETE FROM session WHERE number = $1", &[&session]).await?;
    Ok(())
}

/// Returns the error of an insertion. Another process may have created the session meanwhile.
fn exists(error: tokio_postgres::Error, name: &Arc<str>) -> StoreError {
    match error.code() {
        Some(code) if *code == tokio_postgres::error::SqlState::UNIQUE_VIOLATION => {
            MemoryError::Exists(name.clone()).into()
        }
        _ => error.into(),
    }
}
