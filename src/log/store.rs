//! The store seam: where sessions are kept, what is known of each without reading it whole, and one
//! in RAM.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::MemoryError;
use crate::log::entry::LogEntry;
use crate::log::event::ExternalAction;
use crate::log::memory::{InMemory, Memory};
use crate::log::session_log::SessionLog;
use crate::message::{Message, RunId, Usage};

/// Where sessions are kept. `loopwright_memory::conformance::check` tells whether one is right.
#[async_trait]
pub trait SessionStore: Send + Sync {
    /// Opens a session for writing; one that is not there is begun.
    ///
    /// Whoever has it open owns it: while the memory lives, opening the session again, in this
    /// process or another, fails with [`MemoryError::InUse`]. When the memory is dropped or its
    /// process has died, the next one takes it over.
    ///
    /// Every name of 1 to 200 bytes is a session's, whatever characters are in it, and names that
    /// differ are different sessions. Other names may be refused, with [`MemoryError::Failed`] and
    /// nothing changed.
    async fn open(&self, session: &str) -> Result<Arc<dyn Memory>, MemoryError>;

    /// The items from number `from` (counted from zero) to the end, for a reader that does not own
    /// the session. Fails with [`MemoryError::NoSession`] if there is none with a single item.
    async fn read(&self, session: &str, from: u64) -> Result<Vec<LogEntry>, MemoryError>;

    /// What is known of each session that has an item, the one changed last first.
    async fn sessions(&self) -> Result<Vec<SessionInfo>, MemoryError>;

    /// Removes a session for good. Fails with [`MemoryError::InUse`] while it is open, and with
    /// [`MemoryError::HasBranches`] where others share its past.
    async fn delete(&self, session: &str) -> Result<(), MemoryError>;

    /// What is known of one session. The default looks for it in [`SessionStore::sessions`].
    async fn session(&self, session: &str) -> Result<SessionInfo, MemoryError> {
        let mut all = self.sessions().await?.into_iter();
        all.find(|info| *info.id == *session).ok_or_else(|| MemoryError::NoSession(session.into()))
    }

    /// Begins the session `to` with the past of `session`: its first `at` items, or all of them,
    /// back to where a turn had ended. It takes neither the queue nor an open batch along. Gives
    /// the number of items that both share. Fails with [`MemoryError::Exists`] if `to` has an item.
    ///
    /// The default copies the past; a store may share it instead.
    async fn fork(&self, session: &str, at: Option<u64>, to: &str) -> Result<u64, MemoryError> {
        let items = self.read(session, 0).await?;
        let branch = SessionLog::branch(&items, at);
        let new = self.open(to).await?;
        if !new.load(0).await?.is_empty() {
            return Err(MemoryError::Exists(to.into()));
        }
        let shared = branch.shared;
        new.append(0, branch.log(items).into()).await?;
        Ok(shared)
    }

    /// Actions of all sessions that wait for an answer, the oldest first: an inbox. The default
    /// reads [`SessionStore::sessions`].
    async fn pending(&self, filter: &PendingFilter) -> Result<Vec<PendingAction>, MemoryError> {
        let all = self.sessions().await?.into_iter();
        let mut pending: Vec<PendingAction> =
            all.flat_map(|info| info.pending).filter(|action| filter.takes(action)).collect();
        pending.sort_by_key(|action| action.since);
        Ok(pending)
    }

    /// Messages of all sessions that contain all words of the query, whatever the case: the latest
    /// session first, in each the latest message first, at most `limit`. The default reads every
    /// session.
    async fn search(&self, query: &str, limit: usize) -> Result<Vec<SearchHit>, MemoryError> {
        let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
        let mut found = Vec::new();
        for info in self.sessions().await? {
            if words.is_empty() || found.len() >= limit {
                break;
            }
            let items = match self.read(&info.id, 0).await {
                Err(MemoryError::NoSession(_)) => continue, // deleted by now
                items => items?,
            };
            let fitting = items
                .iter()
                .rev()
                .filter_map(LogEntry::message)
                .filter(|message| message.has_words(&words));
            let here = fitting.map(|message| SearchHit::new(info.id.clone(), message.clone()));
            found.extend(here.take(limit - found.len()));
        }
        Ok(found)
    }
}

/// A message that a search has found.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SearchHit {
    /// The session that it was said in.
    pub session: Arc<str>,
    /// The message.
    pub message: Arc<Message>,
}

impl SearchHit {
    /// A message of a session.
    pub fn new(session: impl Into<Arc<str>>, message: Arc<Message>) -> Self {
        SearchHit { session: session.into(), message }
    }
}

/// What is known of a session without reading it whole. A store that keeps it beside the log brings
/// it up to date with [`SessionInfo::apply`], in the same append.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct SessionInfo {
    /// The session.
    pub id: Arc<str>,
    /// The length of its log.
    pub items: u64,
    /// When its first run began, in milliseconds since 1970; zero if none did.
    pub started: u64,
    /// The last time that its log tells of (an opening, the start or the end of a run, a question
    /// to the outside), in milliseconds since 1970. A branch that has not been opened yet has that
    /// of its past, or when it was made, where it ends a run of it.
    pub changed: u64,
    /// The first line of the first request, at most 120 characters; empty if there is none.
    pub title: String,
    /// The session whose past it shares, and how many items of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<(Arc<str>, u64)>,
    /// The run that goes on, or that a crash interrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// Tokens used in all; those of the past that a branch shares count in it too.
    #[serde(default)]
    pub usage: Usage,
    /// US dollars spent in all, as far as prices are known; a branch counts its past too, so the
    /// costs of a session and its branches do not add up to what was spent.
    #[serde(default)]
    pub cost: f64,
    /// What the host needs to open it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<Arc<Value>>,
    /// The actions that wait for an answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<PendingAction>,
}

/// Characters of a title.
const TITLE: usize = 120;

impl SessionInfo {
    /// Of a session without an item.
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        SessionInfo {
            id: id.into(),
            items: 0,
            started: 0,
            changed: 0,
            title: String::new(),
            parent: None,
            run: None,
            usage: Usage::default(),
            cost: 0.0,
            settings: None,
            pending: Vec::new(),
        }
    }

    /// Of a session with this log.
    pub fn of(id: impl Into<Arc<str>>, items: &[LogEntry]) -> Self {
        let mut info = Self::new(id);
        items.iter().for_each(|item| info.apply(item));
        info
    }

    /// Takes the next item of the log in; costs the same however long the log is.
    pub fn apply(&mut self, item: &LogEntry) {
        self.items += 1;
        match item {
            LogEntry::Opened { time, .. } => self.changed = self.changed.max(*time),
            LogEntry::RunStarted { run, time, .. } => {
                (self.run, self.changed) = (Some(*run), *time);
                if self.started == 0 {
                    self.started = *time;
                }
            }
            LogEntry::RunEnded { time, .. } => (self.run, self.changed) = (None, *time),
            LogEntry::Queued { message, .. } if self.title.is_empty() => {
                let text = message.text();
                self.title =
                    text.trim().lines().next().unwrap_or_default().chars().take(TITLE).collect();
            }
            LogEntry::Replied { message, cost } | LogEntry::Detached { message, cost } => {
                if let Some(reply) = message.as_assistant() {
                    self.usage += reply.usage;
                }
                self.cost += cost.filter(|cost| cost.is_finite()).unwrap_or(0.0);
            }
            LogEntry::Settings { settings } => self.settings = Some(settings.clone()),
            LogEntry::CallAwaiting { call, name, arguments, digest, request, time } => {
                self.changed = *time;
                let (call, name, arguments) = (call.clone(), name.clone(), arguments.clone());
                let action = ExternalAction {
                    call,
                    name,
                    arguments,
                    digest: digest.clone(),
                    request: request.clone(),
                };
                self.pending.push(PendingAction { session: self.id.clone(), since: *time, action });
            }
            LogEntry::Decided { call, .. } => {
                self.pending.retain(|pending| pending.action.call != *call)
            }
            LogEntry::CallFinished { result } => {
                if let Some(result) = result.as_tool_result() {
                    self.pending.retain(|pending| pending.action.call != result.call);
                }
            }
            LogEntry::Reset => self.pending.clear(),
            _ => {}
        }
    }
}

/// An action that waits for an answer, in a session of a store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct PendingAction {
    /// The session.
    pub session: Arc<str>,
    /// Since when it waits, in milliseconds since 1970.
    pub since: u64,
    /// What is asked.
    #[serde(flatten)]
    pub action: ExternalAction,
}

/// Which actions [`SessionStore::pending`] lists; all by default.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct PendingFilter {
    session: Option<Arc<str>>,
    tool: Option<Arc<str>>,
    before: Option<u64>,
}

impl PendingFilter {
    /// All.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only those of this session.
    pub fn session(mut self, session: impl Into<Arc<str>>) -> Self {
        self.session = Some(session.into());
        self
    }

    /// Only calls of this tool.
    pub fn tool(mut self, name: impl Into<Arc<str>>) -> Self {
        self.tool = Some(name.into());
        self
    }

    /// Only those that have waited since before this time, in milliseconds since 1970.
    pub fn before(mut self, time: u64) -> Self {
        self.before = Some(time);
        self
    }

    /// Whether the action is one of them.
    pub fn takes(&self, action: &PendingAction) -> bool {
        self.session.as_ref().is_none_or(|session| *session == action.session)
            && self.tool.as_ref().is_none_or(|tool| *tool == action.action.name)
            && self.before.is_none_or(|before| action.since < before)
    }
}

/// Sessions in RAM. Clones are the same store.
#[derive(Clone, Default)]
pub struct InMemoryStore(Arc<Mutex<BTreeMap<String, Kept>>>);

#[derive(Default)]
struct Kept {
    log: InMemory,
    owned: bool,
}

/// A session of an [`InMemoryStore`], until it is dropped.
struct Owned {
    log: InMemory,
    session: String,
    store: InMemoryStore,
}

impl InMemoryStore {
    /// A store without a session.
    pub fn new() -> Self {
        Self::default()
    }

    fn kept(&self) -> MutexGuard<'_, BTreeMap<String, Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log(&self, session: &str) -> Result<Vec<LogEntry>, MemoryError> {
        let items = self.kept().get(session).map(|kept| kept.log.items()).unwrap_or_default();
        if items.is_empty() { Err(MemoryError::NoSession(session.into())) } else { Ok(items) }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if let Some(kept) = self.store.kept().get_mut(&self.session) {
            kept.owned = false;
        }
    }
}

#[async_trait]
impl Memory for Owned {
    async fn append(&self, at: u64, items: Arc<[LogEntry]>) -> Result<(), MemoryError> {
        self.log.append(at, items).await
    }

    async fn load(&self, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        self.log.load(from).await
    }
}

#[async_trait]
impl SessionStore for InMemoryStore {
    async fn open(&self, session: &str) -> Result<Arc<dyn Memory>, MemoryError> {
        let mut kept = self.kept();
        let found = kept.entry(session.to_owned()).or_default();
        if std::mem::replace(&mut found.owned, true) {
            return Err(MemoryError::InUse(session.into()));
        }
        Ok(Arc::new(Owned {
            log: found.log.clone(),
            session: session.to_owned(),
            store: self.clone(),
        }))
    }

    async fn read(&self, session: &str, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        let mut items = self.log(session)?;
        Ok(items.split_off((from as usize).min(items.len())))
    }

    async fn sessions(&self) -> Result<Vec<SessionInfo>, MemoryError> {
        let kept = self.kept();
        let all = kept.iter().map(|(id, kept)| SessionInfo::of(id.as_str(), &kept.log.items()));
        let mut all: Vec<_> = all.filter(|info| info.items > 0).collect();
        all.sort_by_key(|info| std::cmp::Reverse(info.changed));
        Ok(all)
    }

    async fn delete(&self, session: &str) -> Result<(), MemoryError> {
        self.log(session)?;
        let mut kept = self.kept();
        if kept.get(session).is_some_and(|kept| kept.owned) {
            return Err(MemoryError::InUse(session.into()));
        }
        kept.remove(session);
        Ok(())
    }
}
