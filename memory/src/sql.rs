//! What the stores with SQL have in common.

use loopwright_core::log::{PendingAction, SessionInfo};

/// Returns whether a session is listed: it has entries, and is not that of a sub-agent.
pub(crate) fn is_listed(info: &SessionInfo) -> bool {
    info.entries > 0 && info.sub_agent_of.is_none()
}

/// Returns the actions of a session that are listed: none of a sub-agent, since its root has them.
pub(crate) fn listed_actions(info: &SessionInfo) -> &[PendingAction] {
    if info.sub_agent_of.is_some() { &[] } else { &info.pending }
}

/// Returns a number or a time as a column has it. One that it cannot have is the last one.
pub(crate) fn integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Returns the last time before another one, or the last of all times.
pub(crate) fn last_before(time: Option<u64>) -> i64 {
    match time {
        Some(0) => -1,
        Some(time) => integer(time - 1),
        None => i64::MAX,
    }
}
