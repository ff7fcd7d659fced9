//! The earlier events of an open session, for readers that catch up. All readers of a session share
//! one copy, which is dropped when the last reader has caught up.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use loopwright_core::SessionStore;
use loopwright_core::event::{AgentEvent, Envelope, RunCause};
use loopwright_core::log::{Follower, LogEntry, MemoryError};
use loopwright_core::message::{CallId, InputId, RunId};
use tokio::time::Instant;

use super::encoded_events::{self, EncodedEvents};
use super::open_work::OpenWork;
use crate::error::{ApiError, ErrorKind};

/// The interval between reads of a log that a reader follows.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The backlogs of the sessions that are read from their logs alone. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct LogBacklogs(Arc<Mutex<HashMap<Arc<str>, SharedBacklog>>>);

impl LogBacklogs {
    /// Returns the backlog of a session. Backlogs without readers are removed.
    pub(crate) fn of(&self, session: &str) -> SharedBacklog {
        let mut all = lock(&self.0);
        all.retain(|_, backlog| backlog.is_used());
        all.entry(session.into()).or_default().clone()
    }
}

/// The state that the readers of a session share, alive while a reader needs it.
#[derive(Clone, Default)]
pub(crate) struct SharedBacklog {
    backlog: Arc<Mutex<Weak<Backlog>>>,
    encoded: Arc<Mutex<Weak<Mutex<encoded_events::Events>>>>,
}

/// The numbered events of a session, up to the last log entry read.
#[derive(Default)]
struct Backlog(tokio::sync::Mutex<Option<Events>>);

pub(crate) struct Events {
    follower: Follower,
    numbered: Vec<Arc<Envelope>>,
    /// The number of the last event after each entry.
    ends: Vec<u64>,
    open: OpenWork,
    /// The numbers of the events after which a reader can start, in their order.
    starts: Vec<u64>,
    /// The last entry applied.
    last: Option<LogEntry>,
    /// The time of the last read of the log.
    read_at: Instant,
}

/// The first event that a reader receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Start {
    /// The event after this number.
    After(u64),
    /// About this many events before the end, fewer if they are long. They begin at the start of a
    /// turn and include all open work.
    Last(u64),
    /// The start of a run, or the end of the log if there is no such run yet.
    Run(RunStart),
}

/// The run that a reader starts with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RunStart {
    /// The next run to start.
    Next,
    /// The run in progress.
    InProgress,
    /// The first of the runs that the run in progress continues after decisions.
    ReplyInProgress,
    /// The run that this request has started.
    OfRequest(InputId),
    /// The run in which the last action of this call was decided.
    OfDecision(CallId),
}

impl Start {
    /// Returns the start for a reader that has the events up to `after`, or asks for the `last`
    /// ones.
    pub(crate) fn new(after: Option<u64>, last: Option<u64>) -> Self {
        match (after, last) {
            (None, Some(last)) => Start::Last(last),
            (after, _) => Start::After(after.unwrap_or(0)),
        }
    }
}

/// The size of the JSON, in bytes, at which a reader of the last events gets no earlier ones.
const MAX_LAST_BYTES: usize = 256 * 1024;

/// The events that a reader has missed, in order.
pub(crate) struct Missed {
    /// Events that withdraw the deltas that the reader has seen.
    withdrawn: std::vec::IntoIter<Arc<Envelope>>,
    /// The backlog, the number of the last event returned, and the number of the last event to
    /// return (`u64::MAX` for a reader that follows the log). `None` after the last event.
    rest: Option<(Arc<Backlog>, u64, u64)>,
}

impl SharedBacklog {
    /// Returns the events from `start` on, of the first `length` entries of the log, and the number
    /// of the last event before them.
    ///
    /// # Errors
    /// Fails if there is no event with that number, or the log cannot be read.
    pub(crate) async fn missed(
        &self,
        store: &dyn SessionStore,
        session: &str,
        length: u64,
        start: Start,
    ) -> Result<(Missed, u64), ApiError> {
        let (mut missed, after, last) = self.read(store, session, length, start).await?;
        match &mut missed.rest {
            Some((_, seen, end)) if *seen < last => *end = last,
            rest => *rest = None,
        }
        Ok((missed, after))
    }

    /// Returns the events from `start` on, including later ones of the log, and the number of the
    /// last event before them.
    ///
    /// # Errors
    /// Fails if there is no event with that number, or the log cannot be read.
    pub(crate) async fn followed(
        &self,
        store: &dyn SessionStore,
        session: &str,
        start: Start,
    ) -> Result<(Missed, u64), ApiError> {
        let (missed, after, _) = self.read(store, session, u64::MAX, start).await?;
        Ok((missed, after))
    }

    /// Returns the events from `start` on without an end, and two event numbers: the last one
    /// before them, and the last one of the first `length` entries.
    async fn read(
        &self,
        store: &dyn SessionStore,
        session: &str,
        length: u64,
        start: Start,
    ) -> Result<(Missed, u64, u64), ApiError> {
        let backlog = self.get();
        let mut events = backlog.0.lock().await;
        let events = events.get_or_insert_with(|| Events::new(session));
        events.read_to(length, store, session).await?;
        let length = usize::try_from(length).unwrap_or(usize::MAX).min(events.ends.len());
        let last = length.checked_sub(1).map_or(0, |at| events.ends[at]);
        let after = match start {
            Start::After(after) => after,
            Start::Last(count) => events.start_of(last, count),
            Start::Run(run) => events.start_of_run(last, &run),
        };
        if after > last {
            return Err(after_the_end(last, after));
        }
        let withdrawn = events.withdrawn(session, after).into_iter();
        let rest = Some((backlog.clone(), after, u64::MAX));
        Ok((Missed { withdrawn, rest }, after, last))
    }

    /// Returns the encoded events, shared between the readers.
    pub(crate) fn encoded(&self) -> EncodedEvents {
        EncodedEvents(shared(&self.encoded))
    }

    /// Returns whether a reader needs the backlog or its encoded events.
    fn is_used(&self) -> bool {
        let (backlog, encoded) = (lock(&self.backlog), lock(&self.encoded));
        backlog.strong_count() > 0 || encoded.strong_count() > 0
    }

    fn get(&self) -> Arc<Backlog> {
        shared(&self.backlog)
    }
}

/// Returns the value that others hold, or a new one.
fn shared<T: Default>(shared: &Mutex<Weak<T>>) -> Arc<T> {
    let mut shared = lock(shared);
    shared.upgrade().unwrap_or_else(|| {
        let new = Arc::<T>::default();
        *shared = Arc::downgrade(&new);
        new
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the first of the runs that the run in progress continues. Returns `None` if no run is in
/// progress.
fn first_of_reply(known: &[Arc<Envelope>]) -> Option<RunId> {
    let mut is_in_progress = false;
    for event in known.iter().rev() {
        match &event.event {
            AgentEvent::AgentEnd(_) if !is_in_progress => return None,
            AgentEvent::AgentStart { cause: RunCause::ActionResult(_), .. } => {
                is_in_progress = true
            }
            AgentEvent::AgentStart { .. } => return Some(event.run_id),
            _ => {}
        }
    }
    None
}

/// Returns the error for a reader that names an event after the last one.
fn after_the_end(last: u64, after: u64) -> ApiError {
    ApiError::new(
        ErrorKind::AfterTheEnd,
        format!(
            "The session has {last} events, and there is no number {after}: read it from the \
             start, without `after` and `Last-Event-ID`."
        ),
    )
}

impl Events {
    pub(crate) fn new(session: &str) -> Self {
        Events {
            follower: Follower::new(session),
            numbered: Vec::new(),
            ends: Vec::new(),
            open: OpenWork::default(),
            starts: Vec::new(),
            last: None,
            read_at: Instant::now(),
        }
    }

    /// Applies the new entries of the log, or all entries if the log was replaced.
    pub(crate) async fn refresh(
        &mut self,
        store: &dyn SessionStore,
        session: &str,
    ) -> Result<(), MemoryError> {
        if let Some(last) = &self.last {
            let new = store.read(session, self.follower.entries() - 1).await?;
            if new.first() == Some(last) {
                self.take(&new[1..]);
                return Ok(());
            }
        }
        *self = Events::new(session);
        self.read_to(u64::MAX, store, session).await
    }

    /// Returns about `count` events before number `before`, in whole turns, and the number of the
    /// last event before them.
    pub(crate) fn before(&self, before: u64, count: u64) -> (Vec<Arc<Envelope>>, u64) {
        let last = before.saturating_sub(1).min(self.numbered.len() as u64);
        let after = self.start_of(last, count);
        (self.numbered[after as usize..last as usize].to_vec(), after)
    }

    /// Returns the event number after which a reader of about the last `count` events up to number
    /// `last` starts.
    fn start_of(&self, last: u64, count: u64) -> u64 {
        let (mut after, mut bytes) = (last, 0);
        while after > 0 && last - after < count && bytes < MAX_LAST_BYTES {
            let event = self.numbered(after);
            bytes += event.and_then(|event| serde_json::to_vec(event).ok()).map_or(0, |v| v.len());
            after -= 1;
        }
        let before = self.starts.partition_point(|start| *start <= after);
        before.checked_sub(1).map_or(0, |at| self.starts[at])
    }

    /// Returns the number of the event before the start of a run, or `last` if the run has not
    /// started up to that event.
    fn start_of_run(&self, last: u64, run: &RunStart) -> u64 {
        let known = &self.numbered[..usize::try_from(last).unwrap_or(usize::MAX)];
        let found = known.iter().rev().find_map(|event| match (run, &event.event) {
            (RunStart::InProgress, AgentEvent::AgentEnd(_)) => Some(None),
            (RunStart::InProgress, AgentEvent::AgentStart { .. }) => Some(Some(event.run_id)),
            (
                RunStart::OfRequest(id),
                AgentEvent::AgentStart { cause: RunCause::UserRequest(started), .. },
            ) => (id == started).then_some(Some(event.run_id)),
            (RunStart::OfDecision(wanted), AgentEvent::ExternalActionEnd { call, .. }) => {
                (wanted == call).then_some(Some(event.run_id))
            }
            _ => None,
        });
        let found = match run {
            RunStart::ReplyInProgress => first_of_reply(known),
            _ => found.flatten(),
        };
        match found {
            Some(run) => known.partition_point(|event| event.run_id < run) as u64,
            None => last,
        }
    }

    /// Applies the entries of the log up to number `length`.
    async fn read_to(
        &mut self,
        length: u64,
        store: &dyn SessionStore,
        session: &str,
    ) -> Result<(), MemoryError> {
        let from = self.follower.entries();
        if from >= length {
            return Ok(());
        }
        let entries = store.read(session, from).await?;
        self.read_at = Instant::now();
        let count = usize::try_from(length - from).unwrap_or(usize::MAX).min(entries.len());
        self.take(&entries[..count]);
        Ok(())
    }

    fn take(&mut self, entries: &[LogEntry]) {
        for entry in entries {
            for event in self.follower.take(std::slice::from_ref(entry)) {
                if self.open.can_start_at(&event.event) {
                    self.starts.push(event.seq - 1);
                }
                self.open.apply(&event.event);
                self.numbered.push(Arc::new(event));
            }
            self.ends.push(self.follower.last_seq());
        }
        self.last = entries.last().cloned().or(self.last.take());
    }

    /// Returns the event with this number.
    fn numbered(&self, seq: u64) -> Option<&Arc<Envelope>> {
        self.numbered.get(usize::try_from(seq.checked_sub(1)?).ok()?)
    }

    fn withdrawn(&self, session: &str, after: u64) -> Vec<Arc<Envelope>> {
        let seen = self.numbered(after);
        let (run, time) = seen.map_or((RunId(0), 0), |event| (event.run_id, event.time));
        let lost = self.follower.withdrawn(after).into_iter();
        let events = lost.map(|event| {
            let mut envelope = Envelope::new(after, session, run, time, event);
            envelope.parent = self.numbered.last().and_then(|event| event.parent.clone());
            Arc::new(envelope)
        });
        events.collect()
    }
}

impl Missed {
    /// Returns the next event, or `None` when the reader has caught up.
    pub(crate) async fn next(&mut self) -> Option<Arc<Envelope>> {
        if let Some(event) = self.withdrawn.next() {
            return Some(event);
        }
        let (backlog, seen, last) = self.rest.as_mut()?;
        let event = match &*backlog.0.lock().await {
            Some(events) => events.numbered(*seen + 1).cloned(),
            None => None,
        };
        *seen += u64::from(event.is_some());
        if event.is_none() && *last < u64::MAX || seen >= last {
            self.rest = None;
        }
        event
    }

    /// Returns the next event of a reader that follows the log, or `None` if none arrives within a
    /// polling interval. The log has no deltas and no progress.
    ///
    /// # Errors
    /// Fails if the log cannot be read, for example because the session was deleted.
    ///
    /// # Cancellation
    /// The future can be dropped without losing an event.
    pub(crate) async fn follow(
        &mut self,
        store: &dyn SessionStore,
        session: &str,
    ) -> Result<Option<Arc<Envelope>>, MemoryError> {
        if let Some(event) = self.next().await {
            return Ok(Some(event));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
        if let Some((backlog, ..)) = &self.rest
            && let Some(events) = &mut *backlog.0.lock().await
            && events.read_at.elapsed() >= POLL_INTERVAL / 2
        {
            events.read_to(u64::MAX, store, session).await?;
        }
        Ok(self.next().await)
    }
}
