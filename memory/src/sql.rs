//! Functions shared by the stores with SQL.

use loopwright_core::log::{PendingAction, SessionInfo};

/// Returns whether a session is listed: it has entries, and does not belong to a sub-agent.
pub(crate) fn is_listed(info: &SessionInfo) -> bool {
    info.entries > 0 && info.sub_agent_of.is_none()
}

/// Returns the listed actions of a session. A sub-agent has none, since its root lists them.
pub(crate) fn listed_actions(info: &SessionInfo) -> &[PendingAction] {
    if info.sub_agent_of.is_some() { &[] } else { &info.pending }
}

/// Returns a number or a time for a column. Values above the maximum of a column become that
/// maximum.
pub(crate) fn integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Returns the last time before `time`, or the maximum for `None`.
pub(crate) fn last_before(time: Option<u64>) -> i64 {
    match time {
        Some(0) => -1,
        Some(time) => integer(time - 1),
        None => i64::MAX,
    }
}
