//! Pages of the schedules in a store.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::log::cursor::InvalidCursor;
use crate::log::schedule::Schedule;
use crate::principal::Principal;

/// A query for a page of [`Schedules::page`](crate::log::Schedules::page).
///
/// ```
/// use loopwright_core::log::{InMemoryStore, MemoryError, ScheduleQuery};
/// use loopwright_core::SessionStore;
///
/// async fn ids(store: &dyn SessionStore) -> Result<Vec<String>, MemoryError> {
///     let schedules = store.schedules().ok_or(MemoryError::NoSchedules)?;
///     let (mut ids, mut next) = (Vec::new(), Some(ScheduleQuery::new(100)));
///     while let Some(query) = next {
///         let page = schedules.page(&query).await?;
///         ids.extend(page.schedules.iter().map(|schedule| schedule.id.to_string()));
///         next = page.next.map(|cursor| ScheduleQuery::new(100).after(cursor));
///     }
///     Ok(ids)
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() { assert!(ids(&InMemoryStore::new()).await.unwrap().is_empty()); }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScheduleQuery {
    /// Maximum number of schedules.
    pub limit: usize,
    /// Only schedules after this position.
    pub after: Option<ScheduleCursor>,
    /// Only schedules of sessions that belong to this principal.
    pub owner: Option<Principal>,
}

/// A page of schedules, the next one first. Schedules for the same time are sorted by session, then
/// by id.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SchedulePage {
    /// The schedules of the page, in this order.
    pub schedules: Vec<Schedule>,
    /// The position of the last schedule if there are more.
    pub next: Option<ScheduleCursor>,
}

/// A position in a list of schedules. Its text is for [`ScheduleQuery::after`] only.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct ScheduleCursor {
    /// The time of the schedule, in milliseconds since 1970.
    pub time: u64,
    /// The id of its session.
    pub session: Arc<str>,
    /// Its id within the session.
    pub id: Arc<str>,
}

impl ScheduleQuery {
    /// Selects the first `limit` schedules.
    pub fn new(limit: usize) -> Self {
        ScheduleQuery { limit, after: None, owner: None }
    }

    /// Selects only schedules after this position.
    pub fn after(mut self, cursor: ScheduleCursor) -> Self {
        self.after = Some(cursor);
        self
    }

    /// Selects only schedules of sessions that belong to this principal.
    pub fn owner(mut self, owner: Principal) -> Self {
        self.owner = Some(owner);
        self
    }

    /// Returns the page of these schedules, in any order, which are the owner's: for stores that
    /// have them all in memory.
    pub fn page(&self, mut schedules: Vec<Schedule>) -> SchedulePage {
        let is_after = |schedule: &Schedule| {
            self.after.as_ref().is_none_or(|after| ScheduleCursor::of(schedule) > *after)
        };
        schedules.retain(is_after);
        schedules.sort_by_cached_key(ScheduleCursor::of);
        let has_more = schedules.len() > self.limit;
        schedules.truncate(self.limit);
        let next = schedules.last().filter(|_| has_more).map(ScheduleCursor::of);
        SchedulePage { schedules, next }
    }
}

impl ScheduleCursor {
    fn of(schedule: &Schedule) -> Self {
        let (session, id) = (schedule.session.clone(), schedule.id.clone());
        ScheduleCursor { time: schedule.due_at(), session, id }
    }
}

impl fmt::Display for ScheduleCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ScheduleCursor { time, session, id } = self;
        write!(f, "{time}:{}:{session}{id}", session.len())
    }
}

impl FromStr for ScheduleCursor {
    type Err = InvalidCursor;

    fn from_str(text: &str) -> Result<Self, InvalidCursor> {
        let read = || {
            let (time, rest) = text.split_once(':')?;
            let (length, names) = rest.split_once(':')?;
            // Any text of this form is a position, so that a schema can describe it.
            let (session, id) = names.split_at(names.floor_char_boundary(length.parse().ok()?));
            let time = time.parse().ok()?;
            Some(ScheduleCursor { time, session: session.into(), id: id.into() })
        };
        read().ok_or(InvalidCursor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written() {
        let cursor = ScheduleCursor { time: 17, session: "a:ü".into(), id: "c:1~é".into() };
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        for text in ["", "17", "17:2", "x:1:ab", "1:x:ab"] {
            assert_eq!(text.parse::<ScheduleCursor>(), Err(InvalidCursor), "{text}");
        }
    }
}
