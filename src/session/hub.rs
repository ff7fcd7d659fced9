//! Subscribers: a queue each, bounded by merging deltas. Pushing never waits, reading never misses
//! a word.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_util::Stream;

use crate::environment::Environment;
use crate::log::event::{AgentEvent, Envelope, Parent};
use crate::message::RunId;
use crate::model::Update;
use crate::tool::ToolUpdate;

/// From here on deltas are merged.
const CAPACITY: usize = 1024;
/// With this many unread events a subscriber is cut off.
const LAG_LIMIT: usize = 65_536;

/// Receives the events of a session from the time of the subscription. Dropping it unsubscribes.
///
/// A slow reader neither stalls the agent nor loses text: if 1,024 events are unread, deltas are
/// merged into the last one of their block. If 65,536 are unread, the stream ends and
/// [`EventStream::lagged`] returns `true`.
pub struct EventStream(Arc<Shared>);

#[derive(Default)]
struct Shared(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    unread: VecDeque<Arc<Envelope>>,
    waker: Option<Waker>,
    closed: bool,
    lagged: bool,
    peak: usize,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        let mut queue = self.queue();
        queue.closed = true;
        if let Some(waker) = queue.waker.take() {
            waker.wake()
        }
    }
}

impl EventStream {
    /// Waits for the next event. Returns `None` when the session, or the run of the stream, has
    /// ended.
    ///
    /// Dropping the future loses no event.
    pub async fn next(&mut self) -> Option<Arc<Envelope>> {
        std::future::poll_fn(|cx| self.poll_event(cx)).await
    }

    /// Returns an event that is already unread, or `None`.
    pub fn try_next(&mut self) -> Option<Arc<Envelope>> {
        self.0.queue().unread.pop_front()
    }

    /// Returns whether the stream ended because its reader was too slow. The missed events can be
    /// read from the session's log.
    pub fn lagged(&self) -> bool {
        self.0.queue().lagged
    }

    /// Returns the largest number of events that were unread at a time.
    pub fn peak(&self) -> usize {
        self.0.queue().peak
    }

    fn poll_event(&self, cx: &mut Context<'_>) -> Poll<Option<Arc<Envelope>>> {
        let mut queue = self.0.queue();
        match queue.unread.pop_front() {
            Some(event) => Poll::Ready(Some(event)),
            None if queue.closed => Poll::Ready(None),
            None => {
                if !queue.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                    queue.waker = Some(cx.waker().clone());
                }
                Poll::Pending
            }
        }
    }
}

impl Stream for EventStream {
    type Item = Arc<Envelope>;
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_event(cx)
    }
}

/// The sending end of an [`EventStream`].
pub(crate) struct Subscriber {
    shared: Arc<Shared>,
    /// Whether the stream ends with the first `agent_end`.
    one_run: bool,
}

impl Subscriber {
    pub(crate) fn new(one_run: bool) -> (Self, EventStream) {
        let shared = Arc::new(Shared::default());
        (Subscriber { shared: shared.clone(), one_run }, EventStream(shared))
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.shared.close();
    }
}

/// Puts the events of a session into envelopes and sends them to the subscribers.
pub(crate) struct Hub {
    session: Arc<str>,
    parent: Option<Arc<Parent>>,
    environment: Arc<dyn Environment>,
    seq: u64,
    run: RunId,
    subscribers: Vec<Subscriber>,
}

impl Hub {
    pub(crate) fn new(
        session: Arc<str>,
        parent: Option<Arc<Parent>>,
        environment: Arc<dyn Environment>,
    ) -> Self {
        Hub { session, parent, environment, seq: 0, run: RunId(0), subscribers: Vec::new() }
    }

    pub(crate) fn subscribe(&mut self, subscriber: Subscriber) {
        self.subscribers.push(subscriber);
    }

    /// Adds a late subscriber, which alone gets the `transient` events so far.
    pub(crate) fn join(&mut self, subscriber: Subscriber, transient: Vec<AgentEvent>) {
        for event in transient {
            push(&subscriber.shared, &self.envelope(event));
        }
        self.subscribe(subscriber);
    }

    /// Sets the run of later events.
    pub(crate) fn set_run(&mut self, run: RunId) {
        self.run = run;
    }

    /// Emits an event that comes from a log entry.
    pub(crate) fn emit(&mut self, event: AgentEvent) {
        self.seq += 1;
        self.emit_transient(event);
    }

    /// Counts an event that was emitted before the session was opened.
    pub(crate) fn skip_seq(&mut self) {
        self.seq += 1;
    }

    /// Emits an event without a log entry, under the last number.
    pub(crate) fn emit_transient(&mut self, event: AgentEvent) {
        if self.subscribers.is_empty() {
            return;
        }
        let ended = matches!(event, AgentEvent::AgentEnd(_));
        let envelope = self.envelope(event);
        self.subscribers.retain(|s| {
            Arc::strong_count(&s.shared) > 1 && push(&s.shared, &envelope) && !(ended && s.one_run)
        });
    }

    fn envelope(&self, event: AgentEvent) -> Arc<Envelope> {
        Arc::new(Envelope {
            seq: self.seq,
            session_id: self.session.clone(),
            run_id: self.run,
            parent: self.parent.clone(),
            time: self.environment.now(),
            event,
        })
    }
}

/// Appends an event to the queue of a subscriber. Returns false if the subscriber is disconnected.
fn push(shared: &Shared, event: &Arc<Envelope>) -> bool {
    let mut queue = shared.queue();
    if queue.unread.len() >= CAPACITY && merge(&mut queue.unread, &event.event) {
        return true;
    }
    if queue.unread.len() >= LAG_LIMIT {
        queue.lagged = true;
        return false;
    }
    queue.unread.push_back(event.clone());
    queue.peak = queue.peak.max(queue.unread.len());
    let waker = queue.waker.take();
    drop(queue);
    if let Some(waker) = waker {
        waker.wake()
    }
    true
}

/// Into the last delta of the same block since the last event that is no delta. The very last
/// event alone would not do: two tools that stream in turn are never neighbours.
fn merge(unread: &mut VecDeque<Arc<Envelope>>, new: &AgentEvent) -> bool {
    if !is_delta(new) {
        return false;
    }
    for old in unread.iter_mut().rev() {
        if !is_delta(&old.event) {
            return false;
        }
        if same_block(&old.event, new) {
            append(&mut Arc::make_mut(old).event, new);
            return true;
        }
    }
    false
}

fn is_delta(event: &AgentEvent) -> bool {
    use Update::*;
    match event {
        AgentEvent::MessageUpdate { update, .. } => {
            matches!(update, Text { .. } | Thinking { .. } | ToolCall { .. })
        }
        AgentEvent::ToolExecutionUpdate { .. } => true,
        _ => false,
    }
}

fn same_block(a: &AgentEvent, b: &AgentEvent) -> bool {
    use AgentEvent::{MessageUpdate, ToolExecutionUpdate};
    match (a, b) {
        (
            MessageUpdate { message_id: m, update: x },
            MessageUpdate { message_id: n, update: y },
        ) => m == n && block(x) == block(y),
        (
            ToolExecutionUpdate { call: x, update: p },
            ToolExecutionUpdate { call: y, update: q },
        ) => x == y && std::mem::discriminant(p) == std::mem::discriminant(q),
        _ => false,
    }
}

fn block(update: &Update) -> Option<u32> {
    match update {
        Update::Text { block, .. }
        | Update::Thinking { block, .. }
        | Update::ToolCall { block, .. } => Some(*block),
        _ => None,
    }
}

fn append(old: &mut AgentEvent, new: &AgentEvent) {
    use AgentEvent::{MessageUpdate, ToolExecutionUpdate};
    use Update::{Text, Thinking, ToolCall};
    match (old, new) {
        (MessageUpdate { update: old, .. }, MessageUpdate { update: new, .. }) => {
            match (old, new) {
                (Text { delta, .. }, Text { delta: more, .. })
                | (Thinking { delta, .. }, Thinking { delta: more, .. })
                | (ToolCall { delta, .. }, ToolCall { delta: more, .. }) => delta.push_str(more),
                _ => {}
            }
        }
        (ToolExecutionUpdate { update: old, .. }, ToolExecutionUpdate { update: new, .. }) => {
            match (old, new) {
                (ToolUpdate::Output(text), ToolUpdate::Output(more)) => text.push_str(more),
                (old, new) => *old = new.clone(), // the last word on progress is enough
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::SystemEnvironment;
    use crate::message::MessageId;

    fn delta(block: u32, text: &str) -> AgentEvent {
        AgentEvent::MessageUpdate {
            message_id: MessageId(1),
            update: Update::Text { block, delta: text.into() },
        }
    }

    fn hub() -> (Hub, EventStream) {
        let mut hub = Hub::new("s".into(), None, Arc::new(SystemEnvironment));
        let (subscriber, stream) = Subscriber::new(false);
        hub.subscribe(subscriber);
        (hub, stream)
    }

    #[test]
    fn a_full_queue_merges_deltas_and_loses_no_word() {
        let (mut hub, mut stream) = hub();
        for i in 0..100_000 {
            hub.emit_transient(delta(i % 2, "x"));
        }
        assert_eq!(stream.peak(), CAPACITY);
        let mut text = 0;
        while let Some(event) = stream.try_next() {
            if let AgentEvent::MessageUpdate { update: Update::Text { delta, .. }, .. } =
                &event.event
            {
                text += delta.len();
            }
        }
        assert_eq!(text, 100_000);
    }

    #[test]
    fn a_reader_that_never_reads_is_disconnected_with_a_sign_of_it() {
        let (mut hub, mut stream) = hub();
        for _ in 0..LAG_LIMIT + 1 {
            hub.emit(AgentEvent::Reset);
        }
        assert!(stream.lagged());
        assert!(hub.subscribers.is_empty());
        let mut read = 0;
        while stream.try_next().is_some() {
            read += 1;
        }
        assert_eq!(read, LAG_LIMIT);
    }

    #[test]
    fn a_dropped_subscriber_is_forgotten_and_seq_counts_on() {
        let (mut hub, stream) = hub();
        drop(stream);
        hub.emit(AgentEvent::Reset);
        assert!(hub.subscribers.is_empty());
        hub.emit(AgentEvent::Reset);
        assert_eq!(hub.seq, 2);
    }
}
