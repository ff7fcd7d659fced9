//! [`CallsInProgress`]: the calls in progress, by session.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio_util::sync::{CancellationToken, DropGuard};

/// The calls in progress whose session is known.
///
/// A client that cancels a call gets no response (MCP, "Cancellation"), so it cannot know when the
/// run has ended. Its next call in the session therefore waits for the end of that run.
#[derive(Default)]
pub(super) struct CallsInProgress(Mutex<Vec<Call>>);

struct Call {
    session: String,
    cancelled: CancellationToken,
    ended: CancellationToken,
}

impl CallsInProgress {
    /// Adds a call in this session, until the guard is dropped. The client cancels `cancelled`.
    pub(super) fn add(&self, session: &str, cancelled: CancellationToken) -> DropGuard {
        let (session, ended) = (session.to_owned(), CancellationToken::new());
        let mut calls = self.calls();
        calls.retain(|call| !call.ended.is_cancelled());
        calls.push(Call { session, cancelled, ended: ended.clone() });
        ended.drop_guard()
    }

    /// Resolves when all calls of this session that are cancelled by now have ended.
    pub(super) fn cancelled(&self, session: &str) -> impl Future<Output = ()> + use<> {
        let calls = self.calls();
        let of_it = calls.iter().filter(|call| call.session == session);
        let ending = of_it.filter(|call| call.cancelled.is_cancelled());
        let ending: Vec<CancellationToken> = ending.map(|call| call.ended.clone()).collect();
        async move {
            for ended in ending {
                ended.cancelled().await;
            }
        }
    }

    fn calls(&self) -> MutexGuard<'_, Vec<Call>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn a_cancelled_call_is_waited_for() {
        let calls = CallsInProgress::default();
        let (first, second) = (CancellationToken::new(), CancellationToken::new());
        let is_free = |session| calls.cancelled(session).now_or_never().is_some();
        let guards = [calls.add("s", first.clone()), calls.add("s", second.clone())];
        assert!(is_free("s"), "calls share a session");
        first.cancel();
        assert!(!is_free("s") && is_free("t"));
        let [one, other] = guards;
        drop(other);
        assert!(!is_free("s"));
        drop(one);
        assert!(is_free("s"));
    }
}
