//! [`Shared`]: the state that the models and tools of all agents of a cassette share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::player::Player;
use super::recorder::Recorder;

/// Time for which a reply or call that was cut off during recording waits to be cut off again.
pub(super) const CUT_OFF_TIMEOUT: Duration = Duration::from_secs(60);

/// A cassette that is recording or replaying.
pub(super) enum Tape {
    Record(Recorder),
    Replay(Player),
}

/// A tape that models and tools share. It is locked only briefly, never across an await.
#[derive(Clone)]
pub(super) struct Shared(Arc<Mutex<Tape>>);

impl Shared {
    pub(super) fn new(tape: Tape) -> Self {
        Shared(Arc::new(Mutex::new(tape)))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Tape> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
