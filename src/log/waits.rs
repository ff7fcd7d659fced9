//! [`Wait`]: a time or a signal with which a session continues by itself.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::event::outcome::RunCause;
use crate::log::entry::LogEntry;

/// Maximum number of waits of a session, including those that have ended.
pub(crate) const MAX_WAITS: usize = 1_000;
/// Maximum number of signals of a session that no wait has taken.
pub(crate) const MAX_SIGNALS: usize = 100;

/// Maximum bytes of the key of a wait and a signal.
pub(crate) const MAX_KEY_BYTES: usize = 256;

/// Returns whether a wait and a signal can have this key.
pub(crate) fn is_key(key: &str) -> bool {
    (1..=MAX_KEY_BYTES).contains(&key.len())
}

/// A wait of a session's pattern for a time ([`StepContext::sleep_until`]), a signal, or both
/// ([`StepContext::wait_for_event`]). The session starts a run when it is over.
///
/// [`StepContext::sleep_until`]: crate::StepContext::sleep_until
/// [`StepContext::wait_for_event`]: crate::StepContext::wait_for_event
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Wait {
    /// The pattern's key.
    pub key: Arc<str>,
    /// The time at which the wait is over, in milliseconds since 1970; `None` if only a signal
    /// ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
    /// `true` if a signal under the key ends the wait.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub for_signal: bool,
    /// The signal that has arrived. The wait is over then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<Signal>,
    /// `true` if the pattern has continued. Such a wait is kept until the user's next request
    /// begins, so that the pattern finds it again after a restart.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ended: bool,
}

/// A signal for a session's pattern; see [`AgentHandle::signal`](crate::AgentHandle::signal).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Signal {
    /// The key of the wait that takes it.
    pub key: Arc<str>,
    /// The sender's value.
    pub value: Arc<Value>,
    /// The time of its arrival, in milliseconds since 1970.
    pub time: u64,
    /// `true` if it arrived after the wait under its key had ended. It is dropped when the user's
    /// next request begins.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub late: bool,
}

impl Wait {
    /// Returns the time at which the wait is over, if it is known.
    pub fn over_at(&self) -> Option<u64> {
        self.signal.as_ref().map(|signal| signal.time).or(self.until)
    }

    /// Returns whether the wait takes a signal under this key.
    pub(crate) fn takes(&self, key: &str) -> bool {
        self.for_signal && self.signal.is_none() && !self.ended && *self.key == *key
    }

    /// Returns whether the wait is over: its time has come, or its signal has arrived, whatever the
    /// clock says.
    pub(crate) fn is_over(&self, now: u64) -> bool {
        self.signal.is_some() || self.until.is_some_and(|until| until <= now)
    }

    /// Returns the cause of a run that the wait starts.
    pub(crate) fn cause(&self) -> RunCause {
        match self.signal {
            Some(_) => RunCause::Signal(self.key.clone()),
            None => RunCause::Timer(self.key.clone()),
        }
    }
}

impl Signal {
    /// Returns the signal without its value.
    pub(crate) fn brief(&self) -> Signal {
        Signal { value: Arc::default(), ..self.clone() }
    }
}

/// Updates the waits of a session, and the signals that no wait has taken, for the next entry of
/// its log. Before the entry, an action is pending if `has_pending`, and a message that can start a
/// run is queued if `has_queued`.
pub(crate) fn apply(
    waits: &mut Vec<Wait>,
    signals: &mut Vec<Signal>,
    entry: &LogEntry,
    has_pending: bool,
    has_queued: bool,
) {
    let free = |waits: &mut Vec<Wait>, signals: &mut Vec<Signal>| {
        waits.retain(|wait| !wait.ended);
        signals.retain(|signal| !signal.late);
    };
    match entry {
        LogEntry::WaitStarted { key, until, for_signal } => {
            waits.retain(|wait| wait.key != *key);
            let kept = signals.iter().position(|signal| signal.key == *key && *for_signal);
            let signal = kept.map(|at| signals.remove(at));
            // A session has no more, but a log can come from elsewhere.
            if waits.len() < MAX_WAITS {
                let (until, for_signal) = (*until, *for_signal);
                waits.push(Wait { key: key.clone(), until, for_signal, signal, ended: false });
            }
        }
        LogEntry::Signalled { key, value, time, .. } => {
            let has_ended = waits.iter().any(|wait| wait.key == *key && wait.ended);
            let late = has_ended && !has_queued; // otherwise it may be for the next request
            let signal = Signal { key: key.clone(), value: value.clone(), time: *time, late };
            match waits.iter_mut().find(|wait| wait.takes(key)) {
                Some(wait) => wait.signal = Some(signal),
                None if signals.len() < MAX_SIGNALS => signals.push(signal),
                None => {}
            }
        }
        LogEntry::WaitEnded { key } => end(waits, key),
        LogEntry::WaitCancelled { key, drops_signals } => {
            if *drops_signals {
                waits.retain(|wait| wait.key != *key || wait.ended);
                signals.retain(|signal| signal.key != *key);
            } else if let Some(at) = waits.iter().position(|wait| wait.key == *key) {
                let Wait { signal, ended, .. } = waits.remove(at);
                let unseen = signal.filter(|_| !ended);
                signals.splice(..0, unseen); // it came before the others under the key
            }
        }
        LogEntry::RunStarted { cause, .. } => match cause {
            RunCause::Timer(key) | RunCause::Signal(key) => end(waits, key),
            RunCause::Abort => {
                waits.retain(|wait| wait.ended);
                signals.clear();
            }
            RunCause::UserRequest(_) => free(waits, signals),
            // A steer in place of a decision belongs to the request that waits.
            RunCause::Steer if !has_pending => free(waits, signals),
            _ => {}
        },
        LogEntry::Reset => {
            waits.clear();
            signals.clear();
        }
        _ => {}
    }
}

fn end(waits: &mut [Wait], key: &str) {
    if let Some(wait) = waits.iter_mut().find(|wait| *wait.key == *key) {
        wait.ended = true;
    }
}
