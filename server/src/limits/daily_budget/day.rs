//! [`Day`]: the usage of a principal's sessions on a day, according to their logs.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use loopwright_core::log::{Estimate, LogEntry, MemoryError, SessionInfo, SessionQuery};
use loopwright_core::message::{CallId, MessageId};
use loopwright_core::{Memory, Principal, SessionStore};

use super::permits::Reserved;
use super::use_file::{StoredUse, Use, add, max};

/// The number of sessions per page of a list.
const PAGE_SESSIONS: usize = 100;

/// The usage of a principal's sessions on a day.
#[derive(Default)]
pub(super) struct Day {
    /// The start of the day, in milliseconds since 1970.
    pub(super) start: u64,
    /// The sessions of this day, and the sessions of their sub-agents that have not ended.
    sessions: HashMap<Arc<str>, SessionUse>,
    /// The sessions that continue from the day before.
    followed: HashSet<Arc<str>>,
    /// The usage of requests without a session that is in no file.
    pub(super) requests: Use,
    /// The sessions that exist only in memory.
    runs: Vec<RunUse>,
}

/// The usage of one session.
struct SessionUse {
    /// The session up to the last entry read.
    info: SessionInfo,
    /// The usage before the day began, or before a fork left its parent.
    before: Use,
    /// The estimates of requests whose process has died.
    lost: Use,
    /// The estimates of requests that have not ended.
    open: HashMap<MessageId, Use>,
    /// The sessions of sub-agents that have not ended.
    children: HashMap<CallId, Arc<str>>,
}

/// The usage of a session in memory.
struct RunUse {
    memory: Arc<dyn Memory>,
    read: u64,
    info: SessionInfo,
}

impl Day {
    /// Starts another day. Requests in memory count on the day they end.
    pub(super) fn begin(&mut self, start: u64) {
        let runs = std::mem::take(&mut self.runs);
        *self = Day { start, runs, ..Day::default() };
    }

    /// Reads the new entries of the principal's sessions.
    pub(super) async fn update(
        &mut self,
        store: &dyn SessionStore,
        owner: &Principal,
    ) -> Result<(), MemoryError> {
        let first = SessionQuery::new(PAGE_SESSIONS).owner(owner.clone()).brief();
        let mut next = Some(first.clone());
        'pages: while let Some(query) = next.take() {
            let page = store.sessions_page(&query).await?;
            for listed in &page.sessions {
                if listed.changed < self.start {
                    break 'pages; // all later sessions are older
                }
                self.read(store, listed).await?;
            }
            next = page.next.map(|cursor| first.clone().after(cursor));
        }
        for session in self.followed.clone() {
            self.read_new(store, &session, None).await?;
        }
        self.read_children(store).await?;
        for run in &mut self.runs {
            run.update().await?;
        }
        Ok(())
    }

    /// Reads a session that belongs to the principal.
    pub(super) async fn read(
        &mut self,
        store: &dyn SessionStore,
        listed: &SessionInfo,
    ) -> Result<(), MemoryError> {
        let known = self.sessions.get(&listed.id);
        if known.is_some_and(|known| known.info.entries >= listed.entries) {
            return Ok(());
        }
        // A store that copies the log of a fork does not report the shared part, which counts
        // twice.
        let shared = listed.parent.as_ref().map_or(0, |(_, entries)| *entries);
        self.read_new(store, &listed.id, Some((self.start, shared))).await
    }

    /// Counts a session from now on, although it has not begun a run today.
    pub(super) async fn follow(
        &mut self,
        store: &dyn SessionStore,
        session: &str,
    ) -> Result<(), MemoryError> {
        if self.sessions.contains_key(session) {
            return Ok(());
        }
        self.read_new(store, &session.into(), Some((u64::MAX, 0))).await?;
        if let Some((id, _)) = self.sessions.get_key_value(session) {
            self.followed.insert(id.clone());
        }
        Ok(())
    }

    /// Reads the sub-agents that have not ended, recursively. The usage of ended ones is in their
    /// parents' logs.
    async fn read_children(&mut self, store: &dyn SessionStore) -> Result<(), MemoryError> {
        let all = self.sessions.values().flat_map(|session| session.children.values());
        let mut unread: Vec<Arc<str>> = all.cloned().collect();
        let mut seen = HashSet::new();
        while let Some(child) = unread.pop() {
            if seen.insert(child.clone()) {
                self.read_new(store, &child, None).await?;
                let found = self.sessions.get(&child).into_iter();
                unread.extend(found.flat_map(|found| found.children.values().cloned()));
            }
        }
        Ok(())
    }

    /// Reads the new entries of a session. `earlier` is a time and a number of entries: entries
    /// before that time, and that many first entries, do not count.
    async fn read_new(
        &mut self,
        store: &dyn SessionStore,
        id: &Arc<str>,
        earlier: Option<(u64, u64)>,
    ) -> Result<(), MemoryError> {
        let from = self.sessions.get(id).map_or(0, |known| known.info.entries);
        let entries = match store.read(id, from).await {
            Err(MemoryError::NoSession(_)) => return Ok(()), // not begun, or deleted
            entries => entries?,
        };
        let session =
            self.sessions.entry(id.clone()).or_insert_with(|| SessionUse::new(id.clone()));
        let mut ended = Vec::new();
        for entry in &entries {
            ended.extend(session.apply(entry));
            let is_earlier = |(start, shared): (u64, u64)| {
                session.info.changed < start || session.info.entries <= shared
            };
            if earlier.is_some_and(is_earlier) {
                session.start_afresh();
            }
        }
        for child in ended {
            self.sessions.retain(|id, _| !is_in_tree(id, &child));
        }
        Ok(())
    }

    /// Returns the usage of a session and its sub-agents.
    pub(super) fn used_in_tree(&self, root: &str) -> Use {
        let own = self.sessions.iter().filter(|(id, _)| is_in_tree(id, root));
        own.fold((0, 0.0), |sum, (_, session)| add(sum, session.used()))
    }

    /// Counts a session in memory, from entry `first` on.
    pub(super) fn start_run(&mut self, memory: Arc<dyn Memory>, first: u64) {
        self.runs.push(RunUse { memory, read: first, info: SessionInfo::new("") });
    }

    /// Stops counting a session in memory, and returns its usage.
    pub(super) async fn end_run(&mut self, memory: &Arc<dyn Memory>) -> Use {
        let Some(at) = self.runs.iter().position(|run| Arc::ptr_eq(&run.memory, memory)) else {
            return Use::default();
        };
        let mut run = self.runs.swap_remove(at);
        let _ = run.update().await; // memory does not fail
        reported(&run.info)
    }

    /// Returns the usage of all sessions and requests. A session that is in `stored` may also be in
    /// the logs, and counts once. A request in progress counts with the estimate in its log, unless
    /// `reserved` has a reservation made before the logs were read.
    pub(super) fn used(&self, stored: &StoredUse, reserved: &Reserved) -> Use {
        let logged = self.sessions.iter().map(|(id, session)| {
            let kept = stored.sessions.get(id).copied().unwrap_or_default();
            let used = max(session.used(), kept);
            match reserved.sessions.contains(id) {
                true => used,
                false => session.open.values().copied().fold(used, add),
            }
        });
        let kept = stored.sessions.iter().filter(|(id, _)| !self.sessions.contains_key(*id));
        let runs = self.runs.iter().map(|run| reported(&run.info));
        let all = logged.chain(kept.map(|(_, used)| *used)).chain([stored.requests]).chain(runs);
        all.fold(self.requests, add)
    }
}

/// Returns whether `id` is the session `root` or one of its sub-agents.
fn is_in_tree(id: &str, root: &str) -> bool {
    id.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl SessionUse {
    fn new(id: Arc<str>) -> Self {
        SessionUse {
            info: SessionInfo::new(id),
            before: Use::default(),
            lost: Use::default(),
            open: HashMap::new(),
            children: HashMap::new(),
        }
    }

    /// Counts an entry. Returns the session of a sub-agent if the entry ends it.
    fn apply(&mut self, entry: &LogEntry) -> Option<Arc<str>> {
        self.info.apply(entry);
        match entry {
            LogEntry::Opened { .. } => {
                self.lost = self.open.drain().fold(self.lost, |sum, (_, one)| add(sum, one));
            }
            LogEntry::RequestStarted { message, estimate, .. } => {
                self.open.insert(*message, estimated(estimate));
            }
            LogEntry::DetachedStarted { requests } => {
                let all = requests.iter().map(|one| (one.message, estimated(&one.estimate)));
                self.open.extend(all);
            }
            LogEntry::Replied { message, .. } | LogEntry::Detached { message, .. } => {
                self.open.remove(&message.id);
            }
            LogEntry::Charged { message, ended: true, .. } => drop(self.open.remove(message)),
            LogEntry::NotSent { messages } => self.open.retain(|id, _| !messages.contains(id)),
            LogEntry::ChildStarted { call, session, .. } => {
                self.children.insert(call.clone(), session.clone());
            }
            LogEntry::ChildEnded { call, .. } => return self.children.remove(call),
            _ => {}
        }
        None
    }

    /// Excludes the usage so far.
    fn start_afresh(&mut self) {
        self.before = reported(&self.info);
        (self.lost, self.open) = Default::default();
    }

    /// Returns the usage of today.
    fn used(&self) -> Use {
        let (tokens, cost) = reported(&self.info);
        add((tokens - self.before.0, cost - self.before.1), self.lost)
    }
}

impl RunUse {
    async fn update(&mut self) -> Result<(), MemoryError> {
        for entry in self.memory.load(self.read).await? {
            self.info.apply(&entry);
            self.read += 1;
        }
        Ok(())
    }
}

/// Returns the usage that providers have reported.
fn reported(session: &SessionInfo) -> Use {
    (session.usage.total(), session.cost)
}

fn estimated(estimate: &Estimate) -> Use {
    (estimate.tokens, estimate.cost.unwrap_or_default())
}
