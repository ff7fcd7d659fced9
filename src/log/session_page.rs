//! Pages of a list of sessions.

use std::cmp::Reverse;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::log::cursor::InvalidCursor;
use crate::log::session_info::SessionInfo;
use crate::principal::Principal;

/// A query for a page of [`SessionStore::sessions_page`](crate::SessionStore::sessions_page). By
/// default, it selects the first page.
///
/// ```
/// use loopwright_core::SessionStore;
/// use loopwright_core::log::{InMemoryStore, MemoryError, SessionQuery};
///
/// async fn titles(store: &dyn SessionStore) -> Result<Vec<String>, MemoryError> {
///     let (mut titles, mut next) = (Vec::new(), Some(SessionQuery::new(100)));
///     while let Some(query) = next {
///         let page = store.sessions_page(&query).await?;
///         titles.extend(page.sessions.into_iter().map(|info| info.title));
///         next = page.next.map(|cursor| SessionQuery::new(100).after(cursor));
///     }
///     Ok(titles)
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() { assert!(titles(&InMemoryStore::new()).await.unwrap().is_empty()); }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionQuery {
    /// Maximum number of sessions.
    pub limit: usize,
    /// Only sessions after this position.
    pub after: Option<SessionCursor>,
    /// Only sessions that belong to this principal.
    pub owner: Option<Principal>,
    /// `true` for short descriptions ([`SessionInfo::brief`]).
    pub brief: bool,
}

/// A page of a list of sessions. The session that changed last is first; sessions that changed at
/// the same time are sorted by name.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SessionPage {
    /// The sessions of the page, in this order.
    pub sessions: Vec<SessionInfo>,
    /// The position of the last session if there are more.
    pub next: Option<SessionCursor>,
}

/// A position in a list of sessions: the position of a session at a certain time. If the session
/// changes later, it moves before this position. The text is `TIME:SESSION`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionCursor {
    changed: Reverse<u64>,
    session: Arc<str>,
}

impl SessionQuery {
    /// Selects the first `limit` sessions.
    pub fn new(limit: usize) -> Self {
        SessionQuery { limit, after: None, owner: None, brief: false }
    }

    /// Selects only sessions after this position.
    pub fn after(mut self, cursor: SessionCursor) -> Self {
        self.after = Some(cursor);
        self
    }

    /// Selects only sessions that belong to this principal.
    pub fn owner(mut self, owner: Principal) -> Self {
        self.owner = Some(owner);
        self
    }

    /// Asks for short descriptions ([`SessionInfo::brief`]), which a store can read faster.
    pub fn brief(mut self) -> Self {
        self.brief = true;
        self
    }

    /// Returns whether sessions of this owner are selected.
    pub fn has_owner(&self, owner: Option<&Principal>) -> bool {
        self.owner.is_none() || self.owner.as_ref() == owner
    }

    /// Returns the page of these sessions, in any order, for stores that have them all in memory.
    pub fn page(&self, mut sessions: Vec<SessionInfo>) -> SessionPage {
        let is_after = |info: &SessionInfo| {
            self.has_owner(info.owner.as_ref())
                && self.after.as_ref().is_none_or(|after| SessionCursor::of(info) > *after)
        };
        sessions.retain(is_after);
        sessions.sort_by(|a, b| (Reverse(a.changed), &a.id).cmp(&(Reverse(b.changed), &b.id)));
        let has_more = sessions.len() > self.limit;
        sessions.truncate(self.limit);
        let next = sessions.last().filter(|_| has_more).map(SessionCursor::of);
        if self.brief {
            sessions.iter_mut().for_each(|info| *info = info.brief());
        }
        SessionPage { sessions, next }
    }
}

impl SessionCursor {
    /// Builds the position of a session that changed at this time, in milliseconds since 1970.
    pub fn new(changed: u64, session: impl Into<Arc<str>>) -> Self {
        SessionCursor { changed: Reverse(changed), session: session.into() }
    }

    /// Returns the time in milliseconds since 1970, and the session.
    pub fn parts(&self) -> (u64, &Arc<str>) {
        (self.changed.0, &self.session)
    }

    fn of(info: &SessionInfo) -> Self {
        Self::new(info.changed, info.id.clone())
    }
}

impl fmt::Display for SessionCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.changed.0, self.session)
    }
}

impl FromStr for SessionCursor {
    type Err = InvalidCursor;

    fn from_str(text: &str) -> Result<Self, InvalidCursor> {
        let (changed, session) = text.split_once(':').ok_or(InvalidCursor)?;
        Ok(Self::new(changed.parse().map_err(|_| InvalidCursor)?, session))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written() {
        let cursor = SessionCursor::new(17, "a:b");
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        for text in ["", "17", "x:a", "-1:a"] {
            assert_eq!(text.parse::<SessionCursor>(), Err(InvalidCursor), "{text}");
        }
    }
}
