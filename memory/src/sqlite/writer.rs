//! The writer of a store: a thread that receives jobs through a channel. Jobs that arrive during a
//! commit are written in the next transaction.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use loopwright_core::log::{LogEntry, MemoryError, SessionInfo};
use rusqlite::{Connection, ErrorCode, Statement, Transaction, TransactionBehavior};
use tokio::sync::oneshot;

use super::error::{BUSY_TIMEOUT, StoreError};
use super::owners::Owners;
use super::rows::{self, Session};

/// Limits the number of jobs in one transaction.
const MAX_GROUP_JOBS: usize = 256;

/// How long after a failed release it is retried, unless another job is written before.
const RELEASE_RETRY_DELAY: Duration = Duration::from_secs(1);

/// A write and the channel for its result.
pub(super) struct Job {
    pub(super) session: Arc<str>,
    pub(super) write: Write,
    /// True if the write must be on disk before its result is sent.
    pub(super) durable: bool,
    /// Receives the result.
    pub(super) done: oneshot::Sender<Result<(), MemoryError>>,
}

/// A change of a session.
pub(super) enum Write {
    /// Makes `owner` the owner of the session, creating the session if it is missing.
    Open { owner: Arc<str> },
    /// Frees the session. Nobody waits for the result, so a failed release is retried.
    Release { owner: Arc<str> },
    /// Appends entries after the first `at`. `json` has the encoded entries.
    Append { owner: Arc<str>, at: u64, entries: Arc<[LogEntry]>, json: Vec<String> },
    /// Creates a branch with this information and these own entries. Fails unless the
    /// parent still has the number `parent`.
    Fork { parent: i64, info: Box<SessionInfo>, json: Vec<String> },
    /// Deletes the session.
    Delete,
    /// Changes nothing. Fails if the session has an owner that is alive. It is a job, so that
    /// releases that were sent before it come first.
    CheckFree,
}

/// Writes jobs until the channel is closed.
pub(super) fn run(
    connection: Connection,
    owners: Owners,
    file: PathBuf,
    jobs: Receiver<Job>,
) -> rusqlite::Result<()> {
    let mut writer = Writer::new(&connection, owners, file)?;
    loop {
        let next = match writer.retries.is_empty() {
            true => jobs.recv().map_err(RecvTimeoutError::from),
            false => jobs.recv_timeout(RELEASE_RETRY_DELAY),
        };
        let mut group = std::mem::take(&mut writer.retries);
        match next {
            // The sessions are free without a release, since their owner is gone.
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
            next => group.extend(next),
        }
        group.extend(jobs.try_iter().take(MAX_GROUP_JOBS));
        writer.write(group);
    }
}

struct Writer<'c> {
    connection: &'c Connection,
    find_session: Statement<'c>,
    put_session: Statement<'c>,
    add_entry: Statement<'c>,
    owners: Owners,
    file: PathBuf,
    /// The sessions' owners in this store that are alive.
    live_owners: HashSet<Arc<str>>,
    /// The releases that failed. They are retried with the next job, or after
    /// [`RELEASE_RETRY_DELAY`].
    retries: Vec<Job>,
    /// True if the connection flushes each commit to disk.
    flushes: bool,
}

impl<'c> Writer<'c> {
    fn new(connection: &'c Connection, owners: Owners, file: PathBuf) -> rusqlite::Result<Self> {
        connection.pragma_update(None, "secure_delete", true)?; // overwrites deleted data
        Ok(Writer {
            connection,
            find_session: connection.prepare(rows::FIND_SESSION)?,
            put_session: connection.prepare(rows::PUT_SESSION)?,
            add_entry: connection.prepare(rows::ADD_ENTRY)?,
            owners,
            file,
            live_owners: HashSet::new(),
            retries: Vec::new(),
            flushes: false,
        })
    }

    fn write(&mut self, jobs: Vec<Job>) {
        match self.commit(&jobs) {
            Ok(results) => {
                for (job, result) in jobs.into_iter().zip(results) {
                    let _ = job.done.send(result); // the caller may have been dropped
                }
            }
            // One failing job must not fail the others.
            Err(error)
                if jobs.len() > 1 && error.sqlite_error_code() != Some(ErrorCode::DatabaseBusy) =>
            {
                jobs.into_iter().for_each(|job| self.write(vec![job]));
            }
            Err(error) => {
                let error = StoreError::Sqlite(error).into_memory_error(&self.file);
                for job in jobs {
                    if matches!(job.write, Write::Release { .. }) {
                        let session = &*job.session;
                        tracing::warn!(session, %error, "a session could not be released yet");
                        self.retries.push(job);
                    } else {
                        let _ = job.done.send(Err(error.clone()));
                    }
                }
            }
        }
    }

    /// Writes all jobs in one transaction, except those that are refused.
    fn commit(&mut self, jobs: &[Job]) -> rusqlite::Result<Vec<Result<(), MemoryError>>> {
        self.set_flushes(jobs.iter().any(|job| job.durable))?;
        let transaction =
            Transaction::new_unchecked(self.connection, TransactionBehavior::Immediate)?;
        let mut results = Vec::with_capacity(jobs.len());
        let mut has_deleted = false;
        for job in jobs {
            results.push(match self.perform(job) {
                Ok(()) => {
                    has_deleted |= matches!(job.write, Write::Delete);
                    Ok(())
                }
                Err(StoreError::Refused(why)) => Err(why),
                Err(StoreError::Sqlite(error)) => return Err(error),
            });
        }
        transaction.commit()?;
        if has_deleted {
            self.truncate_wal();
        }
        Ok(results)
    }

    fn set_flushes(&mut self, flushes: bool) -> rusqlite::Result<()> {
        if flushes != self.flushes {
            let level = if flushes { "FULL" } else { "NORMAL" };
            self.connection.pragma_update(None, "synchronous", level)?;
            self.flushes = flushes;
        }
        Ok(())
    }

    /// Removes deleted data from SQLite's write-ahead log; in the file it is overwritten already.
    ///
    /// Does not wait for readers and writers. In their presence the log is emptied later, when it
    /// restarts or the last process closes the file.
    fn truncate_wal(&self) {
        let truncate = || -> rusqlite::Result<()> {
            self.connection.busy_timeout(Duration::ZERO)?;
            self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(()))
        };
        let truncated = truncate();
        let restored = self.connection.busy_timeout(BUSY_TIMEOUT);
        for error in [truncated, restored].into_iter().filter_map(Result::err) {
            let file = self.file.display();
            tracing::warn!(%error, "deleted data may still be in the write-ahead log of {file}");
        }
    }

    /// Performs a job. A job that is refused has changed nothing.
    fn perform(&mut self, job: &Job) -> Result<(), StoreError> {
        let session = rows::find(&mut self.find_session, &job.session, &self.file)?;
        match &job.write {
            Write::Open { owner } => self.open(session, &job.session, owner),
            Write::Release { owner } => self.release(session, owner),
            Write::Append { owner, at, entries, json } => {
                self.append(session, owner, *at, (entries, json))
            }
            Write::Fork { parent, info, json } => {
                self.fork(session, &job.session, *parent, (info, json))
            }
            Write::Delete => self.delete(&job.session),
            Write::CheckFree => session.map_or(Ok(()), |session| self.ensure_free(&session)),
        }
    }

    fn open(
        &mut self,
        session: Option<Session>,
        name: &str,
        owner: &Arc<str>,
    ) -> Result<(), StoreError> {
        match session {
            Some(mut session) => {
                self.ensure_free(&session)?;
                session.owner = owner.to_string();
                session.put(&mut self.put_session)?;
            }
            None => {
                let (count, number) = rows::totals(self.connection, &self.file)?;
                Session { number, owner: owner.to_string(), info: SessionInfo::new(name) }
                    .put(&mut self.put_session)?;
                rows::set_totals(self.connection, count + 1, number + 1)?;
            }
        }
        self.live_owners.insert(owner.clone());
        Ok(())
    }

    fn release(&mut self, session: Option<Session>, owner: &str) -> Result<(), StoreError> {
        self.live_owners.remove(owner);
        match session.filter(|session| *session.owner == *owner) {
            Some(session) if session.info.entries == 0 => {
                let (count, next_number) = rows::totals(self.connection, &self.file)?;
                self.remove(&session, count, next_number)
            }
            Some(session) => Session { owner: String::new(), ..session }.put(&mut self.put_session),
            None => Ok(()),
        }
    }

    fn append(
        &mut self,
        session: Option<Session>,
        owner: &str,
        at: u64,
        (entries, json): (&[LogEntry], &[String]),
    ) -> Result<(), StoreError> {
        if session.is_none() {
            // Fails if one of the rows is damaged, since it could be this session.
            rows::totals(self.connection, &self.file)?;
        }
        let end = session.as_ref().map_or(0, |session| session.info.entries);
        let Some(mut session) = session.filter(|session| *session.owner == *owner && at == end)
        else {
            return Err(MemoryError::Conflict { at, end }.into());
        };
        if entries.is_empty() {
            return Ok(());
        }
        entries.iter().for_each(|entry| session.info.apply(entry));
        session.put(&mut self.put_session)?;
        self.add_entries(session.number, at, json)
    }

    fn fork(
        &mut self,
        session: Option<Session>,
        name: &str,
        parent_number: i64,
        (info, json): (&SessionInfo, &[String]),
    ) -> Result<(), StoreError> {
        if let Some(session) = &session {
            self.ensure_free(session)?;
            if session.info.entries > 0 {
                return Err(MemoryError::Exists(name.into()).into());
            }
        }
        let (mut count, number) = rows::totals(self.connection, &self.file)?;
        let mut shared = 0;
        if let Some((parent, shared_entries)) = &info.parent {
            let row = rows::find(&mut self.find_session, parent, &self.file)?;
            if row.is_none_or(|row| row.number != parent_number) {
                return Err(MemoryError::NoSession(parent.clone()).into());
            }
            shared = *shared_entries;
        }
        if session.is_none() {
            count += 1;
        }
        Session { number, owner: String::new(), info: info.clone() }.put(&mut self.put_session)?;
        self.add_entries(number, shared, json)?;
        rows::set_totals(self.connection, count, number + 1)
    }

    fn delete(&mut self, name: &str) -> Result<(), StoreError> {
        let session = rows::get(self.connection, name, &self.file)?;
        if session.info.entries == 0 {
            return Err(MemoryError::NoSession(name.into()).into());
        }
        self.ensure_free(&session)?;
        let (all, next_number) = rows::all(self.connection, &self.file)?;
        let is_branch =
            |info: &SessionInfo| info.parent.as_ref().is_some_and(|(parent, _)| **parent == *name);
        let branches: Vec<String> = all
            .iter()
            .filter(|other| is_branch(&other.info))
            .map(|other| other.info.id.to_string())
            .collect();
        if !branches.is_empty() {
            return Err(MemoryError::HasBranches { session: name.into(), branches }.into());
        }
        self.remove(&session, all.len() as i64, next_number)
    }

    /// Removes one of `count` sessions.
    fn remove(
        &mut self,
        session: &Session,
        count: i64,
        next_number: i64,
    ) -> Result<(), StoreError> {
        self.connection.execute("DELETE FROM entry WHERE session = ?1", [session.number])?;
        self.connection.execute("DELETE FROM session WHERE name = ?1", [&*session.info.id])?;
        rows::set_totals(self.connection, count - 1, next_number)
    }

    fn add_entries(&mut self, session: i64, at: u64, json: &[String]) -> Result<(), StoreError> {
        (at..).zip(json).try_for_each(|(position, json)| {
            rows::add_entry(&mut self.add_entry, session, position, json)
        })
    }

    /// Returns [`MemoryError::InUse`] if the session has an owner that is alive.
    fn ensure_free(&self, session: &Session) -> Result<(), StoreError> {
        if session.owner.is_empty() {
            return Ok(());
        }
        let (token, _) = session.owner.split_once('#').unwrap_or_default();
        let is_alive = if token == self.owners.token() {
            self.live_owners.contains(&*session.owner)
        } else {
            self.owners.is_alive(token)
        };
        if is_alive { Err(MemoryError::InUse(session.info.id.clone()).into()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
