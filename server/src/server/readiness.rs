//! [`Readiness`]: a check that sessions can be stored, run at most once a second.

use std::time::Duration;

use loopwright_core::SessionStore;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// The time for which the result of a check is valid. Anyone may ask, and a check writes to the
/// disk.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The result of the last check.
#[derive(Default)]
pub(crate) struct Readiness {
    last: Mutex<Option<(Instant, bool)>>,
}

impl Readiness {
    /// Returns whether the store can be written to. A failure is logged, since the response does
    /// not contain it.
    pub(crate) async fn is_writable(&self, store: &dyn SessionStore) -> bool {
        let mut last = self.last.lock().await;
        if let Some((checked, is_writable)) = *last
            && checked.elapsed() < CHECK_INTERVAL
        {
            return is_writable;
        }
        let checked = store.check_writable().await;
        if let Err(error) = &checked {
            tracing::error!(%error, "sessions cannot be stored");
        }
        *last = Some((Instant::now(), checked.is_ok()));
        checked.is_ok()
    }
}
