//! [`Day`]: what the sessions of a principal have used on a day, as their logs have it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use loopwright_core::agent::Principal;
use loopwright_core::log::{Estimate, LogEntry, MemoryError, SessionInfo, SessionQuery};
use loopwright_core::message::{CallId, MessageId};
use loopwright_core::{Memory, SessionStore};

use super::permits::Reserved;
use super::use_file::{StoredUse, Use, add, max};

/// How many sessions are listed at a time.
const PAGE_SESSIONS: usize = 100;

/// What the sessions of a principal have used on a day.
#[derive(Default)]
pub(super) struct Day {
    /// The start of the day, in milliseconds since 1970.
    pub(super) start: u64,
    /// The sessions of this day, and those of their sub-agents that have not ended.
    sessions: HashMap<Arc<str>, SessionUse>,
    /// The sessions that work on since the day before.
    followed: HashSet<Arc<str>>,
    /// What requests without a session have used, unless a file has it.
    pub(super) requests: Use,
    /// The sessions that are in memory alone.
    runs: Vec<RunUse>,
}

/// What one session has used.
struct SessionUse {
    /// The session as far as its log was read.
    info: SessionInfo,
    /// What it had used when the day began, or what a fork shares with its parent.
    before: Use,
    /// What was estimated for requests whose process has died.
    lost: Use,
    /// What is estimated for requests that have not ended.
    open: HashMap<MessageId, Use>,
    /// The sessions of sub-agents that have not ended.
    children: HashMap<CallId, Arc<str>>,
}

/// What a session in memory has used.
struct RunUse {
    memory: Arc<dyn Memory>,
    read: u64,
    info: SessionInfo,
}

impl Day {
    /// Begins another day. Requests in memory count on the day on which they end.
    pub(super) fn begin(&mut self, start: u64) {
        let runs = std::mem::take(&mut self.runs);
        *self = Day { start, runs, ..Day::default() };
    }

    /// Reads what the logs of this principal's sessions have had since the last time.
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
                    break 'pages; // and so are all that follow
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
        // A store that copies the log of a fork does not say what is shared: then it counts twice.
        let shared = listed.parent.as_ref().map_or(0, |(_, entries)| *entries);
        self.read_new(store, &listed.id, Some((self.start, shared))).await
    }

    /// Counts what a session uses from now on, although it has not begun a run today.
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

    /// Reads the sub-agents that have not ended, and theirs. Those that have ended are in the
    /// account of their parents.
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

    /// Reads the new entries of a session. With `earlier`, those before this time, and so many
    /// first ones, do not count.
    async fn read_new(
        &mut self,
        store: &dyn SessionStore,
        id: &Arc<str>,
        earlier: Option<(u64, u64)>,
    ) -> Result<(), MemoryError> {
        let from = self.sessions.get(id).map_or(0, |known| known.info.entries);
        let entries = match store.read(id, from).await {
            Err(MemoryError::NoSession(_)) => return Ok(()), // it has not begun, or was deleted
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

    /// Returns what a session and its sub-agents have used.
    pub(super) fn used_in_tree(&self, root: &str) -> Use {
        let own = self.sessions.iter().filter(|(id, _)| is_in_tree(id, root));
        own.fold((0, 0.0), |sum, (_, session)| add(sum, session.used()))
    }

    /// Counts a session in memory, from this entry on.
    pub(super) fn start_run(&mut self, memory: Arc<dyn Memory>, first: u64) {
        self.runs.push(RunUse { memory, read: first, info: SessionInfo::new("") });
    }

    /// Returns what a session in memory has used, which is no longer counted.
    pub(super) async fn end_run(&mut self, memory: &Arc<dyn Memory>) -> Use {
        let Some(at) = self.runs.iter().position(|run| Arc::ptr_eq(&run.memory, memory)) else {
            return Use::default();
        };
        let mut run = self.runs.swap_remove(at);
        let _ = run.update().await; // in memory, it does not fail
        reported(&run.info)
    }

    /// Returns the tokens and the cost of all sessions and requests. What the file says about a
    /// session may be here as well. Requests in progress count with what their logs estimate,
    /// unless it was reserved for them before the logs were read.
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

/// Returns whether a session is this one, or one of its sub-agents.
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

    /// Counts an entry. Returns the session of the sub-agent that has ended with it.
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

    /// Leaves out what it has used so far.
    fn start_afresh(&mut self) {
        self.before = reported(&self.info);
        (self.lost, self.open) = Default::default();
    }

    /// Returns what it has used today.
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

/// Returns what providers have reported.
fn reported(session: &SessionInfo) -> Use {
    (session.usage.total(), session.cost)
}

fn estimated(estimate: &Estimate) -> Use {
    (estimate.tokens, estimate.cost.unwrap_or_default())
}
