//! [`ShownRuns`]: the runs of a session that a response shows.

use std::sync::Arc;

use loopwright_core::event::{AgentEvent, Envelope, Input, InputEvent, RunCause, RunOutcome};
use loopwright_core::message::{CallId, InputId, RunId};

use crate::encode::Progress;

/// An occurrence that a response waits for. The response shows its run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Awaited {
    /// The run that a request starts.
    Request(InputId),
    /// The decision on a call, and the run that follows from it.
    Decision(CallId),
    /// A run that has started.
    Run(RunId),
}

/// A selection of the runs that a response shows, from all events of a session.
///
/// The response ends with the run of the last awaited occurrence.
#[derive(Debug, Default)]
pub struct ShownRuns {
    awaited: Vec<Awaited>,
    shows_all: bool,
    is_shown: bool,
    is_withdrawn: bool,
    outcome: Option<Arc<RunOutcome>>,
}

/// The visibility of an event in a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Visibility {
    No,
    Yes,
    /// The event ends the last run.
    Last,
    /// The awaited input was withdrawn, so its run will not happen.
    Withdrawn,
}

impl Visibility {
    /// Returns how the response continues.
    pub(crate) fn progress(self) -> Progress {
        match self {
            Visibility::Last | Visibility::Withdrawn => Progress::Finish,
            Visibility::No | Visibility::Yes => Progress::Continue,
        }
    }
}

impl ShownRuns {
    /// Selects only the runs in which these occur.
    pub fn of(awaited: Vec<Awaited>) -> Self {
        ShownRuns { awaited, ..Self::default() }
    }

    /// Selects all runs up to this one.
    pub fn up_to(run: RunId) -> Self {
        let awaited = vec![Awaited::Run(run)];
        ShownRuns { awaited, shows_all: true, is_shown: true, ..Self::default() }
    }

    /// Returns whether the last input was withdrawn before its run.
    pub(crate) fn is_withdrawn(&self) -> bool {
        self.is_withdrawn
    }

    /// Returns the outcome of the last run, once it has ended.
    pub(crate) fn outcome(&self) -> Option<&RunOutcome> {
        self.outcome.as_deref()
    }

    /// Returns the visibility of the next event.
    pub(crate) fn take(&mut self, envelope: &Envelope) -> Visibility {
        if is_of_sub_agent(envelope) {
            return if self.is_shown { Visibility::Yes } else { Visibility::No };
        }
        match &envelope.event {
            AgentEvent::AgentStart { cause, .. } => {
                let starts = |awaited: &Awaited| match (awaited, cause) {
                    (Awaited::Request(id), RunCause::UserRequest(started)) => id == started,
                    (Awaited::Run(run), _) => *run == envelope.run_id,
                    _ => false,
                };
                self.is_shown |= self.happens(starts);
                if let RunCause::ActionResult(call) = cause {
                    // The occurrence is complete when the decision arrives.
                    self.is_shown |= self.awaited.contains(&Awaited::Decision(call.clone()));
                }
            }
            AgentEvent::ExternalActionEnd { call, .. } => {
                self.is_shown |=
                    self.happens(|awaited| *awaited == Awaited::Decision(call.clone()));
            }
            AgentEvent::QueueUpdate { removed, .. } if !self.is_shown => {
                let is_removed = |awaited: &Awaited| match awaited {
                    Awaited::Request(id) => removed.contains(id),
                    _ => false,
                };
                if self.happens(is_removed) && self.awaited.is_empty() {
                    self.is_withdrawn = true;
                    return Visibility::Withdrawn;
                }
            }
            AgentEvent::AgentEnd(outcome) if self.is_shown && self.awaited.is_empty() => {
                self.outcome = Some(outcome.clone());
                return Visibility::Last;
            }
            AgentEvent::AgentEnd(_) => {
                let was_shown = std::mem::replace(&mut self.is_shown, self.shows_all);
                return if was_shown { Visibility::Yes } else { Visibility::No };
            }
            _ => {}
        }
        if self.is_shown { Visibility::Yes } else { Visibility::No }
    }

    /// Removes what has occurred. Returns `true` if anything was removed.
    fn happens(&mut self, has_happened: impl Fn(&Awaited) -> bool) -> bool {
        let before = self.awaited.len();
        self.awaited.retain(|awaited| !has_happened(awaited));
        self.awaited.len() < before
    }
}

/// Returns the input if a request has started the run.
pub(crate) fn request_of(cause: &RunCause) -> Option<InputId> {
    match cause {
        RunCause::UserRequest(id) => Some(id.clone()),
        _ => None,
    }
}

/// Returns what the response to these inputs waits for.
pub(crate) fn awaited(inputs: &[Input]) -> Vec<Awaited> {
    let (mut awaited, mut request) = (Vec::new(), None);
    for input in inputs {
        match &input.event {
            InputEvent::ExternalActionResult(result) => {
                awaited.push(Awaited::Decision(result.call.clone()));
            }
            InputEvent::UserRequest(_) => request = input.id.clone(),
            _ => {}
        }
    }
    awaited.extend(request.map(Awaited::Request));
    awaited
}

/// Returns whether an event comes from the session of a sub-agent.
pub(crate) fn is_of_sub_agent(envelope: &Envelope) -> bool {
    envelope.parent.as_ref().is_some_and(|parent| parent.root.is_some())
}
