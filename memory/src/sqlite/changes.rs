//! Changes of sessions, within a transaction of the writer.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use loopwright_core::log::{
    LogEntry, MAX_UNREAD_INPUTS, MemoryError, PostedInput, Schedule, SessionInfo,
};
use loopwright_core::{Environment, SystemEnvironment};
use rusqlite::{Connection, Statement};
use tokio::sync::Notify;

use super::error::StoreError;
use super::job::{Job, Write};
use super::listing::Listing;
use super::owners::Owners;
use super::rows::{self, Session};
use super::{decisions, mailbox, pending, schedule_rows, snapshots};
use crate::codec;
use crate::sql::listed_actions;

/// The performer of jobs, with its prepared statements.
pub(super) struct Changes<'c> {
    connection: &'c Connection,
    find_session: Statement<'c>,
    put_session: Statement<'c>,
    listing: Listing<'c>,
    add_entry: Statement<'c>,
    pub(super) owners: Owners,
    file: &'c Path,
    /// The live owners of sessions in this store, each with the session's number and the notifier
    /// of posted inputs.
    pub(super) live_owners: HashMap<Arc<str>, (i64, Arc<Notify>)>,
    /// The numbers of the sessions with inputs posted in this transaction.
    pub(super) posted: Vec<i64>,
}

impl<'c> Changes<'c> {
    /// Prepares the statements.
    pub(super) fn new(
        connection: &'c Connection,
        owners: Owners,
        file: &'c Path,
    ) -> rusqlite::Result<Self> {
        Ok(Changes {
            connection,
            find_session: connection.prepare(rows::FIND_SESSION)?,
            put_session: connection.prepare(rows::PUT_SESSION)?,
            listing: Listing::new(connection)?,
            add_entry: connection.prepare(rows::ADD_ENTRY)?,
            owners,
            file,
            live_owners: HashMap::new(),
            posted: Vec::new(),
        })
    }

    /// Performs a job. A refused job changes nothing.
    pub(super) fn perform(&mut self, job: &Job) -> Result<(), StoreError> {
        let session = rows::find(&mut self.find_session, &job.session, self.file)?;
        match &job.write {
            Write::Open { owner, posted } => self.open(session, &job.session, owner, posted),
            Write::Release { owner } => self.release(session, owner),
            Write::Append { owner, at, entries, json } => {
                self.append(session, owner, *at, (entries, json))
            }
            Write::Post { input } => self.post(session, &job.session, input),
            Write::Acknowledge { owner, input, receipt, is_accepted } => {
                self.acknowledge(session, owner, input, receipt, *is_accepted)
            }
            Write::Fork { parent, info, json } => {
                self.fork(session, &job.session, *parent, (info, json))
            }
            Write::Snapshot { owner, snapshot } => {
                match session.filter(|session| *session.owner == **owner) {
                    Some(session) => snapshots::store(self.connection, session.number, snapshot),
                    None => Ok(()),
                }
            }
            Write::PutSchedule { schedule } => self.put_schedule(session, schedule),
            Write::Advance { schedule, next, has_changed } => {
                let next = next.as_deref();
                let has = schedule_rows::advance(self.connection, schedule, next, self.file)?;
                has_changed.store(has, Ordering::Release);
                Ok(())
            }
            Write::RemoveSchedule { id, has_changed } => {
                let has = schedule_rows::remove(self.connection, &job.session, id, self.file)?;
                has_changed.store(has, Ordering::Release);
                Ok(())
            }
            Write::Delete => self.delete(&job.session),
            Write::Nothing => Ok(()),
            Write::CheckFree => session.map_or(Ok(()), |session| self.ensure_free(&session)),
        }
    }

    fn open(
        &mut self,
        session: Option<Session>,
        name: &str,
        owner: &Arc<str>,
        posted: &Arc<Notify>,
    ) -> Result<(), StoreError> {
        let number = match session {
            Some(mut session) => {
                self.ensure_free(&session)?;
                session.owner = owner.to_string();
                self.put(&session)?;
                session.number
            }
            None => {
                let (count, number) = rows::totals(self.connection, self.file)?;
                let info = SessionInfo::new(name);
                self.put(&Session { number, owner: owner.to_string(), info })?;
                rows::set_totals(self.connection, count + 1, number + 1)?;
                number
            }
        };
        self.live_owners.insert(owner.clone(), (number, posted.clone()));
        Ok(())
    }

    fn release(&mut self, session: Option<Session>, owner: &str) -> Result<(), StoreError> {
        self.live_owners.remove(owner);
        match session.filter(|session| *session.owner == *owner) {
            Some(session) if session.info.entries == 0 => {
                let (count, next_number) = rows::totals(self.connection, self.file)?;
                self.remove(&session, count, next_number)
            }
            // The row of the list stays the same.
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
            // Fails if a row is damaged, since it could be this session.
            rows::totals(self.connection, self.file)?;
        }
        let end = session.as_ref().map_or(0, |session| session.info.entries);
        let Some(mut session) = session.filter(|session| *session.owner == *owner && at == end)
        else {
            return Err(MemoryError::Conflict { at, end }.into());
        };
        if entries.is_empty() {
            return Ok(());
        }
        let before = listed_actions(&session.info).to_vec();
        entries.iter().for_each(|entry| session.info.apply(entry));
        pending::replace(self.connection, &before, listed_actions(&session.info), self.file)?;
        decisions::add(self.connection, &session.info, at, entries)?;
        self.put(&session)?;
        self.add_entries(session.number, at, json)
    }

    fn post(
        &mut self,
        session: Option<Session>,
        name: &str,
        input: &PostedInput,
    ) -> Result<(), StoreError> {
        let mut session = self.require_root(session, name)?;
        if mailbox::find(self.connection, session.number, &input.id, self.file)?.is_some() {
            return Ok(());
        }
        let unread = session.info.unread;
        if unread >= MAX_UNREAD_INPUTS {
            return Err(MemoryError::MailboxFull { session: name.into(), unread }.into());
        }
        session.info.set_unread(unread + 1);
        self.put(&session)?;
        let mut input = input.clone();
        input.time = Some(SystemEnvironment.now()); // in the transaction that makes it visible
        let json = codec::encode(&input)?;
        mailbox::add(self.connection, session.number, &input.id, &json, "")?;
        self.posted.push(session.number);
        Ok(())
    }

    fn put_schedule(
        &mut self,
        session: Option<Session>,
        schedule: &Schedule,
    ) -> Result<(), StoreError> {
        self.require_root(session, &schedule.session)?;
        schedule_rows::put(self.connection, schedule, self.file)
    }

    /// Returns a session that has entries and does not belong to a sub-agent.
    fn require_root(&self, session: Option<Session>, name: &str) -> Result<Session, StoreError> {
        let Some(session) = session.filter(|session| session.info.entries > 0) else {
            rows::totals(self.connection, self.file)?; // it could be a damaged row
            return Err(MemoryError::NoSession(name.into()).into());
        };
        session.info.require_root()?;
        Ok(session)
    }

    fn acknowledge(
        &mut self,
        session: Option<Session>,
        owner: &str,
        input: &str,
        receipt: &str,
        is_accepted: bool,
    ) -> Result<(), StoreError> {
        let Some(mut session) = session.filter(|session| *session.owner == *owner) else {
            return Err(MemoryError::Lost.into());
        };
        match mailbox::find(self.connection, session.number, input, self.file)? {
            Some(row) if row.is_unread() => {
                let unread = session.info.unread.saturating_sub(1);
                session.info.set_unread(unread);
                self.put(&session)?;
                row.acknowledge(self.connection, receipt, is_accepted)
            }
            None if !is_accepted => {
                mailbox::add(self.connection, session.number, input, "", receipt)
            }
            _ => Ok(()),
        }
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
        let (mut count, number) = rows::totals(self.connection, self.file)?;
        let mut shared = 0;
        if let Some((parent, shared_entries)) = &info.parent {
            let row = rows::find(&mut self.find_session, parent, self.file)?;
            if row.is_none_or(|row| row.number != parent_number) {
                return Err(MemoryError::NoSession(parent.clone()).into());
            }
            shared = *shared_entries;
        }
        if session.is_none() {
            count += 1;
        }
        pending::replace(self.connection, &[], listed_actions(info), self.file)?;
        self.put(&Session { number, owner: String::new(), info: info.clone() })?;
        self.add_entries(number, shared, json)?;
        rows::set_totals(self.connection, count, number + 1)
    }

    fn delete(&mut self, name: &str) -> Result<(), StoreError> {
        let session = rows::get(self.connection, name, self.file)?;
        if session.info.entries == 0 {
            return Err(MemoryError::NoSession(name.into()).into());
        }
        self.ensure_free(&session)?;
        let (all, next_number) = rows::all(self.connection, self.file)?;
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
        let root_of = |info: &SessionInfo| info.sub_agent_of.as_ref()?.root.clone();
        let root = root_of(&session.info);
        if root.is_some_and(|root| all.iter().any(|other| other.info.id == root)) {
            session.info.require_root()?;
        }
        let is_sub_agent = |other: &&Session| root_of(&other.info).as_deref() == Some(name);
        let sub_agents: Vec<&Session> = all.iter().filter(is_sub_agent).collect();
        sub_agents.iter().try_for_each(|sub_agent| self.ensure_free(sub_agent))?;
        let mut count = all.len() as i64;
        for sub_agent in sub_agents {
            self.remove(sub_agent, count, next_number)?;
            count -= 1;
        }
        self.remove(&session, count, next_number)
    }

    /// Removes one of `count` sessions.
    fn remove(
        &mut self,
        session: &Session,
        count: i64,
        next_number: i64,
    ) -> Result<(), StoreError> {
        self.connection.execute("DELETE FROM entry WHERE session = ?1", [session.number])?;
        self.connection.execute("DELETE FROM mailbox WHERE session = ?1", [session.number])?;
        self.connection.execute("DELETE FROM snapshot WHERE session = ?1", [session.number])?;
        pending::replace(self.connection, listed_actions(&session.info), &[], self.file)?;
        schedule_rows::remove_all(self.connection, &session.info.id, self.file)?;
        self.listing.remove(&session.info.id, self.file)?;
        // The decisions are kept, for audits.
        self.connection.execute("DELETE FROM session WHERE name = ?1", [&*session.info.id])?;
        rows::set_totals(self.connection, count - 1, next_number)
    }

    /// Writes the row of a session, and its row in the list.
    fn put(&mut self, session: &Session) -> Result<(), StoreError> {
        session.put(&mut self.put_session)?;
        self.listing.put(&session.info, self.file)
    }

    fn add_entries(&mut self, session: i64, at: u64, json: &[String]) -> Result<(), StoreError> {
        (at..).zip(json).try_for_each(|(position, json)| {
            rows::add_entry(&mut self.add_entry, session, position, json)
        })
    }

    /// Returns [`MemoryError::InUse`] if the session has a live owner.
    fn ensure_free(&self, session: &Session) -> Result<(), StoreError> {
        if session.owner.is_empty() {
            return Ok(());
        }
        let (token, _) = session.owner.split_once('#').unwrap_or_default();
        let is_alive = if token == self.owners.token() {
            self.live_owners.contains_key(&*session.owner)
        } else {
            self.owners.is_alive(token)
        };
        if is_alive { Err(MemoryError::InUse(session.info.id.clone()).into()) } else { Ok(()) }
    }
}
