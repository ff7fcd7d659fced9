//! [`Msg`]: the messages that the effect task sends to the event loop.

use loopwright_core::session::EventReader;

use crate::tui::state::{Opened, Outcome};

/// A message from the effect task to the event loop.
pub(crate) enum Msg {
    /// A session is open, and these are its events.
    Opened(Box<Opened>, EventReader),
    /// The outcome of an effect.
    Outcome(Outcome),
}
