//! [`SessionStore`]: the extension point for the logs of many sessions.

use std::sync::Arc;

use async_trait::async_trait;
use serde::Serialize;

use crate::error::MemoryError;
use crate::log::audit::{AuditPage, AuditQuery, DecisionRecord};
use crate::log::entry::LogEntry;
use crate::log::mailbox::{InputReceipt, PostedInput};
use crate::log::memory::Memory;
use crate::log::pending::{PendingPage, PendingQuery};
use crate::log::schedules::Schedules;
use crate::log::session_info::SessionInfo;
use crate::log::session_log::SessionLog;
use crate::log::session_page::{SessionPage, SessionQuery};
use crate::log::workers::Workers;
use crate::message::Message;

/// The logs of many sessions, by name.
///
/// [`open`](SessionStore::open), [`read`](SessionStore::read), [`sessions`](SessionStore::sessions)
/// and [`delete`](SessionStore::delete) are required. The other methods have defaults, which a
/// store may replace by faster ones with the same results.
///
/// # Contract
///
/// - A session must have at most one owner. While the [`Memory`] that `open` returned is alive, in
///   this process or another, opening the session again must fail with [`MemoryError::InUse`]. Once
///   the memory is dropped, or its process has died, the session can be opened again.
/// - Reading must neither require ownership nor disturb the owner.
/// - Every name of 1 to 200 bytes is valid, regardless of its characters, and different names are
///   different sessions. Other names may be rejected with [`MemoryError::Failed`].
/// - A session exists once it has an entry. Opening a missing session must succeed.
/// - The sessions of sub-agents are opened and read like others, while their root's session is
///   open. No list and no search contains them, and their actions are pending at the root only,
///   whose log names them. A session belongs to a sub-agent if its [`SessionInfo::sub_agent_of`] is
///   `Some`. Its name does not show that, and is a little longer than the root's.
///
/// # A store around another
///
/// A store that wraps another one returns it from [`inner`](SessionStore::inner), and implements
/// the four required methods. All others are then the inner store's, so that no mailbox, schedule
/// or fast query is lost. [`Memory::inner`] does the same for the memory that `open` returns. If
/// the wrapper changes entries, what the inner store finds and lists is in the form in which it
/// stores them. A wrapper that hides something from the inner store implements
/// [`post`](SessionStore::post) too, and its memory [`Memory::snapshots`] and [`Memory::mailbox`]:
/// posted inputs and snapshots do not pass `append`.
///
/// # Cancellation
///
/// The futures may be dropped at any time. A `delete` or `fork` that is dropped must take effect as
/// a whole or not at all. A session whose `open` is dropped must not stay in use.
///
/// # Example
///
/// ```
/// use loopwright_core::log::{InMemoryStore, MemoryError, PendingQuery};
/// use loopwright_core::testing::{Script, ScriptedModel};
/// use loopwright_core::{GenericAgent, SessionStore};
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
/// let handle = agent.open(&store, "monday").await?;
/// handle.prompt("Hello").await?;
///
/// let in_use = store.open("monday").await.err();
/// assert_eq!(in_use, Some(MemoryError::InUse("monday".into())));
/// assert_eq!(store.session("monday").await?.title, "Hello");
/// assert!(store.pending(&PendingQuery::all()).await?.actions.is_empty());
/// # Ok(()) }
/// ```
///
/// `examples/custom_memory.rs` implements the trait for Redis, and
/// `loopwright_memory::conformance::check` checks an implementation.
#[async_trait]
pub trait SessionStore: Send + Sync {
    /// Opens a session for writing. Starts the session if it does not exist.
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
    /// [`MemoryError::NoSession`] if no session of this name has an entry.
    async fn read(&self, session: &str, from: u64) -> Result<Vec<LogEntry>, MemoryError>;

    /// Returns the descriptions of all sessions with entries, the last changed first. Sessions of
    /// sub-agents ([`SessionInfo::sub_agent_of`]) are left out.
    async fn sessions(&self) -> Result<Vec<SessionInfo>, MemoryError>;

    /// Deletes a session, then the sessions of its sub-agents ([`sub_agents`]). In this order, no
    /// crash leaves the session without them.
    ///
    /// # Errors
    ///
    /// [`MemoryError::InUse`] while the session or a sub-agent's session is open,
    /// [`MemoryError::HasBranches`] if other sessions share the start of its log, and
    /// [`MemoryError::SubAgent`] if it belongs to a sub-agent whose root exists.
    async fn delete(&self, session: &str) -> Result<(), MemoryError>;

    /// Returns the store that this one wraps. Its methods are then the defaults. The default
    /// returns `None`.
    fn inner(&self) -> Option<&dyn SessionStore> {
        None
    }

    /// Returns the description of one session, which may be a sub-agent's. The default reads its
    /// log.
    async fn session(&self, session: &str) -> Result<SessionInfo, MemoryError> {
        if let Some(inner) = self.inner() {
            return inner.session(session).await;
        }
        Ok(SessionInfo::of(session, &self.read(session, 0).await?))
    }

    /// Returns the descriptions of a page of the sessions that [`sessions`](SessionStore::sessions)
    /// returns, in the same order. Sessions that changed at the same time are sorted by name. The
    /// default calls `sessions`.
    async fn sessions_page(&self, query: &SessionQuery) -> Result<SessionPage, MemoryError> {
        if let Some(inner) = self.inner() {
            return inner.sessions_page(query).await;
        }
        Ok(query.page(self.sessions().await?))
    }

    /// Posts an input to a session, which another process may have open. The input is durable when
    /// this returns. Returns the receipt of its id, or `None` while no owner of the session has
    /// handled it. If nobody has the session open, the next owner handles the input.
    ///
    /// Posting an input with the same id again changes nothing, and returns the receipt once it
    /// exists, so that a caller can wait for it ([`post_and_wait`](crate::log::post_and_wait)).
    ///
    /// An id in the log of the session is already accepted. At most [`MAX_UNREAD_INPUTS`] inputs of
    /// a session wait.
    ///
    /// A store with mailboxes must implement [`Memory::mailbox`] too, and set
    /// [`SessionInfo::unread`]. The default fails with [`MemoryError::NoMailbox`].
    ///
    /// # Errors
    ///
    /// [`MemoryError::NoSession`] if no session of this name has an entry,
    /// [`MemoryError::SubAgent`] if the session belongs to a sub-agent,
    /// [`MemoryError::MailboxFull`] if too many inputs wait, and [`MemoryError::NoMailbox`] if the
    /// store has no mailboxes.
    async fn post(
        &self,
        session: &str,
        input: &PostedInput,
    ) -> Result<Option<InputReceipt>, MemoryError> {
        match self.inner() {
            Some(inner) => inner.post(session, input).await,
            None => Err(MemoryError::NoMailbox),
        }
    }

    /// Returns whether opening the session now would fail with [`MemoryError::InUse`], or `None` if
    /// the store does not know. The session is neither opened nor disturbed.
    ///
    /// The default returns `None`.
    async fn in_use(&self, session: &str) -> Result<Option<bool>, MemoryError> {
        match self.inner() {
            Some(inner) => inner.in_use(session).await,
            None => Ok(None),
        }
    }

    /// Checks that sessions can be stored now: the store is reachable and has room. It changes no
    /// session. A server calls this for its readiness check, at most once a second.
    ///
    /// The default returns `Ok`.
    ///
    /// # Errors
    ///
    /// [`MemoryError::Failed`] if an append would fail now.
    async fn check_writable(&self) -> Result<(), MemoryError> {
        match self.inner() {
            Some(inner) => inner.check_writable().await,
            None => Ok(()),
        }
    }

    /// Forks `session` into the new session `to`, and returns the number of entries that both
    /// share.
    ///
    /// They share the first `at` entries, or all entries, up to the last end of a turn. The new
    /// session has neither queued messages nor an open batch. The default copies the entries; a
    /// store may share them instead.
    ///
    /// # Errors
    ///
    /// [`MemoryError::Exists`] if `to` has an entry, and [`MemoryError::SubAgent`] if `session`
    /// belongs to a sub-agent.
    async fn fork(&self, session: &str, at: Option<u64>, to: &str) -> Result<u64, MemoryError> {
        if let Some(inner) = self.inner() {
            return inner.fork(session, at, to).await;
        }
        let entries = self.read(session, 0).await?;
        SessionInfo::of(session, &entries).require_root()?;
        let branch = SessionLog::branch(&entries, at);
        let new = self.open(to).await?;
        if !new.load(0).await?.is_empty() {
            return Err(MemoryError::Exists(to.into()));
        }
        let shared = branch.shared;
        new.append(0, branch.log(entries).into()).await?;
        Ok(shared)
    }

    /// Returns a page of the pending actions of the listed sessions, the oldest first. The default
    /// reads [`SessionStore::sessions`].
    async fn pending(&self, query: &PendingQuery) -> Result<PendingPage, MemoryError> {
        if let Some(inner) = self.inner() {
            return inner.pending(query).await;
        }
        let all = self.sessions().await?.into_iter();
        Ok(query.page(all.flat_map(|info| info.pending).collect()))
    }

    /// Returns a page of the decisions in the listed sessions, the latest first. A fork that shares
    /// entries with its parent does not repeat their decisions.
    ///
    /// A store should keep the decisions of deleted sessions for later audits, like
    /// [`InMemoryStore`](crate::log::InMemoryStore) and the stores of `loopwright-memory`. The
    /// default reads every log, or the log of the session in the query, so it returns no decisions
    /// of deleted sessions.
    async fn decisions(&self, query: &AuditQuery) -> Result<AuditPage, MemoryError> {
        if let Some(inner) = self.inner() {
            return inner.decisions(query).await;
        }
        let mut decisions = Vec::new();
        for info in self.sessions().await? {
            if query.session.as_ref().is_some_and(|session| *session != info.id) {
                continue;
            }
            let entries = match self.read(&info.id, 0).await {
                Err(MemoryError::NoSession(_)) => continue, // deleted by now
                entries => entries?,
            };
            decisions.extend(DecisionRecord::in_log(&info, &entries));
        }
        Ok(query.page(decisions))
    }

    /// Returns at most `limit` messages of the listed sessions that contain all words of the query,
    /// ignoring case. The latest session is first, and in each session the latest message. The
    /// default reads every session.
    async fn search(&self, query: &str, limit: usize) -> Result<Vec<SearchHit>, MemoryError> {
        if let Some(inner) = self.inner() {
            return inner.search(query, limit).await;
        }
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

    /// Returns the processes that share the store, or `None`, the default, if the store does not
    /// know them.
    fn workers(&self) -> Option<&dyn Workers> {
        self.inner()?.workers()
    }

    /// Returns the schedules of sessions, or `None`, the default, if the store has no schedules.
    fn schedules(&self) -> Option<&dyn Schedules> {
        self.inner()?.schedules()
    }
}

/// Maximum number of inputs that wait in a session's mailbox.
pub const MAX_UNREAD_INPUTS: u64 = 1_000;

/// Returns the sessions of the sub-agents of a session, and of their sub-agents, which are deleted
/// with it. Deleted sessions, and sessions that were never opened, are left out. Sub-agents of the
/// session's parent, from which it was forked, are not its own.
///
/// # Errors
///
/// Fails like [`SessionStore::read`] for `session`, and with [`MemoryError::SubAgent`] if `session`
/// belongs to a sub-agent whose root exists.
pub async fn sub_agents(
    store: &(impl SessionStore + ?Sized),
    session: &str,
) -> Result<Vec<Arc<str>>, MemoryError> {
    let entries = store.read(session, 0).await?;
    let info = SessionInfo::of(session, &entries);
    if let Err(MemoryError::SubAgent { session, root }) = info.require_root()
        && !matches!(store.read(&root, 0).await, Err(MemoryError::NoSession(_)))
    {
        return Err(MemoryError::SubAgent { session, root });
    }
    let mut found: Vec<Arc<str>> = Vec::new();
    let mut open = vec![(info.id, entries)];
    while let Some((parent, entries)) = open.pop() {
        for session in entries.iter().filter_map(LogEntry::sub_agent) {
            let entries = match store.read(session, 0).await {
                Err(MemoryError::NoSession(_)) => continue,
                read => read?,
            };
            let info = SessionInfo::of(session.clone(), &entries);
            if info.is_sub_agent_of(&parent) && !found.contains(session) {
                found.push(session.clone());
                open.push((session.clone(), entries));
            }
        }
    }
    Ok(found)
}

#[async_trait]
impl<S: SessionStore + ?Sized> SessionStore for Arc<S> {
    async fn open(&self, session: &str) -> Result<Arc<dyn Memory>, MemoryError> {
        (**self).open(session).await
    }

    async fn read(&self, session: &str, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        (**self).read(session, from).await
    }

    async fn sessions(&self) -> Result<Vec<SessionInfo>, MemoryError> {
        (**self).sessions().await
    }

    async fn delete(&self, session: &str) -> Result<(), MemoryError> {
        (**self).delete(session).await
    }

    async fn session(&self, session: &str) -> Result<SessionInfo, MemoryError> {
        (**self).session(session).await
    }

    async fn sessions_page(&self, query: &SessionQuery) -> Result<SessionPage, MemoryError> {
        (**self).sessions_page(query).await
    }

    async fn post(
        &self,
        session: &str,
        input: &PostedInput,
    ) -> Result<Option<InputReceipt>, MemoryError> {
        (**self).post(session, input).await
    }

    async fn in_use(&self, session: &str) -> Result<Option<bool>, MemoryError> {
        (**self).in_use(session).await
    }

    async fn check_writable(&self) -> Result<(), MemoryError> {
        (**self).check_writable().await
    }

    async fn fork(&self, session: &str, at: Option<u64>, to: &str) -> Result<u64, MemoryError> {
        (**self).fork(session, at, to).await
    }

    async fn pending(&self, query: &PendingQuery) -> Result<PendingPage, MemoryError> {
        (**self).pending(query).await
    }

    async fn decisions(&self, query: &AuditQuery) -> Result<AuditPage, MemoryError> {
        (**self).decisions(query).await
    }

    async fn search(&self, query: &str, limit: usize) -> Result<Vec<SearchHit>, MemoryError> {
        (**self).search(query, limit).await
    }

    fn workers(&self) -> Option<&dyn Workers> {
        (**self).workers()
    }

    fn schedules(&self) -> Option<&dyn Schedules> {
        (**self).schedules()
    }
}

/// A message that a search returned.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SearchHit {
    /// The id of the session with the message.
    pub session: Arc<str>,
    /// The message with the words of the query.
    pub message: Arc<Message>,
}

impl SearchHit {
    /// Builds a hit from a session and one of its messages.
    pub fn new(session: impl Into<Arc<str>>, message: Arc<Message>) -> Self {
        SearchHit { session: session.into(), message }
    }
}
