//! Pages of the decisions in a store's sessions.

use std::cmp::Reverse;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::event::input::Decision;
use crate::log::cursor::InvalidCursor;
use crate::log::entry::LogEntry;
use crate::log::session_info::SessionInfo;
use crate::message::CallId;
use crate::tool::DecisionKind;

/// A decision: who decided, on what, when, and from where. It leaves out a provided result or
/// answer, which can be secret.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct DecisionRecord {
    /// The id of the session.
    pub session: Arc<str>,
    /// The position of the decision in the log of the session, counted from zero.
    pub position: u64,
    /// Time when the decision was received, in milliseconds since 1970; zero if an older version
    /// recorded no time.
    pub time: u64,
    /// The principal who decided, if known; `system` for the default decision at the deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Arc<str>>,
    /// The front end that sent the decision, such as `http` or `terminal`, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Arc<str>>,
    /// The call that the decision is about.
    pub call: CallId,
    /// The tool's name; `None` in records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<Arc<str>>,
    /// The digest of the action as shown; `None` in records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Arc<str>>,
    /// The kind of the decision.
    pub decision: DecisionKind,
    /// The reason of a denial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Arc<str>>,
    /// The arguments that replaced the model's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Arc<Value>>,
    /// `true` if the decision resolved the action. An approval does not while more approvals are
    /// required.
    pub resolved: bool,
}

impl DecisionRecord {
    /// Returns the record of the entry at this position of a session's log, or `None` if it is not
    /// a decision.
    pub fn of(session: &Arc<str>, position: u64, entry: &LogEntry) -> Option<Self> {
        let mut record = match entry {
            LogEntry::Approved { call, name, digest, by, source, time, .. } => DecisionRecord {
                session: session.clone(),
                position,
                time: *time,
                by: Some(by.clone()),
                source: source.clone(),
                call: call.clone(),
                tool: Some(name.clone()),
                digest: Some(digest.clone()),
                decision: DecisionKind::Approve,
                reason: None,
                arguments: None,
                resolved: false,
            },
            LogEntry::Decided { call, name, digest, decision, by, source, time, .. } => {
                DecisionRecord {
                    session: session.clone(),
                    position,
                    time: *time,
                    by: by.clone(),
                    source: source.clone(),
                    call: call.clone(),
                    tool: name.clone(),
                    digest: digest.clone(),
                    decision: decision.kind(),
                    reason: None,
                    arguments: None,
                    resolved: true,
                }
            }
            _ => return None,
        };
        if let LogEntry::Decided { decision, .. } = entry {
            match &**decision {
                Decision::Deny(why) => record.reason = Some(why.as_str().into()),
                Decision::ApproveWith(edited) => record.arguments = Some(edited.clone().into()),
                Decision::Approve | Decision::Provide(_) => {}
            }
        }
        Some(record)
    }

    /// Returns the records of the session's own decisions in its log. Decisions that a fork shares
    /// with its parent are the parent's, and decisions in a sub-agent's session are its root's.
    pub fn in_log(info: &SessionInfo, entries: &[LogEntry]) -> Vec<Self> {
        if info.sub_agent_of.is_some() {
            return Vec::new();
        }
        let first = info.parent.as_ref().map_or(0, |(_, shared)| *shared);
        let own = (0..).zip(entries).skip(first.try_into().unwrap_or(usize::MAX));
        own.filter_map(|(at, entry)| DecisionRecord::of(&info.id, at, entry)).collect()
    }

    /// Returns the key that distinguishes the decision from all others.
    fn key(&self) -> (u64, Arc<str>, u64) {
        (self.time, self.session.clone(), self.position)
    }
}

/// A query for a page of [`SessionStore::decisions`](crate::SessionStore::decisions). By default,
/// it selects the first page of all decisions.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditQuery {
    /// Maximum number of decisions.
    pub limit: usize,
    /// Only decisions after this position, which are older.
    pub after: Option<DecisionCursor>,
    /// Only decisions in this session.
    pub session: Option<Arc<str>>,
    /// Only decisions of this principal.
    pub by: Option<Arc<str>>,
    /// Only decisions at this time or later, in milliseconds since 1970.
    pub since: Option<u64>,
    /// Only decisions before this time, in milliseconds since 1970.
    pub until: Option<u64>,
}

/// A page of decisions, the latest first.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct AuditPage {
    /// The decisions of the page, the latest first.
    pub decisions: Vec<DecisionRecord>,
    /// The position of the last decision if there are more.
    pub next: Option<DecisionCursor>,
}

/// A position in a list of decisions. Later decisions are before it. Its text is for
/// [`AuditQuery::after`] only.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DecisionCursor(Reverse<(u64, Arc<str>, u64)>);

impl AuditQuery {
    /// Selects the latest `limit` decisions.
    pub fn new(limit: usize) -> Self {
        AuditQuery { limit, after: None, session: None, by: None, since: None, until: None }
    }

    /// Selects only decisions after this position.
    pub fn after(mut self, cursor: DecisionCursor) -> Self {
        self.after = Some(cursor);
        self
    }

    /// Selects only decisions in this session.
    pub fn session(mut self, session: impl Into<Arc<str>>) -> Self {
        self.session = Some(session.into());
        self
    }

    /// Selects only decisions of this principal.
    pub fn by(mut self, principal: impl Into<Arc<str>>) -> Self {
        self.by = Some(principal.into());
        self
    }

    /// Selects only decisions at this time or later, in milliseconds since 1970.
    pub fn since(mut self, time: u64) -> Self {
        self.since = Some(time);
        self
    }

    /// Selects only decisions before this time, in milliseconds since 1970.
    pub fn until(mut self, time: u64) -> Self {
        self.until = Some(time);
        self
    }

    /// Returns whether the query selects the decision, on this page or another one.
    pub fn selects(&self, record: &DecisionRecord) -> bool {
        self.session.as_ref().is_none_or(|session| *session == record.session)
            && self.by.as_ref().is_none_or(|by| Some(by) == record.by.as_ref())
            && self.since.is_none_or(|since| record.time >= since)
            && self.until.is_none_or(|until| record.time < until)
    }

    /// Returns the page of these decisions, in any order, for stores that have them all in memory.
    /// Duplicates are returned once.
    pub fn page(&self, mut decisions: Vec<DecisionRecord>) -> AuditPage {
        decisions.retain(|record| {
            let is_after = |after: &DecisionCursor| DecisionCursor::of(record) > *after;
            self.after.as_ref().is_none_or(is_after) && self.selects(record)
        });
        decisions.sort_by_cached_key(DecisionCursor::of);
        decisions.dedup_by_key(|record| record.key());
        let has_more = decisions.len() > self.limit;
        decisions.truncate(self.limit);
        let next = decisions.last().filter(|_| has_more).map(DecisionCursor::of);
        AuditPage { decisions, next }
    }
}

impl DecisionCursor {
    fn of(record: &DecisionRecord) -> Self {
        DecisionCursor(Reverse(record.key()))
    }

    /// Returns the time and the session of the decision, and its position in the log.
    pub fn parts(&self) -> (u64, &Arc<str>, u64) {
        let Reverse((time, session, position)) = &self.0;
        (*time, session, *position)
    }
}

impl fmt::Display for DecisionCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (time, session, position) = self.parts();
        write!(f, "{time}:{position}:{session}")
    }
}

impl FromStr for DecisionCursor {
    type Err = InvalidCursor;

    fn from_str(text: &str) -> Result<Self, InvalidCursor> {
        let read = || {
            let (time, rest) = text.split_once(':')?;
            let (position, session) = rest.split_once(':')?;
            let (time, position) = (time.parse().ok()?, position.parse().ok()?);
            Some(DecisionCursor(Reverse((time, session.into(), position))))
        };
        read().ok_or(InvalidCursor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written() {
        let cursor = DecisionCursor(Reverse((17, "a:ü".into(), 3)));
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        for text in ["", "17", "17:2", "x:1:a", "1:x:a"] {
            assert_eq!(text.parse::<DecisionCursor>(), Err(InvalidCursor), "{text}");
        }
    }
}
