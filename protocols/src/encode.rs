//! [`Encode`]: a fold of a session's events to what a protocol sends.

use std::collections::VecDeque;

use loopwright_core::event::{Envelope, ExternalAction, RunOutcome, RunStatus};
use serde_json::Value;

/// Says how a response continues after an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Progress {
    /// More events belong to it.
    Continue,
    /// The client needs the whole conversation, since a part that it has is void: the host calls
    /// [`Encode::restate`]. More events follow.
    Restate,
    /// The last run of the response has ended: the host calls [`Encode::finish`].
    Finish,
}

/// Converts the events of a session to those of a protocol, for one response.
///
/// The events are those of the session in their order, from any point before the runs that the
/// response shows. The work for an event does not depend on the length of the conversation.
pub trait Encode {
    /// An event of the protocol.
    type Event: serde::Serialize;

    /// Appends what the protocol sends for this event.
    fn encode(&mut self, envelope: &Envelope, to: &mut VecDeque<Self::Event>) -> Progress;

    /// Appends the whole conversation, from all numbered events of the session so far. Does nothing
    /// in a protocol that can withdraw a part.
    fn restate(&mut self, events: &[Envelope], to: &mut VecDeque<Self::Event>) {
        let _ = (events, to);
    }

    /// Appends the end of the response. `pending` are the session's pending actions.
    fn finish(&mut self, pending: &[ExternalAction], to: &mut VecDeque<Self::Event>);

    /// Appends the end of a response that is cut off before its run ends: an error of this kind,
    /// with a sentence that says why.
    fn cut_off(&mut self, kind: &str, why: &str, to: &mut VecDeque<Self::Event>);
}

/// Returns the kind of the error of a run that has not ended well, and a sentence that says why.
pub(crate) fn failure(outcome: &RunOutcome) -> (String, String) {
    fn name(kind: &impl serde::Serialize) -> String {
        match serde_json::to_value(kind) {
            Ok(Value::String(name)) => name,
            _ => "internal".into(),
        }
    }
    if let Some(incomplete) = &outcome.incomplete {
        return (name(incomplete), sentence(&incomplete.to_string()));
    }
    let kind = match (outcome.end, outcome.model_error) {
        (RunStatus::Error, Some(kind)) => name(&kind),
        (RunStatus::Error, None) => "internal".into(),
        (end, _) => name(&end),
    };
    let message = match (&outcome.error, outcome.end) {
        (Some(error), _) => sentence(error),
        (None, RunStatus::Limit) => "A limit is reached; what was done so far remains.".into(),
        (None, RunStatus::Aborted) => "The run was aborted.".into(),
        (None, _) => "The run failed.".into(),
    };
    (kind, message)
}

/// Returns a text with a capital letter and a full stop.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    let mut text: String = first.chain(letters).collect();
    if !text.ends_with(['.', '!', '?']) {
        text.push('.');
    }
    text
}
