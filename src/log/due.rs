//! [`Due`]: a session's next work when it is opened, as a part of its description.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::action::call_of_child;
use crate::event::input::{QueueKind, Urgency};
use crate::event::outcome::RunCause;
use crate::log::entry::LogEntry;
use crate::message::{CallId, InputId};

/// The next work of a session when it is opened; see
/// [`SessionInfo::due`](crate::log::SessionInfo::due).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Due {
    /// The session waits: a run was interrupted, or is in progress in the process that has the
    /// session open. `Continue` or a decision resumes the run, and another request ends it. Opening
    /// the session completes an interrupted abort.
    Interrupted,
    /// A run starts, which carries out a decision.
    Decision,
    /// A run starts for the first queued request.
    Request,
    /// A run starts for a steer, which denies the calls that wait for a decision.
    Steer,
    /// The session takes the default decision on an action whose deadline has passed, unless a
    /// decision was sent in time. Only [`SessionInfo::due_at`](crate::log::SessionInfo::due_at)
    /// returns it.
    Deadline,
    /// A run starts, because a wait of the pattern is over: a timer rings, or a signal has arrived.
    /// Only [`SessionInfo::due_at`](crate::log::SessionInfo::due_at) returns it.
    Wait,
    /// The session takes the inputs that wait in its mailbox. A run may be interrupted besides.
    Inbox,
}

/// The state on which the next run depends: queued and decided work while no run is in progress.
/// Pending actions and the run in progress are part of the description itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Agenda {
    /// Requests, and steers that can replace a decision, in order of arrival.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    queued: VecDeque<Queued>,
    /// The request of the current run, until the conversation has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    undelivered: Option<Queued>,
    /// The calls whose decisions have not been carried out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    decided: Vec<CallId>,
    /// Position in the log of the last action that became pending; zero if none waits.
    #[serde(default, alias = "asked_at")]
    awaiting_since: u64,
}

/// A queued message that can start a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Queued {
    input: InputId,
    due: Due,
    /// Length of the log after the message was queued.
    at: u64,
}

impl Agenda {
    /// Returns whether a message that can start a run is queued.
    pub(crate) fn has_queued(&self) -> bool {
        !self.queued.is_empty()
    }

    /// Returns whether the message of this input is queued.
    pub(crate) fn has(&self, input: &InputId) -> bool {
        self.queued.iter().any(|queued| queued.input == *input)
    }

    /// Returns whether nothing is queued, decided or pending.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the work that starts the next run, and the message that starts it, if one does.
    pub(crate) fn next(&self, has_pending: bool) -> Option<(Due, Option<&InputId>)> {
        if self.has_decision() {
            return Some((Due::Decision, None));
        }
        let can_start = |queued: &&Queued| match has_pending {
            true => queued.at > self.awaiting_since,
            false => queued.due == Due::Request,
        };
        self.queued.iter().find(can_start).map(|queued| (queued.due, Some(&queued.input)))
    }

    /// Returns whether a decision has not been carried out.
    pub(crate) fn has_decision(&self) -> bool {
        !self.decided.is_empty()
    }

    /// Updates the agenda for an entry at this position, counted from one. `has_pending` is true if
    /// an action is pending after the entry, and `asks` if the entry made one pending.
    pub(crate) fn apply(&mut self, entry: &LogEntry, at: u64, has_pending: bool, asks: bool) {
        if asks {
            self.awaiting_since = at;
        }
        match entry {
            LogEntry::Queued { input, kind, urgency, .. } => {
                let is_open = has_pending || self.has_decision();
                let due = match kind {
                    QueueKind::Request => Due::Request,
                    QueueKind::Steering if is_open && *urgency >= Urgency::SkipPending => {
                        Due::Steer
                    }
                    _ => return,
                };
                self.queued.push_back(Queued { input: input.clone(), due, at });
            }
            LogEntry::RunStarted { cause, .. } => {
                self.undelivered = match cause {
                    RunCause::UserRequest(input) | RunCause::Continue(Some(input)) => {
                        let is_it =
                            |queued: &Queued| queued.due == Due::Request && queued.input == *input;
                        let at = self.queued.iter().position(is_it);
                        at.and_then(|at| self.queued.remove(at))
                    }
                    _ => None,
                }
            }
            LogEntry::Delivered { input } => {
                let own = self.undelivered.take_if(|request| request.input == *input);
                drop(own.or_else(|| self.take(input)));
            }
            LogEntry::Withdrawn { inputs } => {
                self.undelivered.take_if(|request| inputs.contains(&request.input));
                self.remove(inputs);
            }
            LogEntry::RunEnded { handed_back, .. } => {
                self.undelivered.take_if(|request| handed_back.contains(&request.input));
                self.remove(handed_back);
                if let Some(request) = self.undelivered.take() {
                    self.queued.push_front(request);
                }
            }
            LogEntry::CallAwaiting { call, .. } => {
                self.decided.retain(|decided| decided != call);
            }
            LogEntry::ChildAwaits { call, idle: true, .. } | LogEntry::ChildEnded { call, .. } => {
                self.decided.retain(|decided| call_of_child(decided, call).is_none());
            }
            LogEntry::Decided { call, .. } => self.decided.push(call.clone()),
            LogEntry::CallStarted { call, .. } => self.decided.retain(|decided| decided != call),
            LogEntry::CallFinished { result } => {
                let Some(result) = result.as_tool_result() else { return };
                let is_other = |decided: &CallId| {
                    *decided != result.call && call_of_child(decided, &result.call).is_none()
                };
                self.decided.retain(is_other);
            }
            LogEntry::Reset => *self = Self::default(),
            _ => {}
        }
        if self.awaiting_since > 0 && !has_pending && !self.has_decision() {
            self.awaiting_since = 0;
            self.queued.retain(|queued| queued.due == Due::Request);
        }
    }

    fn take(&mut self, input: &InputId) -> Option<Queued> {
        let at = self.queued.iter().position(|queued| queued.input == *input)?;
        self.queued.remove(at)
    }

    fn remove(&mut self, inputs: &[InputId]) {
        self.queued.retain(|queued| !inputs.contains(&queued.input));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Lists of earlier versions have the position under another name.
    #[test]
    fn an_earlier_name_of_the_position_is_read() {
        let agenda = Agenda::deserialize(json!({ "asked_at": 3 })).unwrap();
        assert_eq!(agenda.awaiting_since, 3);
    }
}
