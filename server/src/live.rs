//! The sessions that are open in this process.

/// The sessions that are open.
#[derive(Default)]
pub(crate) struct Live;
