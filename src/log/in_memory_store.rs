//! [`InMemoryStore`], sessions in RAM.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tokio::sync::Notify;

use crate::environment::{Environment, SystemEnvironment};
use crate::error::MemoryError;
use crate::log::audit::{AuditPage, AuditQuery, DecisionRecord};
use crate::log::entry::LogEntry;
use crate::log::mailbox::{InputReceipt, Mailbox, PostedInput};
use crate::log::memory::{InMemory, Memory};
use crate::log::schedule::Schedule;
use crate::log::schedule_page::{SchedulePage, ScheduleQuery};
use crate::log::schedules::{Schedules, check_schedule_room};
use crate::log::session_info::SessionInfo;
use crate::log::snapshots::{Snapshot, Snapshots};
use crate::log::store::{MAX_UNREAD_INPUTS, SessionStore, sub_agents};
use crate::message::InputId;

/// A store of sessions in RAM. Clones share the sessions.
#[derive(Clone, Default)]
pub struct InMemoryStore {
    sessions: Arc<Mutex<BTreeMap<String, StoredSession>>>,
    /// The decisions of deleted sessions.
    deleted: Arc<Mutex<Vec<DecisionRecord>>>,
    schedules: Arc<Mutex<Vec<Schedule>>>,
}

#[derive(Default)]
struct StoredSession {
    log: InMemory,
    owned: bool,
    mail: Vec<Mail>,
    snapshot: Option<Snapshot>,
    /// Notified of each posted input.
    posted: Arc<Notify>,
}

/// An input of a mailbox; without content if it was refused and never posted.
struct Mail {
    id: InputId,
    input: Option<PostedInput>,
    receipt: Option<InputReceipt>,
}

impl StoredSession {
    fn info(&self, id: &str) -> SessionInfo {
        let mut info = SessionInfo::of(id, &self.log.entries());
        info.set_unread(self.unread().count() as u64);
        info
    }

    fn unread(&self) -> impl Iterator<Item = &PostedInput> {
        let unread = self.mail.iter().filter(|mail| mail.receipt.is_none());
        unread.filter_map(|mail| mail.input.as_ref())
    }

    fn find(&self, input: &InputId) -> Option<&Mail> {
        self.mail.iter().find(|mail| mail.id == *input)
    }
}

/// An open session of an [`InMemoryStore`]; dropping it closes the session.
struct Owned {
    log: InMemory,
    session: String,
    store: InMemoryStore,
    posted: Arc<Notify>,
}

impl InMemoryStore {
    /// Builds a store without sessions.
    pub fn new() -> Self {
        Self::default()
    }

    fn sessions_by_name(&self) -> MutexGuard<'_, BTreeMap<String, StoredSession>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn deleted_decisions(&self) -> MutexGuard<'_, Vec<DecisionRecord>> {
        self.deleted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn all_schedules(&self) -> MutexGuard<'_, Vec<Schedule>> {
        self.schedules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log(&self, session: &str) -> Result<Vec<LogEntry>, MemoryError> {
        let entries = self
            .sessions_by_name()
            .get(session)
            .map(|stored| stored.log.entries())
            .unwrap_or_default();
        if entries.is_empty() { Err(MemoryError::NoSession(session.into())) } else { Ok(entries) }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if let Some(stored) = self.store.sessions_by_name().get_mut(&self.session) {
            stored.owned = false;
        }
    }
}

#[async_trait]
impl Memory for Owned {
    async fn append(&self, at: u64, entries: Arc<[LogEntry]>) -> Result<(), MemoryError> {
        self.log.append(at, entries).await
    }

    async fn load(&self, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        self.log.load(from).await
    }

    fn mailbox(&self) -> Option<&dyn Mailbox> {
        Some(self)
    }

    fn snapshots(&self) -> Option<&dyn Snapshots> {
        Some(self)
    }
}

#[async_trait]
impl Snapshots for Owned {
    async fn latest(&self) -> Result<Option<Snapshot>, MemoryError> {
        let sessions = self.store.sessions_by_name();
        Ok(sessions.get(&self.session).and_then(|stored| stored.snapshot.clone()))
    }

    async fn store(&self, snapshot: Snapshot) -> Result<(), MemoryError> {
        if let Some(stored) = self.store.sessions_by_name().get_mut(&self.session)
            && stored.snapshot.as_ref().is_none_or(|old| old.entries < snapshot.entries)
        {
            stored.snapshot = Some(snapshot);
        }
        Ok(())
    }
}

/// The owner keeps the session until it is dropped, so its receipts need no further check.
#[async_trait]
impl Mailbox for Owned {
    async fn unread(&self) -> Result<Vec<PostedInput>, MemoryError> {
        let sessions = self.store.sessions_by_name();
        let unread = sessions.get(&self.session).map(|stored| stored.unread().cloned().collect());
        Ok(unread.unwrap_or_default())
    }

    async fn now(&self) -> Result<u64, MemoryError> {
        let _posting = self.store.sessions_by_name();
        Ok(SystemEnvironment.now())
    }

    async fn receipt(&self, input: &InputId) -> Result<Option<InputReceipt>, MemoryError> {
        let sessions = self.store.sessions_by_name();
        let mail = sessions.get(&self.session).and_then(|stored| stored.find(input));
        Ok(mail.and_then(|mail| mail.receipt.clone()))
    }

    async fn acknowledge(
        &self,
        input: &InputId,
        receipt: &InputReceipt,
    ) -> Result<(), MemoryError> {
        let mut sessions = self.store.sessions_by_name();
        let stored = sessions.entry(self.session.clone()).or_default();
        match stored.mail.iter_mut().find(|mail| mail.id == *input) {
            Some(mail) => drop(mail.receipt.get_or_insert_with(|| receipt.clone())),
            None if *receipt == InputReceipt::Accepted => {}
            None => stored.mail.push(Mail {
                id: input.clone(),
                input: None,
                receipt: Some(receipt.clone()),
            }),
        }
        Ok(())
    }

    async fn posted(&self) {
        self.posted.notified().await
    }
}

#[async_trait]
impl SessionStore for InMemoryStore {
    async fn open(&self, session: &str) -> Result<Arc<dyn Memory>, MemoryError> {
        let mut sessions = self.sessions_by_name();
        let stored = sessions.entry(session.to_owned()).or_default();
        if std::mem::replace(&mut stored.owned, true) {
            return Err(MemoryError::InUse(session.into()));
        }
        Ok(Arc::new(Owned {
            log: stored.log.clone(),
            session: session.to_owned(),
            store: self.clone(),
            posted: stored.posted.clone(),
        }))
    }

    async fn read(&self, session: &str, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        let mut entries = self.log(session)?;
        Ok(entries.split_off((from as usize).min(entries.len())))
    }

    async fn sessions(&self) -> Result<Vec<SessionInfo>, MemoryError> {
        let sessions = self.sessions_by_name();
        let all = sessions.iter().map(|(id, stored)| stored.info(id));
        let is_listed = |info: &SessionInfo| info.entries > 0 && info.sub_agent_of.is_none();
        let mut all: Vec<_> = all.filter(is_listed).collect();
        all.sort_by_key(|info| std::cmp::Reverse(info.changed));
        Ok(all)
    }

    async fn session(&self, session: &str) -> Result<SessionInfo, MemoryError> {
        let sessions = self.sessions_by_name();
        let info = sessions.get(session).map(|stored| stored.info(session));
        let info = info.filter(|info| info.entries > 0);
        info.ok_or_else(|| MemoryError::NoSession(session.into()))
    }

    async fn post(
        &self,
        session: &str,
        input: &PostedInput,
    ) -> Result<Option<InputReceipt>, MemoryError> {
        let mut sessions = self.sessions_by_name();
        let none = || MemoryError::NoSession(session.into());
        let stored = sessions.get_mut(session).ok_or_else(none)?;
        let entries = stored.log.entries();
        if entries.is_empty() {
            return Err(none());
        }
        SessionInfo::of(session, &entries).require_root()?;
        if let Some(mail) = stored.find(&input.id) {
            return Ok(mail.receipt.clone());
        }
        if entries.iter().any(|entry| entry.input() == Some(&input.id)) {
            return Ok(Some(InputReceipt::Accepted));
        }
        let unread = stored.unread().count() as u64;
        if unread >= MAX_UNREAD_INPUTS {
            return Err(MemoryError::MailboxFull { session: session.into(), unread });
        }
        let (id, mut input) = (input.id.clone(), input.clone());
        input.time = Some(SystemEnvironment.now());
        stored.mail.push(Mail { id, input: Some(input), receipt: None });
        stored.posted.notify_one();
        Ok(None)
    }

    async fn in_use(&self, session: &str) -> Result<Option<bool>, MemoryError> {
        Ok(Some(self.sessions_by_name().get(session).is_some_and(|stored| stored.owned)))
    }

    async fn delete(&self, session: &str) -> Result<(), MemoryError> {
        let sub_agents = sub_agents(self, session).await?;
        let mut sessions = self.sessions_by_name();
        let all = || std::iter::once(session).chain(sub_agents.iter().map(|session| &**session));
        let is_open = |session: &&str| sessions.get(*session).is_some_and(|stored| stored.owned);
        if let Some(open) = all().find(is_open) {
            return Err(MemoryError::InUse(open.into()));
        }
        if let Some(stored) = sessions.get(session) {
            let decisions = DecisionRecord::in_log(&stored.info(session), &stored.log.entries());
            self.deleted_decisions().extend(decisions);
        }
        all().for_each(|session| drop(sessions.remove(session)));
        self.all_schedules().retain(|schedule| *schedule.session != *session);
        Ok(())
    }

    async fn decisions(&self, query: &AuditQuery) -> Result<AuditPage, MemoryError> {
        let sessions = self.sessions_by_name();
        let mut decisions = self.deleted_decisions().clone();
        for (id, stored) in &*sessions {
            decisions.extend(DecisionRecord::in_log(&stored.info(id), &stored.log.entries()));
        }
        Ok(query.page(decisions))
    }

    fn schedules(&self) -> Option<&dyn Schedules> {
        Some(self)
    }
}

#[async_trait]
impl Schedules for InMemoryStore {
    async fn put(&self, schedule: &Schedule) -> Result<(), MemoryError> {
        self.session(&schedule.session).await?.require_root()?;
        let mut schedules = self.all_schedules();
        let (session, id) = (&schedule.session, &schedule.id);
        if let Some(old) = schedules.iter_mut().find(|it| it.session == *session && it.id == *id) {
            *old = schedule.clone();
            return Ok(());
        }
        let of_session = schedules.iter().filter(|it| it.session == *session).count();
        check_schedule_room(session, of_session, schedules.len())?;
        schedules.push(schedule.clone());
        Ok(())
    }

    async fn remove(&self, session: &str, id: &str) -> Result<bool, MemoryError> {
        let mut schedules = self.all_schedules();
        let count = schedules.len();
        schedules.retain(|it| *it.session != *session || *it.id != *id);
        Ok(schedules.len() < count)
    }

    async fn of_session(&self, session: &str) -> Result<Vec<Schedule>, MemoryError> {
        let schedules = self.all_schedules();
        let of_session = schedules.iter().filter(|schedule| *schedule.session == *session);
        let mut found: Vec<Schedule> = of_session.cloned().collect();
        found.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(found)
    }

    async fn due(&self, limit: usize) -> Result<Vec<Schedule>, MemoryError> {
        let now = SystemEnvironment.now();
        let schedules = self.all_schedules();
        let due = schedules.iter().filter(|schedule| schedule.due_at() <= now);
        let mut found: Vec<Schedule> = due.cloned().collect();
        found.sort_by_key(Schedule::due_at);
        found.truncate(limit);
        Ok(found)
    }

    async fn next_after(&self, time: u64) -> Result<Option<u64>, MemoryError> {
        let schedules = self.all_schedules();
        Ok(schedules.iter().map(Schedule::due_at).filter(|next| *next > time).min())
    }

    async fn page(&self, query: &ScheduleQuery) -> Result<SchedulePage, MemoryError> {
        let mut schedules = self.all_schedules().clone();
        if query.owner.is_some() {
            let sessions = self.sessions_by_name();
            schedules.retain(|schedule| {
                let session = sessions.get(&*schedule.session);
                session.is_some_and(|stored| stored.info(&schedule.session).owner == query.owner)
            });
        }
        Ok(query.page(schedules))
    }

    async fn advance(
        &self,
        schedule: &Schedule,
        next: Option<&Schedule>,
    ) -> Result<bool, MemoryError> {
        let mut schedules = self.all_schedules();
        let Some(at) = schedules.iter().position(|it| it.is_same(schedule)) else {
            return Ok(false);
        };
        match next {
            Some(next) => schedules[at] = next.clone(),
            None => drop(schedules.remove(at)),
        }
        Ok(true)
    }
}
