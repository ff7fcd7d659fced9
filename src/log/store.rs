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

/// Stores the logs of many sessions by name.
///
/// [`open`](SessionStore::open), [`read`](SessionStore::read), [`sessions`](SessionStore::sessions)
/// and [`delete`](SessionStore::delete) are required; the other methods have defaults, which a
/// store may replace by faster ones with the same results.
///
/// # Contract
///
/// - A session must have at most one owner: while the [`Memory`] that `open` returned is alive, in
///   this process or another, opening the session again must fail with [`MemoryError::InUse`]. When
///   the memory is dropped, or its process has died, the session can be opened again.
/// - Reading must not require ownership, and must not disturb the owner.
/// - Every name of 1 to 200 bytes is valid, regardless of its characters, and different names are
///   different sessions. Other names may be rejected with [`MemoryError::Failed`].
/// - A session exists once it has an entry. Opening a missing session must succeed.
///
/// # Cancellation
///
/// The futures may be dropped at any time. A `delete` or `fork` that is dropped must take effect as
/// a whole or not at all; a session whose `open` is dropped must not stay in use.
///
/// # Example
///
/// ```
/// use loopwright_core::log::{InMemoryStore, MemoryError, PendingFilter};
/// use loopwright_core::testing::{Script, ScriptedModel};
/// use loopwright_core::{GenericAgent, RunContext, SessionStore};
/// # use loopwright_core::{BehaviorPattern, StepContext, StepEnd, StepError};
/// # struct Once;
/// # #[async_trait::async_trait]
/// # impl BehaviorPattern for Once {
/// #     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
/// #         step.take_input().await?;
/// #         step.ask().await?.finish()
/// #     }
/// # }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = InMemoryStore::new();
/// let agent = GenericAgent::builder(ScriptedModel::new([Script::text("Hi.")]), Once).build()?;
/// let (handle, _events) = agent.run(RunContext::new().stored(&store, "monday").await?).await?;
/// handle.prompt("Hello").await?;
///
/// let in_use = store.open("monday").await.err();
/// assert_eq!(in_use, Some(MemoryError::InUse("monday".into())));
/// assert_eq!(store.session("monday").await?.title, "Hello");
/// assert!(store.pending(&PendingFilter::new()).await?.is_empty());
/// # Ok(()) }
/// ```
///
/// `examples/custom_memory.rs` implements the trait for Redis, and
/// `loopwright_memory::conformance::check` checks an implementation.
#[async_trait]
pub trait SessionStore: Send + Sync {
    /// Opens a session for writing, or starts it if it does not exist.
    ///
    /// # Errors
    ///
    /// [`MemoryError::InUse`] while another memory of the session is alive, and
    /// [`MemoryError::Damaged`] or [`MemoryError::Newer`] if its log cannot be read.
    async fn open(&self, session: &str) -> Result<Arc<dyn Memory>, MemoryError>;

    /// Returns the entries from number `from`, counted from zero, to the end, without opening the
    /// session.
    ///
    /// # Errors
    ///
    /// [`MemoryError::NoSession`] if there is no session with an entry.
    async fn read(&self, session: &str, from: u64) -> Result<Vec<LogEntry>, MemoryError>;

    /// Describes each session that has an entry; the one that changed last is first.
    async fn sessions(&self) -> Result<Vec<SessionInfo>, MemoryError>;

    /// Deletes a session.
    ///
    /// # Errors
    ///
    /// [`MemoryError::InUse`] while it is open, and [`MemoryError::HasBranches`] if others share
    /// the start of its log.
    async fn delete(&self, session: &str) -> Result<(), MemoryError>;

    /// Describes one session. The default finds it in [`SessionStore::sessions`].
    async fn session(&self, session: &str) -> Result<SessionInfo, MemoryError> {
        let mut all = self.sessions().await?.into_iter();
        all.find(|info| *info.id == *session).ok_or_else(|| MemoryError::NoSession(session.into()))
    }

    /// Forks `session` into the new session `to`, and returns the number of entries that both
    /// share.
    ///
    /// They share the first `at` entries, or all of them, up to the last end of a turn. The new
    /// session has neither queued messages nor an open batch. The default copies the entries; a
    /// store may share them instead.
    ///
    /// # Errors
    ///
    /// [`MemoryError::Exists`] if `to` has an entry.
    async fn fork(&self, session: &str, at: Option<u64>, to: &str) -> Result<u64, MemoryError> {
        let entries = self.read(session, 0).await?;
        let branch = SessionLog::branch(&entries, at);
        let new = self.open(to).await?;
        if !new.load(0).await?.is_empty() {
            return Err(MemoryError::Exists(to.into()));
        }
        let shared = branch.shared;
        new.append(0, branch.log(entries).into()).await?;
        Ok(shared)
    }

    /// Returns the pending actions of all sessions, the oldest first. The default reads
    /// [`SessionStore::sessions`].
    async fn pending(&self, filter: &PendingFilter) -> Result<Vec<PendingAction>, MemoryError> {
        let all = self.sessions().await?.into_iter();
        let mut pending: Vec<PendingAction> =
            all.flat_map(|info| info.pending).filter(|action| filter.takes(action)).collect();
        pending.sort_by_key(|action| action.since);
        Ok(pending)
    }

    /// Returns at most `limit` messages of all sessions that contain all words of the query,
    /// ignoring case: the latest session first, and in each the latest message first. The default
    /// reads every session.
    async fn search(&self, query: &str, limit: usize) -> Result<Vec<SearchHit>, MemoryError> {
        let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
        let mut hits = Vec::new();
        for info in self.sessions().await? {
            if words.is_empty() || hits.len() >= limit {
                break;
            }
            let entries = match self.read(&info.id, 0).await {
                Err(MemoryError::NoSession(_)) => continue, // deleted by now
                entries => entries?,
            };
            let matching = entries
                .iter()
                .rev()
                .filter_map(LogEntry::message)
                .filter(|message| message.has_words(&words));
            let here = matching.map(|message| SearchHit::new(info.id.clone(), message.clone()));
            hits.extend(here.take(limit - hits.len()));
        }
        Ok(hits)
    }
}

/// Holds a message that a search returned.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SearchHit {
    /// The session that contains it.
    pub session: Arc<str>,
    /// The message.
    pub message: Arc<Message>,
}

impl SearchHit {
    /// Builds a hit from a session and one of its messages.
    pub fn new(session: impl Into<Arc<str>>, message: Arc<Message>) -> Self {
        SearchHit { session: session.into(), message }
    }
}

/// Describes a session, for lists of sessions. A store that keeps it beside the log must update it
/// with [`SessionInfo::apply`], in the same transaction as the append.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct SessionInfo {
    /// The session.
    pub id: Arc<str>,
    /// The number of entries in its log.
    pub entries: u64,
    /// The start of its first run in milliseconds since 1970; zero if there was none.
    pub started: u64,
    /// The last time in its log (an opening, the start or the end of a run, an action that became
    /// pending), in milliseconds since 1970. For a fork that has not been opened, that is a time of
    /// its parent, or the time of the fork if it ended a run.
    pub changed: u64,
    /// The first line of the first request, at most 120 characters; empty if there is none.
    pub title: String,
    /// The session that it was forked from, and the number of entries that it shares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<(Arc<str>, u64)>,
    /// The run in progress, or the run that a crash interrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// The tokens of all replies, including those that a fork shares.
    #[serde(default)]
    pub usage: Usage,
    /// The cost of all replies in US dollars, as far as prices are known, including those that a
    /// fork shares. The costs of a session and its forks therefore do not add up.
    #[serde(default)]
    pub cost: f64,
    /// The host's settings for opening it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<Arc<Value>>,
    /// The pending actions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<PendingAction>,
}

/// The maximum number of characters of a title.
const MAX_TITLE_CHARS: usize = 120;

impl SessionInfo {
    /// Describes a session without entries.
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        SessionInfo {
            id: id.into(),
            entries: 0,
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

    /// Describes a session with this log.
    pub fn of(id: impl Into<Arc<str>>, entries: &[LogEntry]) -> Self {
        let mut info = Self::new(id);
        entries.iter().for_each(|entry| info.apply(entry));
        info
    }

    /// Updates the description for the next entry of the log. The work does not depend on the
    /// length of the log.
    pub fn apply(&mut self, entry: &LogEntry) {
        self.entries += 1;
        match entry {
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
                self.title = text
                    .trim()
                    .lines()
                    .next()
                    .unwrap_or_default()
                    .chars()
                    .take(MAX_TITLE_CHARS)
                    .collect();
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

/// Holds a pending action of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct PendingAction {
    /// The session.
    pub session: Arc<str>,
    /// The time since which it waits, in milliseconds since 1970.
    pub since: u64,
    /// The action.
    #[serde(flatten)]
    pub action: ExternalAction,
}

/// Selects the actions that [`SessionStore::pending`] returns; all by default.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct PendingFilter {
    session: Option<Arc<str>>,
    tool: Option<Arc<str>>,
    before: Option<u64>,
}

impl PendingFilter {
    /// Selects all actions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Selects only actions of this session.
    pub fn session(mut self, session: impl Into<Arc<str>>) -> Self {
        self.session = Some(session.into());
        self
    }

    /// Selects only calls of this tool.
    pub fn tool(mut self, name: impl Into<Arc<str>>) -> Self {
        self.tool = Some(name.into());
        self
    }

    /// Selects only actions that have waited since before this time, in milliseconds since 1970.
    pub fn before(mut self, time: u64) -> Self {
        self.before = Some(time);
        self
    }

    /// Returns whether the filter selects the action.
    pub fn takes(&self, action: &PendingAction) -> bool {
        self.session.as_ref().is_none_or(|session| *session == action.session)
            && self.tool.as_ref().is_none_or(|tool| *tool == action.action.name)
            && self.before.is_none_or(|before| action.since < before)
    }
}

/// Stores sessions in RAM. Clones share the sessions.
#[derive(Clone, Default)]
pub struct InMemoryStore(Arc<Mutex<BTreeMap<String, StoredSession>>>);

#[derive(Default)]
struct StoredSession {
    log: InMemory,
    owned: bool,
}

/// An open session of an [`InMemoryStore`]; dropping it closes the session.
struct Owned {
    log: InMemory,
    session: String,
    store: InMemoryStore,
}

impl InMemoryStore {
    /// Builds a store without sessions.
    pub fn new() -> Self {
        Self::default()
    }

    fn sessions_by_name(&self) -> MutexGuard<'_, BTreeMap<String, StoredSession>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
        }))
    }

    async fn read(&self, session: &str, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        let mut entries = self.log(session)?;
        Ok(entries.split_off((from as usize).min(entries.len())))
    }

    async fn sessions(&self) -> Result<Vec<SessionInfo>, MemoryError> {
        let sessions = self.sessions_by_name();
        let all =
            sessions.iter().map(|(id, stored)| SessionInfo::of(id.as_str(), &stored.log.entries()));
        let mut all: Vec<_> = all.filter(|info| info.entries > 0).collect();
        all.sort_by_key(|info| std::cmp::Reverse(info.changed));
        Ok(all)
    }

    async fn delete(&self, session: &str) -> Result<(), MemoryError> {
        self.log(session)?;
        let mut sessions = self.sessions_by_name();
        if sessions.get(session).is_some_and(|stored| stored.owned) {
            return Err(MemoryError::InUse(session.into()));
        }
        sessions.remove(session);
        Ok(())
    }
}
