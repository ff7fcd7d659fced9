//! [`EventReader`], a reader of a session's events that misses none of them.

use std::sync::Arc;

use tokio::task::JoinHandle;

use crate::event::Envelope;
use crate::event::hub::{EventStream, Scope, StreamEnd, Subscriber, text_bytes};
use crate::log::session_log::SessionLog;
use crate::log::store::SessionStore;
use crate::session::handle::AgentHandle;

/// A reader of the events of an open session that may be slow.
///
/// When its [`EventStream`] has lagged, it continues with the missed events from the session's log,
/// and then with a new stream. No event of the log is lost or repeated. Deltas are not in the log:
/// as after [`SessionLog::events_after`], a reply that has not ended is withdrawn, and starts over.
///
/// It has a handle, so the session stays open until it is dropped or the session is
/// [closed](AgentHandle::close).
///
/// ```
/// use loopwright_core::event::AgentEvent;
/// use loopwright_core::log::InMemoryStore;
/// use loopwright_core::session::EventReader;
/// use loopwright_core::testing::{Script, ScriptedModel};
/// use loopwright_core::GenericAgent;
/// # use loopwright_core::{BehaviorPattern, StepContext, StepEnd, StepError};
/// # struct Once;
/// # #[async_trait::async_trait]
/// # impl BehaviorPattern for Once {
/// #     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
/// #         step.take_input().await?;
/// #         step.ask().await?.finish()
/// #     }
/// # }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = InMemoryStore::new();
/// let agent = GenericAgent::builder(ScriptedModel::new([Script::text("Hi.")]), Once).build()?;
/// let handle = agent.open(&store, "s").await?;
///
/// let mut events = EventReader::new(handle.clone(), handle.subscribe(), store.clone());
/// handle.prompt("Hello").await?;
/// handle.close().await;
/// let mut answers = Vec::new();
/// while let Some(event) = events.next().await {
///     if let AgentEvent::AgentEnd(outcome) = &event.event {
///         answers.push(outcome.text.to_string());
///     }
/// }
/// assert_eq!(answers, ["Hi."]);
/// # Ok(()) }
/// ```
pub struct EventReader {
    handle: AgentHandle,
    events: EventStream,
    store: Arc<dyn SessionStore>,
    /// The task that reads the missed events. It is kept when the future of
    /// [`next`](EventReader::next) is dropped.
    reading: Option<JoinHandle<Option<Missed>>>,
}

/// The missed events, and the stream of the later ones.
type Missed = (Vec<Envelope>, EventStream);

impl EventReader {
    /// Builds a reader of these events of the handle's session, whose log is in `store`. A stream
    /// of a single run, or one with the events of sub-agents, still ends when it has lagged.
    pub fn new(
        handle: AgentHandle,
        events: EventStream,
        store: impl SessionStore + 'static,
    ) -> Self {
        EventReader { handle, events, store: Arc::new(store), reading: None }
    }

    /// Waits for the next event. Returns `None` when the session has ended or moved, or its log
    /// cannot be read.
    ///
    /// Dropping the future loses no event.
    pub async fn next(&mut self) -> Option<Arc<Envelope>> {
        loop {
            let event = self.events.next().await;
            if event.is_some() || !self.catch_up().await {
                return event;
            }
        }
    }

    /// Returns the next unread event, or `None`. Waits only to read the log.
    ///
    /// Dropping the future loses no event.
    pub async fn try_next(&mut self) -> Option<Arc<Envelope>> {
        loop {
            let event = self.events.try_next();
            if event.is_some() || !self.catch_up().await {
                return event;
            }
        }
    }

    /// Returns why the events have ended, like [`EventStream::end`].
    pub fn end(&self) -> Option<StreamEnd> {
        self.events.end()
    }

    /// Continues after the stream has lagged. Returns `false` if it has not, or cannot continue.
    async fn catch_up(&mut self) -> bool {
        let Some(after) = self.events.lagged_after() else { return false };
        let read = || tokio::spawn(missed(self.handle.clone(), self.store.clone(), after));
        let read = self.reading.get_or_insert_with(read).await;
        self.reading = None;
        let Ok(Some((missed, next))) = read else { return false };
        self.events.continue_with(missed, next);
        true
    }
}

impl EventStream {
    /// Returns a stream that has ended.
    fn closed() -> Self {
        let (_, stream) = Subscriber::new(Scope::Session);
        stream
    }

    /// Returns the number of the last event before the missed ones, if the stream has lagged, and
    /// they are in the log of one session.
    fn lagged_after(&self) -> Option<u64> {
        let lagged = self.end() == Some(StreamEnd::Lagged) && self.0.scope == Scope::Session;
        lagged.then(|| self.0.queue().seq)
    }

    /// Continues with the missed events, and then with `next`, a later stream of the session.
    fn continue_with(&mut self, missed: Vec<Envelope>, next: EventStream) {
        {
            let (mut old, mut new) = (self.0.queue(), next.0.queue());
            let mut unread = std::mem::take(&mut old.unread);
            unread.extend(missed.into_iter().map(Arc::new));
            new.seq = unread.back().map_or(old.seq, |last| last.seq).max(new.seq);
            unread.append(&mut new.unread);
            new.bytes = unread.iter().map(|event| text_bytes(&event.event)).sum();
            new.unread = unread;
        }
        *self = next;
    }
}

/// Returns the events after number `after` from the log, and a stream of the later ones.
async fn missed(handle: AgentHandle, store: Arc<dyn SessionStore>, after: u64) -> Option<Missed> {
    let (length, next) = match handle.join().await {
        Ok(joined) => joined,
        // The session has ended, so its log has all events.
        Err(_) => (u64::MAX, EventStream::closed()),
    };
    let session = handle.id();
    match store.read(session, 0).await {
        Ok(mut log) => {
            log.truncate(usize::try_from(length).unwrap_or(usize::MAX));
            Some((SessionLog::events_after(session.clone(), &log, after), next))
        }
        Err(error) => {
            tracing::warn!(session = &**session, %error, "missed events cannot be read");
            None
        }
    }
}
