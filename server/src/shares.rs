//! What clients have of what is limited, each of them and all together: runs, connections.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::request::Parts;
use loopwright_core::AgentHandle;
use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::config::Limits;
use crate::error::{ApiError, Kind};

/// How long who has too many runs is let wait for one of them: it may have ended a moment ago.
const MOMENT: Duration = Duration::from_millis(50);

/// What is taken at the moment. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Shares(Arc<Inner>);

#[derive(Default)]
struct Inner {
    counts: Mutex<Counts>,
    /// Told when something is given back.
    ended: Notify,
}

#[derive(Default)]
struct Counts {
    all: usize,
    by_client: HashMap<IpAddr, usize>,
}

/// Who asks: an address, if it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Client(Option<IpAddr>);

/// A run that is begun in a session: its place among the runs is given back when the session is at
/// rest. Clones are of the same run.
#[derive(Clone)]
pub(crate) struct Begun(Option<Arc<Run>>);

/// What is known of a run as long as it has its place.
pub(crate) struct Run {
    handle: AgentHandle,
    waits: Mutex<Waits>,
    _share: Share,
}

/// Whether somebody waits for the session to be at rest: one task for each run, whatever else comes
/// to it.
#[derive(Default)]
enum Waits {
    #[default]
    Nobody,
    One,
    /// More has come meanwhile: it is to wait anew.
    Anew,
}

/// Somebody's part of it, until it is dropped.
pub(crate) struct Share {
    of: Shares,
    client: Client,
}

impl Shares {
    /// One more of this client, if it and all together have not as many already.
    pub(crate) fn take(&self, client: Client, per_client: usize, all: usize) -> Option<Share> {
        let mut counts = self.counts();
        let own = client.0.map_or(0, |ip| counts.by_client.get(&ip).copied().unwrap_or(0));
        if own >= per_client || counts.all >= all {
            return None;
        }
        counts.all += 1;
        if let Some(ip) = client.0 {
            counts.by_client.insert(ip, own + 1);
        }
        Some(Share { of: self.clone(), client })
    }

    /// One more run of this client.
    pub(crate) async fn begin(&self, client: Client, limits: &Limits) -> Result<Share, ApiError> {
        let take = || self.take(client, limits.runs_per_client, limits.runs);
        let ended = self.0.ended.notified();
        if let Some(share) = take() {
            return Ok(share);
        }
        let _ = tokio::time::timeout(MOMENT, ended).await; // the next line tells
        take().ok_or_else(|| {
            let why = "Too many runs go on: wait until one has ended, abort one, or close its connection.";
            ApiError::new(Kind::TooMany, why)
        })
    }

    /// One more run of nobody in particular, which nothing could keep from beginning.
    pub(crate) fn begun_by_itself(&self) -> Share {
        self.counts().all += 1;
        Share { of: self.clone(), client: Client(None) }
    }

    /// Resolves when nothing is taken.
    pub(crate) async fn none(&self) {
        loop {
            let ended = self.0.ended.notified();
            if self.counts().all == 0 {
                return;
            }
            ended.await;
        }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Begun {
    pub(crate) fn new(handle: AgentHandle, share: Share) -> Self {
        Begun(Some(Arc::new(Run { handle, waits: Mutex::default(), _share: share })))
    }

    /// The run, if it still has its place.
    pub(crate) fn of(run: &Weak<Run>) -> Option<Self> {
        run.upgrade().map(|run| Begun(Some(run)))
    }

    /// For others who come to the same run.
    pub(crate) fn run(&self) -> Weak<Run> {
        self.0.as_ref().map(Arc::downgrade).unwrap_or_default()
    }

    /// It is known that it has ended.
    pub(crate) fn ended(mut self) {
        self.0 = None;
    }

    /// Aborts it.
    pub(crate) fn abort(self) {
        if let (Some(run), Ok(runtime)) = (self.0.clone(), Handle::try_current()) {
            runtime.spawn(async move {
                let _ = run.handle.abort().await; // an error says that it is over
                drop(self);
            });
        }
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        let (Some(run), Ok(runtime)) = (self.0.take(), Handle::try_current()) else {
            return;
        };
        let mut waits = run.waits();
        match *waits {
            Waits::One | Waits::Anew => *waits = Waits::Anew,
            Waits::Nobody => {
                *waits = Waits::One;
                drop(waits);
                runtime.spawn(run.wait());
            }
        }
    }
}

impl Run {
    /// Keeps the place until the session is at rest, and nothing has come to it meanwhile.
    async fn wait(self: Arc<Self>) {
        loop {
            self.handle.wait_for_idle().await;
            let mut waits = self.waits();
            match std::mem::take(&mut *waits) {
                Waits::Anew => *waits = Waits::One,
                _ => return,
            }
        }
    }

    fn waits(&self) -> MutexGuard<'_, Waits> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut counts = self.of.counts();
        counts.all = counts.all.saturating_sub(1);
        if let Some(ip) = self.client.0 {
            match counts.by_client.get_mut(&ip) {
                Some(own) if *own > 1 => *own -= 1,
                _ => drop(counts.by_client.remove(&ip)),
            }
        }
        drop(counts);
        self.of.0.ended.notify_waiters();
    }
}

impl Client {
    /// Whoever asks from here. The addresses of one IPv6 network of the usual size are one client.
    pub(crate) fn of(ip: IpAddr) -> Self {
        Client(Some(match ip.to_canonical() {
            IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX))),
            v4 => v4,
        }))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Client {
    type Rejection = Infallible;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let address = parts.extensions.get::<ConnectInfo<SocketAddr>>();
        Ok(address.map_or(Client(None), |ConnectInfo(address)| Client::of(address.ip())))
    }
}

#[cfg(test)]
mod tests {
    use loopwright_core::event::InputEvent;
    use loopwright_core::testing::{Gate, Script, ScriptedModel};
    use loopwright_core::{GenericAgent, RunContext};
    use loopwright_patterns::PiPattern;

    use super::*;

    /// The place is kept until the last of what has come is done, by one task.
    #[tokio::test(start_paused = true)]
    async fn one_task_waits_for_a_run_whatever_comes_to_it() {
        let gate = Gate::new();
        let model = ScriptedModel::new([Script::text("one"), Script::new().gate(&gate).say("two")]);
        let agent = GenericAgent::builder(model.otherwise(Script::text("more")), PiPattern)
            .build()
            .unwrap();
        let (handle, _events) = agent.run(RunContext::new()).await.unwrap();
        let runs = Shares::default();
        let begun = Begun::new(handle.clone(), runs.begin(Client(None), &limits()).await.unwrap());
        let run = begun.run();
        handle.prompt("go").await.unwrap();
        drop(begun);
        // The session is at rest, but whoever waits for that has not seen it yet.
        let begun = Begun::of(&run).unwrap();
        handle.send(InputEvent::UserRequest("go on".into())).await.unwrap();
        drop(begun);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(runs.counts().all, 1, "the second run goes on");
        let tasks = || Handle::current().metrics().num_alive_tasks();
        let before = tasks();
        for _ in 0..9 {
            let begun = Begun::of(&run).unwrap();
            handle.send(InputEvent::Steer("and this".into())).await.unwrap();
            drop(begun);
        }
        assert_eq!(tasks(), before);
        gate.open();
        runs.none().await;
        assert!(Begun::of(&run).is_none() && !handle.state().await.unwrap().is_running);
    }

    fn limits() -> Limits {
        Limits { runs_per_client: 2, runs: 3, ..Limits::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn runs_are_counted_by_client_and_given_back() {
        let (runs, limits) = (Shares::default(), limits());
        let [a, b, c] =
            ["10.0.0.1", "2001:db8::1", "2001:db8::2"].map(|ip| Client::of(ip.parse().unwrap()));
        assert_eq!(b, c, "one network");
        let (first, second) =
            (runs.begin(a, &limits).await.unwrap(), runs.begin(a, &limits).await.unwrap());
        assert!(runs.begin(a, &limits).await.is_err(), "two are its share");
        let third = runs.begin(b, &limits).await.unwrap();
        assert!(runs.begin(b, &limits).await.is_err(), "three are all");
        drop((first, second));
        assert!(runs.begin(a, &limits).await.is_ok());
        tokio::join!(runs.none(), async { drop(third) });
        let counts = runs.counts();
        assert_eq!((counts.all, counts.by_client.len()), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_that_ends_at_this_moment_makes_room() {
        let (runs, limits, client) =
            (Shares::default(), limits(), Client::of("10.0.0.1".parse().unwrap()));
        let (first, _second) = (
            runs.begin(client, &limits).await.unwrap(),
            runs.begin(client, &limits).await.unwrap(),
        );
        let (third, ()) = tokio::join!(runs.begin(client, &limits), async { drop(first) });
        assert!(third.is_ok());
    }
}
