//! [`Encode`]: converts a session's events to the events of a protocol.

use std::collections::VecDeque;

use loopwright_core::event::{Envelope, ExternalAction};

/// The continuation of a response after an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Progress {
    /// More events of the response follow.
    Continue,
    /// A part that the client has is void, so it needs the whole conversation: the host calls
    /// [`Encode::restate`]. More events follow.
    Restate,
    /// The last run of the response has ended: the host calls [`Encode::finish`].
    Finish,
}

/// An encoder of a session's events as a protocol's events, for one response.
///
/// It gets the session's events in their order, from any point before the runs that the response
/// shows. The work per event does not depend on the length of the conversation.
pub trait Encode {
    /// The type of the protocol's events.
    type Event: serde::Serialize;

    /// Appends the protocol's events for this event.
    fn encode(&mut self, envelope: &Envelope, to: &mut VecDeque<Self::Event>) -> Progress;

    /// Appends the whole conversation, from all numbered events of the session so far. Does nothing
    /// in a protocol that can withdraw a part.
    fn restate(&mut self, events: &[Envelope], to: &mut VecDeque<Self::Event>) {
        let _ = (events, to);
    }

    /// Appends the end of the response. `pending` are the session's pending actions.
    fn finish(&mut self, pending: &[ExternalAction], to: &mut VecDeque<Self::Event>);

    /// Appends the end of a response that is cut off before its run ends: an error of this kind,
    /// whose sentence `why` gives the reason.
    fn cut_off(&mut self, kind: &str, why: &str, to: &mut VecDeque<Self::Event>);
}
