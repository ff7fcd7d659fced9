//! Pages of the pending actions in a store.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::action::ExternalAction;
use crate::log::cursor::InvalidCursor;
use crate::message::CallId;

/// A pending action of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct PendingAction {
    /// The id of the session; for an action of a sub-agent, the root's.
    pub session: Arc<str>,
    /// Start of the wait, in milliseconds since 1970.
    pub since: u64,
    /// The action that waits for a decision.
    #[serde(flatten)]
    pub action: Arc<ExternalAction>,
}

/// A query for a page of [`SessionStore::pending`](crate::SessionStore::pending). By default, it
/// selects the first page of all actions.
///
/// ```
/// use loopwright_core::SessionStore;
/// use loopwright_core::log::{InMemoryStore, MemoryError, PendingQuery};
///
/// async fn calls(store: &dyn SessionStore) -> Result<Vec<String>, MemoryError> {
///     let query = PendingQuery::new(100).role("treasurer");
///     let (mut calls, mut next) = (Vec::new(), Some(query.clone()));
///     while let Some(page_query) = next {
///         let page = store.pending(&page_query).await?;
///         calls.extend(page.actions.into_iter().map(|pending| pending.action.call.to_string()));
///         next = page.next.map(|cursor| query.clone().after(cursor));
///     }
///     Ok(calls)
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() { assert!(calls(&InMemoryStore::new()).await.unwrap().is_empty()); }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PendingQuery {
    /// Maximum number of actions.
    pub limit: usize,
    /// Only actions after this position.
    pub after: Option<PendingCursor>,
    /// Only actions of this session.
    pub session: Option<Arc<str>>,
    /// Only calls of this tool.
    pub tool: Option<Arc<str>>,
    /// Only actions that have waited since before this time, in milliseconds since 1970.
    pub before: Option<u64>,
    /// Only actions that the holder of one of these roles may decide: actions that name one of
    /// them, or no role. Empty selects all.
    pub roles: Vec<Arc<str>>,
}

/// A page of pending actions, the oldest first. Actions of the same time are sorted by session,
/// then by call.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PendingPage {
    /// The actions of the page, the oldest first.
    pub actions: Vec<PendingAction>,
    /// The position of the last action if there are more.
    pub next: Option<PendingCursor>,
}

/// A position in a list of pending actions: the position of an action, resolved or not. Its text is
/// for [`PendingQuery::after`] only.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct PendingCursor {
    /// Start of the action's wait, in milliseconds since 1970.
    pub since: u64,
    /// The id of the action's session.
    pub session: Arc<str>,
    /// The id of the action's call.
    pub call: CallId,
}

impl PendingQuery {
    /// Selects the first `limit` actions.
    pub fn new(limit: usize) -> Self {
        PendingQuery {
            limit,
            after: None,
            session: None,
            tool: None,
            before: None,
            roles: Vec::new(),
        }
    }

    /// Selects all actions.
    pub fn all() -> Self {
        Self::new(usize::MAX)
    }

    /// Selects only actions after this position.
    pub fn after(mut self, cursor: PendingCursor) -> Self {
        self.after = Some(cursor);
        self
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

    /// Adds a role. The query selects only actions that a holder of one of its roles may decide.
    pub fn role(mut self, name: impl Into<Arc<str>>) -> Self {
        self.roles.push(name.into());
        self
    }

    /// Returns whether the query selects the action, on this page or another one.
    pub fn selects(&self, pending: &PendingAction) -> bool {
        let roles = &pending.action.terms.roles;
        self.session.as_ref().is_none_or(|session| *session == pending.session)
            && self.tool.as_ref().is_none_or(|tool| *tool == pending.action.name)
            && self.before.is_none_or(|before| pending.since < before)
            && (self.roles.is_empty()
                || roles.is_empty()
                || roles.iter().any(|role| self.roles.contains(role)))
    }

    /// Returns the page of these actions, in any order, for stores that have them all in memory.
    pub fn page(&self, mut actions: Vec<PendingAction>) -> PendingPage {
        actions.retain(|pending| {
            let is_after = |after: &PendingCursor| PendingCursor::of(pending) > *after;
            self.after.as_ref().is_none_or(is_after) && self.selects(pending)
        });
        actions.sort_by_cached_key(PendingCursor::of);
        let has_more = actions.len() > self.limit;
        actions.truncate(self.limit);
        let next = actions.last().filter(|_| has_more).map(PendingCursor::of);
        PendingPage { actions, next }
    }
}

impl PendingCursor {
    fn of(pending: &PendingAction) -> Self {
        let (session, call) = (pending.session.clone(), pending.action.call.clone());
        PendingCursor { since: pending.since, session, call }
    }
}

impl fmt::Display for PendingCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PendingCursor { since, session, call } = self;
        write!(f, "{since}:{}:{session}{call}", session.chars().count())
    }
}

impl FromStr for PendingCursor {
    type Err = InvalidCursor;

    fn from_str(text: &str) -> Result<Self, InvalidCursor> {
        let read = || {
            let (since, rest) = text.split_once(':')?;
            let (length, names) = rest.split_once(':')?;
            let (length, mut rest) = (length.parse().ok()?, names.chars());
            let session: String = rest.by_ref().take(length).collect();
            let (since, call) = (since.parse().ok()?, rest.as_str().into());
            let is_whole = session.chars().count() == length;
            is_whole.then(|| PendingCursor { since, session: session.into(), call })
        };
        read().ok_or(InvalidCursor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written() {
        let cursor = PendingCursor { since: 17, session: "a:ü".into(), call: "c:1~é".into() };
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        for text in ["", "17", "17:2", "17:2:ü", "17:1:ü", "17:9:ab", "x:1:ab"] {
            let read = text.parse::<PendingCursor>();
            assert_eq!(read.is_ok(), text == "17:1:ü", "{text}"); // a session without a call
        }
    }
}
