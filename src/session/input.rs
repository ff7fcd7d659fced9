//! Inputs on their way into a session: they arrive, are checked and queued, and decide pending
//! actions.

pub(crate) mod command;
pub(crate) mod command_queue;
pub(crate) mod deadlines;
pub(crate) mod decisions;
pub(crate) mod hold;
pub(crate) mod intake;
pub(crate) mod steers;
