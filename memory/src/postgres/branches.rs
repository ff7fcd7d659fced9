//! Forks, which share the entries of their parents, and deletion.

use std::sync::Arc;

use loopwright_core::log::{MemoryError, SessionInfo};
use tokio_postgres::Transaction;

use super::error::StoreError;
use super::owners::Owner;
use super::rows::{due_at, root_of};
use super::store::{Params, Store};
use super::text::{from_text, number, to_text};
use crate::codec;

/// A fork: its description, its own entries, and what is stored beside each.
pub(super) struct Fork {
    pub(super) parent: Arc<str>,
    pub(super) info: SessionInfo,
    pub(super) shared: u64,
    pub(super) json: Vec<String>,
    pub(super) inputs: Vec<Option<String>>,
    pub(super) words: Vec<Option<String>>,
}

const ADD: &str = "INSERT INTO session \
    (name, entries, info, listed, changed, principal, root, parent, due, due_at) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) RETURNING number";
/// The entries that a fork shares, and its own.
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
        let shared = number(fork.shared);
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
        let info = &fork.info;
        let is_listed = info.entries > 0 && info.sub_agent_of.is_none();
        let principal = to_text(info.owner.as_ref().map_or("", |owner| owner.as_str()));
        let parent_column = (fork.shared > 0).then_some(parent);
        let (stored, entries, changed) =
            (to_text(name), number(info.entries), number(info.changed));
        let (json, root) = (codec::encode(info)?, root_of(info));
        let (is_due, due_at) = (info.due.is_some(), due_at(info));
        let new: Params<'_> = &[
            &stored,
            &entries,
            &json,
            &is_listed,
            &changed,
            &principal,
            &root,
            &parent_column,
            &is_due,
            &due_at,
        ];
        let new = tx.query_one(ADD, new).await.map_err(|error| exists(error, name))?;
        let new: i64 = new.get(0);
        tx.execute(ADD_SPANS, &[&new, &parent, &shared]).await?;
        let Fork { json, inputs, words, .. } = &fork;
        tx.execute(ADD_ENTRIES, &[&new, &shared, json, inputs, words]).await?;
        tx.commit().await?;
        Ok(())
    }

    /// Deletes a session and those of its sub-agents.
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
        let branches = Store::branches(tx.client(), owner.number).await?;
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
