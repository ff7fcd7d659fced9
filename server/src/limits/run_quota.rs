//! [`RunQuota`]: a limit on the clients' concurrent runs, and the permit that a run holds until its
//! session is idle.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use loopwright_core::AgentHandle;
use tokio::runtime::Handle;

use super::quota::{Client, Permit, Quota};
use crate::error::{ApiError, ErrorKind};

/// The time that a client with too many runs waits for one of them to end.
const RELEASE_WAIT: Duration = Duration::from_millis(50);

/// A counter of the runs in progress. Clones share the counts.
#[derive(Clone)]
pub(crate) struct RunQuota(Quota);

/// The permit of a run in a session. After it is dropped, the permit is released as soon as the
/// session is idle.
pub(crate) struct RunPermit(Option<Arc<Run>>);

/// A run that holds a permit.
pub(crate) struct Run {
    handle: AgentHandle,
    waiting: Mutex<Waiting>,
    _permit: Permit,
}

/// The state of the task that waits for the session to be idle. There is one task per run, however
/// many inputs arrive.
#[derive(Default)]
enum Waiting {
    #[default]
    No,
    Yes,
    /// More input has arrived since, so the task has to wait once more.
    Restart,
}

impl RunQuota {
    pub(crate) fn new(max_per_client: usize, max_total: usize) -> Self {
        RunQuota(Quota::new(max_per_client, max_total))
    }

    /// Takes a permit for a run of this client. Waits briefly for one to be released.
    pub(crate) async fn acquire(&self, client: Client) -> Result<Permit, ApiError> {
        let released = self.0.released();
        if let Some(permit) = self.0.try_acquire(client) {
            return Ok(permit);
        }
        let _ = tokio::time::timeout(RELEASE_WAIT, released).await; // the next line decides
        self.0.try_acquire(client).ok_or_else(|| {
            ApiError::new(
                ErrorKind::TooMany,
                "Too many runs are in progress: wait until one has ended, abort one, or close its \
                 connection.",
            )
        })
    }

    /// Takes a permit for a run that has started automatically when its session was opened.
    pub(crate) fn acquire_unchecked(&self) -> Permit {
        self.0.acquire_unchecked()
    }

    /// Resolves when no run is in progress.
    pub(crate) async fn unused(&self) {
        self.0.unused().await
    }
}

impl RunPermit {
    pub(crate) fn new(handle: AgentHandle, permit: Permit) -> Self {
        RunPermit(Some(Arc::new(Run { handle, waiting: Mutex::default(), _permit: permit })))
    }

    /// Returns a permit of the same run, or `None` if the run has released its permit.
    pub(crate) fn upgrade(run: &Weak<Run>) -> Option<Self> {
        run.upgrade().map(|run| RunPermit(Some(run)))
    }

    /// Returns a reference to the run that does not keep its permit.
    pub(crate) fn downgrade(&self) -> Weak<Run> {
        self.0.as_ref().map(Arc::downgrade).unwrap_or_default()
    }

    /// Releases the permit at once, because the run has ended.
    pub(crate) fn release(mut self) {
        self.0 = None;
    }

    /// Aborts the run.
    pub(crate) fn abort(self) {
        if let (Some(run), Ok(runtime)) = (self.0.clone(), Handle::try_current()) {
            runtime.spawn(async move {
                let _ = run.handle.abort().await; // fails if the run has ended
                drop(self);
            });
        }
    }
}

impl Drop for RunPermit {
    fn drop(&mut self) {
        let (Some(run), Ok(runtime)) = (self.0.take(), Handle::try_current()) else {
            return;
        };
        let mut waiting = run.waiting();
        match *waiting {
            Waiting::Yes | Waiting::Restart => *waiting = Waiting::Restart,
            Waiting::No => {
                *waiting = Waiting::Yes;
                drop(waiting);
                runtime.spawn(run.wait_for_idle());
            }
        }
    }
}

impl Run {
    /// Keeps the permit until the session is idle and no more input has arrived meanwhile.
    async fn wait_for_idle(self: Arc<Self>) {
        loop {
            self.handle.wait_for_idle().await;
            let mut waiting = self.waiting();
            match std::mem::take(&mut *waiting) {
                Waiting::Restart => *waiting = Waiting::Yes,
                _ => return,
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use loopwright_core::GenericAgent;
    use loopwright_core::event::InputEvent;
    use loopwright_core::testing::{Gate, Script, ScriptedModel};
    use loopwright_patterns::PiPattern;

    use super::*;

    fn client() -> Client {
        Client::of("10.0.0.1".parse().unwrap())
    }

    /// One task keeps the permit until all inputs are handled.
    #[tokio::test(start_paused = true)]
    async fn one_task_waits_for_a_run_whatever_comes_to_it() {
        let gate = Gate::new();
        let model = ScriptedModel::new([Script::text("one"), Script::new().gate(&gate).say("two")]);
        let agent = GenericAgent::builder(model.default_reply(Script::text("more")), PiPattern)
            .build()
            .unwrap();
        let handle = agent.session().await.unwrap();
        let quota = RunQuota::new(2, 3);
        let permit = quota.acquire(Client(None)).await.unwrap();
        let permit = RunPermit::new(handle.clone(), permit);
        let run = permit.downgrade();
        handle.prompt("go").await.unwrap();
        drop(permit);
        // The session is idle, but the task that waits for it has not run yet.
        let permit = RunPermit::upgrade(&run).unwrap();
        handle.send(InputEvent::UserRequest("go on".into())).await.unwrap();
        drop(permit);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(quota.0.in_use(), 1, "the second run is in progress");
        let tasks = || Handle::current().metrics().num_alive_tasks();
        let before = tasks();
        for _ in 0..9 {
            let permit = RunPermit::upgrade(&run).unwrap();
            handle.send(InputEvent::Steer("and this".into())).await.unwrap();
            drop(permit);
        }
        assert_eq!(tasks(), before);
        gate.open();
        quota.unused().await;
        assert!(RunPermit::upgrade(&run).is_none() && !handle.state().await.unwrap().is_running);
    }

    #[tokio::test(start_paused = true)]
    async fn runs_are_counted_by_client_and_released() {
        let quota = RunQuota::new(2, 3);
        let first = quota.acquire(client()).await.unwrap();
        let _second = quota.acquire(client()).await.unwrap();
        assert!(quota.acquire(client()).await.is_err(), "a client has two");
        drop(first);
        assert!(quota.acquire(client()).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_that_ends_meanwhile_makes_room() {
        let quota = RunQuota::new(2, 3);
        let first = quota.acquire(client()).await.unwrap();
        let _second = quota.acquire(client()).await.unwrap();
        let (third, ()) = tokio::join!(quota.acquire(client()), async { drop(first) });
        assert!(third.is_ok());
    }
}
