//! What every wire format has in common: payloads in, model events out, no I/O.

use std::collections::VecDeque;

use loopwright::ModelEvent;

/// Reads the stream of one reply. A decoder is made for one request and used up by it.
pub trait Decode: Send {
    /// Reads the payload of one event and appends what it tells to `out`.
    fn decode(&mut self, data: &[u8], out: &mut VecDeque<ModelEvent>) -> Progress;

    /// The stream has ended: appends the event that ends the reply, unless it was there already.
    fn finish(&mut self, out: &mut VecDeque<ModelEvent>);
}

/// How far a reply has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// More is to come; a stream that ends now was cut.
    Open,
    /// Everything has been said; only extras such as usage may follow.
    Complete,
    /// The last event is out: `Done` or `Error`.
    Ended,
}
