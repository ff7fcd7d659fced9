//! [`Timer`]: a time at which a session continues by itself.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::outcome::RunCause;
use crate::log::entry::LogEntry;

/// Maximum number of timers of a session, including those that have rung.
pub(crate) const MAX_TIMERS: usize = 1_000;

/// A timer of a session, which its pattern has set with [`StepContext::sleep_until`]. The session
/// starts a run when the time has come.
///
/// [`StepContext::sleep_until`]: crate::StepContext::sleep_until
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Timer {
    /// The pattern's key.
    pub key: Arc<str>,
    /// The time of the timer, in milliseconds since 1970.
    pub time: u64,
    /// `true` if the timer has rung. It is kept until the user's next request begins, so that the
    /// pattern finds it again after a restart.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rang: bool,
}

/// Updates the timers of a session for the next entry of its log. `has_pending` is true if an
/// action is pending before the entry.
pub(crate) fn apply(timers: &mut Vec<Timer>, entry: &LogEntry, has_pending: bool) {
    let ring = |timers: &mut Vec<Timer>, key: &Arc<str>| {
        let timer = timers.iter_mut().find(|timer| timer.key == *key);
        if let Some(timer) = timer {
            timer.rang = true;
        }
    };
    match entry {
        LogEntry::TimerSet { key, time } => {
            timers.retain(|timer| timer.key != *key);
            // A session sets no more, but a log can come from elsewhere.
            if timers.len() < MAX_TIMERS {
                timers.push(Timer { key: key.clone(), time: *time, rang: false });
            }
        }
        LogEntry::TimerRang { key } => ring(timers, key),
        LogEntry::TimerCancelled { key } => timers.retain(|timer| timer.key != *key),
        LogEntry::RunStarted { cause, .. } => match cause {
            RunCause::Timer(key) => ring(timers, key),
            RunCause::Abort => timers.retain(|timer| timer.rang),
            RunCause::UserRequest(_) => timers.retain(|timer| !timer.rang),
            // A steer in place of a decision belongs to the request that waits.
            RunCause::Steer if !has_pending => timers.retain(|timer| !timer.rang),
            _ => {}
        },
        LogEntry::Reset => timers.clear(),
        _ => {}
    }
}
