//! [`ClusterEvents`]: the events of a session, from any worker.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use loopwright_core::EventStream;
use loopwright_core::event::Envelope;
use loopwright_core::log::{Follower, MemoryError, SessionLog};
use tokio::time::{Instant, sleep};

use crate::error::ClusterError;
use crate::peers::PeerEvents;
use crate::worker::Worker;

/// Interval at which the log is read while no better source is known.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Interval at which the worker of an open session is looked up.
const OWNER_INTERVAL: Duration = Duration::from_millis(500);

/// The numbered events of a session, for as long as it exists.
///
/// They come from the session itself if it is open here, or from the worker that has it open, if
/// that has an address. Otherwise they come from the log, without deltas and progress. When the
/// session moves to another worker, the events continue there without a gap. A reply that was
/// streaming then either ends with
/// [`Update::Withdrawn`](loopwright_core::model::Update::Withdrawn), or starts over with
/// [`AgentEvent::MessageStart`](loopwright_core::event::AgentEvent::MessageStart).
pub struct ClusterEvents {
    worker: Arc<Worker>,
    session: Arc<str>,
    /// The number of the last returned event.
    after: u64,
    ready: VecDeque<Arc<Envelope>>,
    source: Source,
    /// `true` once the session has had entries. A session without any was then deleted.
    exists: bool,
    next_look: Instant,
}

/// The source of the next events.
enum Source {
    /// Not yet chosen.
    Unknown,
    Live(EventStream),
    Peer(PeerEvents),
    Log(Box<Follower>),
}

impl ClusterEvents {
    pub(crate) fn new(worker: Arc<Worker>, session: Arc<str>, after: u64) -> Self {
        ClusterEvents {
            worker,
            session,
            after,
            ready: VecDeque::new(),
            source: Source::Unknown,
            exists: after > 0,
            next_look: Instant::now(),
        }
    }

    /// Waits for the next event. Returns `None` when the session was deleted. Waits for a session
    /// that does not exist yet.
    ///
    /// Dropping the future loses no event.
    ///
    /// # Errors
    ///
    /// Fails if the store fails. The next call tries again.
    pub async fn next(&mut self) -> Option<Result<Arc<Envelope>, ClusterError>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.after = self.after.max(event.seq);
                return Some(Ok(event));
            }
            match self.wait().await {
                Ok(()) => {}
                Err(MemoryError::NoSession(_)) if self.exists => return None,
                Err(MemoryError::NoSession(_)) => sleep(POLL_INTERVAL).await,
                Err(error) => {
                    self.source = Source::Unknown;
                    return Some(Err(error.into()));
                }
            }
        }
    }

    /// Converts the events into a stream.
    pub fn into_stream(self) -> impl Stream<Item = Result<Arc<Envelope>, ClusterError>> + Send {
        futures::stream::unfold(self, async |mut events| Some((events.next().await?, events)))
    }

    /// Waits for events that are ready, or for another source.
    async fn wait(&mut self) -> Result<(), MemoryError> {
        let event = match &mut self.source {
            Source::Unknown => return self.open().await,
            Source::Log(_) => return self.follow().await,
            Source::Live(live) => live.next().await,
            Source::Peer(peer) => peer.next().await,
        };
        match event {
            Some(event) => self.ready.push_back(event),
            None => self.source = Source::Unknown,
        }
        Ok(())
    }

    /// Chooses the source, and reads the events before it.
    async fn open(&mut self) -> Result<(), MemoryError> {
        let found = find(&self.worker, &self.session).await?;
        let mut entries = self.worker.store.read(&self.session, 0).await?;
        self.exists = true;
        self.next_look = Instant::now() + OWNER_INTERVAL;
        if let Some((length, _)) = &found {
            entries.truncate(usize::try_from(*length).unwrap_or(usize::MAX));
        }
        let missed = SessionLog::events_after(self.session.clone(), &entries, self.after);
        self.ready.extend(missed.into_iter().map(Arc::new));
        self.source = match found {
            Some((_, source)) => source,
            None => {
                let mut follower = Follower::new(self.session.clone());
                follower.take(&entries);
                Source::Log(Box::new(follower))
            }
        };
        Ok(())
    }

    /// Reads new entries of the log, or switches to a worker that sends the events.
    async fn follow(&mut self) -> Result<(), MemoryError> {
        sleep(POLL_INTERVAL).await;
        let Source::Log(follower) = &mut self.source else { return Ok(()) };
        let entries = self.worker.store.read(&self.session, follower.entries()).await?;
        self.ready.extend(follower.take(&entries).into_iter().map(Arc::new));
        if self.ready.is_empty() {
            let is_here = self.worker.host.open_session(&self.session).await.is_some();
            let looks = Instant::now() >= self.next_look;
            if is_here || looks && self.worker.peer_address(&self.session).await?.is_some() {
                self.source = Source::Unknown;
            }
            if looks {
                self.next_look = Instant::now() + OWNER_INTERVAL;
            }
        }
        Ok(())
    }
}

/// Returns a session's events from a worker that sends them, if any, and the length of the log
/// before them.
async fn find(worker: &Worker, session: &str) -> Result<Option<(u64, Source)>, MemoryError> {
    if let Some(handle) = worker.host.open_session(session).await
        && let Ok((length, live)) = handle.join().await
    {
        return Ok(Some((length, Source::Live(live))));
    }
    let joined = worker.join_peer(session, false).await?;
    Ok(joined.map(|(length, events)| (length, Source::Peer(events))))
}
