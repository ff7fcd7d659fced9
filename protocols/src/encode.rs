//! [`Encode`]: a fold of a session's events to what a protocol sends.

use std::collections::VecDeque;

use loopwright_core::event::{Envelope, ExternalAction};

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
