//! The one that writes: a thread, fed by a channel. What arrives while it commits is written in its
//! next transaction.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use loopwright_core::log::{LogEntry, MemoryError, SessionInfo};
use rusqlite::{Connection, ErrorCode, Statement, Transaction, TransactionBehavior};
use tokio::sync::oneshot;

use super::db::PATIENCE;
use super::owners::Owners;
use super::rows::{self, Session};
use super::trouble::Trouble;

/// The most that are written in one transaction.
const GROUP: usize = 256;

/// How long after a release that failed it is tried again, where nothing else is written before.
const AGAIN: Duration = Duration::from_secs(1);

/// Something to write.
pub(super) struct Job {
    pub(super) session: Arc<str>,
    pub(super) write: Write,
    /// Whether it must be on disk before it is done.
    pub(super) durable: bool,
    /// Told once it is done, or why it is not.
    pub(super) done: oneshot::Sender<Result<(), MemoryError>>,
}

/// What to write.
pub(super) enum Write {
    /// The session is this owner's.
    Open { owner: Arc<str> },
    /// It is this owner's no more. Nobody waits for it, so it is done later where it fails.
    Release { owner: Arc<str> },
    /// More items, `json` with them as they are written.
    Append { owner: Arc<str>, at: u64, items: Arc<[LogEntry]>, json: Vec<String> },
    /// A session with this known of it and these items of its own, if the one that it is forked
    /// from is still number `of`.
    Fork { of: i64, info: Box<SessionInfo>, json: Vec<String> },
    /// Away with it.
    Delete,
}

/// Writes until nobody is left who could ask for more.
pub(super) fn run(
    connection: Connection,
    owners: Owners,
    file: PathBuf,
    jobs: Receiver<Job>,
) -> rusqlite::Result<()> {
    let mut writer = Writer::new(&connection, owners, file)?;
    loop {
        let next = match writer.later.is_empty() {
            true => jobs.recv().map_err(RecvTimeoutError::from),
            false => jobs.recv_timeout(AGAIN),
        };
        let mut group = std::mem::take(&mut writer.later);
        match next {
            Err(RecvTimeoutError::Disconnected) => return Ok(()), // whoever is dead owns nothing
            next => group.extend(next),
        }
        group.extend(jobs.try_iter().take(GROUP));
        writer.write(group);
    }
}

struct Writer<'c> {
    connection: &'c Connection,
    find: Statement<'c>,
    put: Statement<'c>,
    add: Statement<'c>,
    owners: Owners,
    file: PathBuf,
    /// The owners in this store that live.
    held: HashSet<Arc<str>>,
    /// What is tried again with the next, or after [`AGAIN`].
    later: Vec<Job>,
    /// Whether transactions are on disk when they are committed.
    full: bool,
}

impl<'c> Writer<'c> {
    fn new(connection: &'c Connection, owners: Owners, file: PathBuf) -> rusqlite::Result<Self> {
        connection.pragma_update(None, "secure_delete", true)?; // what is deleted is overwritten
        Ok(Writer {
            connection,
            find: connection.prepare(rows::FIND)?,
            put: connection.prepare(rows::PUT)?,
            add: connection.prepare(rows::ADD)?,
            owners,
            file,
            held: HashSet::new(),
            later: Vec::new(),
            full: false,
        })
    }

    fn write(&mut self, jobs: Vec<Job>) {
        match self.commit(&jobs) {
            Ok(outcomes) => {
                for (job, outcome) in jobs.into_iter().zip(outcomes) {
                    let _ = job.done.send(outcome); // whoever does not wait for it has it in the log
                }
            }
            // What only one of them cannot have must not fail the others.
            Err(error)
                if jobs.len() > 1 && error.sqlite_error_code() != Some(ErrorCode::DatabaseBusy) =>
            {
                jobs.into_iter().for_each(|job| self.write(vec![job]));
            }
            Err(error) => {
                let error = Trouble::Sqlite(error).told(&self.file);
                for job in jobs {
                    if matches!(job.write, Write::Release { .. }) {
                        tracing::warn!(session = &*job.session, %error, "a session could not be released yet");
                        self.later.push(job);
                    } else {
                        let _ = job.done.send(Err(error.clone()));
                    }
                }
            }
        }
    }

    /// All of them in one transaction, but for those that are refused.
    fn commit(&mut self, jobs: &[Job]) -> rusqlite::Result<Vec<Result<(), MemoryError>>> {
        let full = jobs.iter().any(|job| job.durable);
        if full != self.full {
            self.connection.pragma_update(
                None,
                "synchronous",
                if full { "FULL" } else { "NORMAL" },
            )?;
            self.full = full;
        }
        let transaction =
            Transaction::new_unchecked(self.connection, TransactionBehavior::Immediate)?;
        let mut outcomes = Vec::with_capacity(jobs.len());
        for job in jobs {
            outcomes.push(match self.perform(job) {
                Ok(()) => Ok(()),
                Err(Trouble::Refused(why)) => Err(why),
                Err(Trouble::Sqlite(error)) => return Err(error),
            });
        }
        transaction.commit()?;
        if jobs
            .iter()
            .zip(&outcomes)
            .any(|(job, outcome)| outcome.is_ok() && matches!(job.write, Write::Delete))
        {
            self.empty_log();
        }
        Ok(outcomes)
    }

    /// What was deleted is zeros in the file; this takes it out of SQLite's log. Where somebody
    /// reads an older state, or writes, nobody waits: then it goes when the log begins anew, or
    /// with the last who closes the file.
    fn empty_log(&self) {
        let empty = || -> rusqlite::Result<()> {
            self.connection.busy_timeout(Duration::ZERO)?;
            self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(()))
        };
        for failed in
            [empty(), self.connection.busy_timeout(PATIENCE)].into_iter().filter_map(Result::err)
        {
            tracing::warn!(error = %failed, "what was deleted may still be in the log of {}", self.file.display());
        }
    }

    /// Is refused before its first change.
    fn perform(&mut self, job: &Job) -> Result<(), Trouble> {
        let found = rows::find(&mut self.find, &job.session, &self.file)?;
        match &job.write {
            Write::Open { owner } => self.open(found, &job.session, owner),
            Write::Release { owner } => self.release(found, owner),
            Write::Append { owner, at, items, json } => {
                self.append(found, owner, *at, (items, json))
            }
            Write::Fork { of, info, json } => self.fork(found, &job.session, *of, (info, json)),
            Write::Delete => self.delete(&job.session),
        }
    }

    fn open(
        &mut self,
        found: Option<Session>,
        name: &str,
        owner: &Arc<str>,
    ) -> Result<(), Trouble> {
        match found {
            Some(mut session) => {
                self.is_free(&session)?;
                session.owner = owner.to_string();
                session.put(&mut self.put)?;
            }
            None => {
                let (count, number) = rows::count(self.connection, &self.file)?;
                Session { number, owner: owner.to_string(), info: SessionInfo::new(name) }
                    .put(&mut self.put)?;
                rows::tally(self.connection, count + 1, number + 1)?;
            }
        }
        self.held.insert(owner.clone());
        Ok(())
    }

    fn release(&mut self, found: Option<Session>, owner: &str) -> Result<(), Trouble> {
        self.held.remove(owner);
        match found.filter(|session| *session.owner == *owner) {
            Some(session) if session.info.items == 0 => {
                let (count, next) = rows::count(self.connection, &self.file)?;
                self.remove(&session, count, next)
            }
            Some(session) => Session { owner: String::new(), ..session }.put(&mut self.put),
            None => Ok(()),
        }
    }

    fn append(
        &mut self,
        found: Option<Session>,
        owner: &str,
        at: u64,
        (items, json): (&[LogEntry], &[String]),
    ) -> Result<(), Trouble> {
        if found.is_none() {
            rows::count(self.connection, &self.file)?; // it is gone only if none of these is it, damaged
        }
        let end = found.as_ref().map_or(0, |session| session.info.items);
        let Some(mut session) = found.filter(|session| *session.owner == *owner && at == end)
        else {
            return Err(MemoryError::Conflict { at, end }.into());
        };
        if items.is_empty() {
            return Ok(());
        }
        items.iter().for_each(|item| session.info.apply(item));
        session.put(&mut self.put)?;
        self.add(session.number, at, json)
    }

    fn fork(
        &mut self,
        found: Option<Session>,
        name: &str,
        of: i64,
        (info, json): (&SessionInfo, &[String]),
    ) -> Result<(), Trouble> {
        if let Some(session) = &found {
            self.is_free(session)?;
            if session.info.items > 0 {
                return Err(MemoryError::Exists(name.into()).into());
            }
        }
        let (mut sessions, number) = rows::count(self.connection, &self.file)?;
        let mut shared = 0;
        if let Some((parent, items)) = &info.parent {
            if rows::find(&mut self.find, parent, &self.file)?
                .is_none_or(|parent| parent.number != of)
            {
                return Err(MemoryError::NoSession(parent.clone()).into());
            }
            shared = *items;
        }
        if found.is_none() {
            sessions += 1;
        }
        Session { number, owner: String::new(), info: info.clone() }.put(&mut self.put)?;
        self.add(number, shared, json)?;
        rows::tally(self.connection, sessions, number + 1)
    }

    fn delete(&mut self, name: &str) -> Result<(), Trouble> {
        let session = rows::wanted(self.connection, name, &self.file)?;
        if session.info.items == 0 {
            return Err(MemoryError::NoSession(name.into()).into());
        }
        self.is_free(&session)?;
        let (all, next) = rows::all(self.connection, &self.file)?;
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
        self.remove(&session, all.len() as i64, next)
    }

    /// One of `count` sessions.
    fn remove(&mut self, session: &Session, count: i64, next: i64) -> Result<(), Trouble> {
        self.connection.execute("DELETE FROM item WHERE session = ?1", [session.number])?;
        self.connection.execute("DELETE FROM session WHERE name = ?1", [&*session.info.id])?;
        rows::tally(self.connection, count - 1, next)
    }

    fn add(&mut self, session: i64, at: u64, json: &[String]) -> Result<(), Trouble> {
        (at..).zip(json).try_for_each(|(at, json)| rows::add(&mut self.add, session, at, json))
    }

    /// Nobody has it open who lives.
    fn is_free(&self, session: &Session) -> Result<(), Trouble> {
        if session.owner.is_empty() {
            return Ok(());
        }
        let (token, _) = session.owner.split_once('#').unwrap_or_default();
        let own = token == self.owners.token();
        let lives =
            if own { self.held.contains(&*session.owner) } else { self.owners.is_alive(token) };
        if lives { Err(MemoryError::InUse(session.info.id.clone()).into()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
