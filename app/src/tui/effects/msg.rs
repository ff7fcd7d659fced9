//! [`Msg`]: the messages that the effect task sends to the event loop.

use loopwright_core::EventStream;

use crate::tui::state::{Opened, Outcome};

/// A message from the effect task to the event loop.
pub(crate) enum Msg {
    /// A session is open, and this is its event stream.
    Opened(Box<Opened>, EventStream),
    /// The outcome of an effect.
    Outcome(Outcome),
}
