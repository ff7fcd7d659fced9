//! Errors of memories and stores.

use std::error::Error;
use std::sync::Arc;

use super::Failure;

/// The reason why an operation of a memory or a store failed. The stored data is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The log does not end where the writer expected: another owner has opened the session, or has
    /// written to it.
    #[error(
        "the session's log ends at entry {end}, not at {at}: another process has taken over the \
         session, open it again to continue"
    )]
    Conflict {
        /// The end that the writer expected.
        at: u64,
        /// The actual end.
        end: u64,
    },
    /// Another process has taken over the session.
    #[error("another process has taken over the session: open it again to continue")]
    Lost,
    /// Another process, or another handle of this one, has the session open.
    #[error("the session `{0}` is in use: wait until it is closed, or close it there")]
    InUse(Arc<str>),
    /// The store has no such session.
    #[error("there is no session `{0}`")]
    NoSession(Arc<str>),
    /// A session of that name already exists.
    #[error("there is a session `{0}` already: choose another name")]
    Exists(Arc<str>),
    /// Other sessions share the start of the session's log.
    #[error(
        "the session `{session}` cannot be deleted, because others share the start of its log: \
         delete {} first", .branches.join(", ")
    )]
    HasBranches {
        /// The session that was to be deleted.
        session: Arc<str>,
        /// The sessions that were forked from it.
        branches: Vec<String>,
    },
    /// The session belongs to a sub-agent. Only the session at its root opens it.
    #[error("the session `{session}` belongs to a sub-agent: open `{root}` instead")]
    SubAgent {
        /// The session of the sub-agent.
        session: Arc<str>,
        /// The session at the root, where the actions of the sub-agent are decided.
        root: Arc<str>,
    },
    /// The store has no mailboxes, so an input cannot be sent to a session that another process has
    /// open.
    #[error(
        "the store has no mailbox for inputs of other processes: send the input to the process \
         that has the session open, or use a store with mailboxes"
    )]
    NoMailbox,
    /// Too many inputs wait in the mailbox of the session.
    #[error(
        "{unread} inputs wait in the mailbox of the session `{session}`: open the session, so that \
         they are handled, or try again when its owner has handled some"
    )]
    MailboxFull {
        /// The session that owns the mailbox.
        session: Arc<str>,
        /// The number of inputs that wait.
        unread: u64,
    },
    /// The store has no schedules.
    #[error("the store has no schedules: use `Sqlite`, `Jsonl`, `Postgres` or `InMemoryStore`")]
    NoSchedules,
    /// The session, or the whole store, has as many schedules as it may have.
    #[error("{} has {max} schedules, the maximum: remove some first", .session.as_ref().map_or(
        "the store".to_owned(),
        |session| format!("the session `{session}`"),
    ))]
    TooManySchedules {
        /// The session, or `None` for the store.
        session: Option<Arc<str>>,
        /// Maximum number of schedules.
        max: usize,
    },
    /// The stored data is corrupt. The file was left untouched.
    #[error(transparent)]
    Damaged(Failure),
    /// The data was written by a newer version.
    #[error(
        "{source_name} was written by a newer version of loopwright (format {found}, this one \
         reads up to {known}): update loopwright to open it"
    )]
    Newer {
        /// The file, table or other origin of the data.
        source_name: String,
        /// The format of the data.
        found: u64,
        /// The newest format that this version can read.
        known: u64,
    },
    /// Reading or writing failed.
    #[error(transparent)]
    Failed(Failure),
}

impl MemoryError {
    /// Returns whether the session now belongs to another owner, so that this owner's state is out
    /// of date.
    pub fn is_lost(&self) -> bool {
        matches!(self, MemoryError::Lost | MemoryError::Conflict { .. })
    }

    /// Builds a [`Failed`](MemoryError::Failed) from another error, whose text becomes the message.
    /// For a message alone, write `MemoryError::Failed("the disk is full".into())`.
    pub fn failed(error: impl Error + Send + Sync + 'static) -> Self {
        MemoryError::Failed(Failure::of(error))
    }
}
