//! Subscribers, each with a queue that is bounded by merging deltas. Pushing never waits, and
//! readers never miss text.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_util::Stream;

use crate::environment::Environment;
use crate::event::{AgentEvent, Envelope, Parent};
use crate::message::RunId;
use crate::model::Update;
use crate::tool::ToolUpdate;

/// From this many unread events, or bytes of text in them, deltas are merged.
const CAPACITY: usize = 1024;
const CAPACITY_BYTES: usize = 1024 * 1024;
/// With this many unread events, or bytes of text in them, a subscriber is cut off.
const LAG_LIMIT: usize = 65_536;
const LAG_LIMIT_BYTES: usize = 32 * 1024 * 1024;
/// Bytes that are kept of a tool's unread output, once it is merged. Up to twice as many are held
/// before older ones are dropped.
const KEPT_OUTPUT_BYTES: usize = 256 * 1024;

/// The events of a session from the time of the subscription. Dropping it unsubscribes.
///
/// A slow reader neither stalls the agent nor loses text of a reply: if 1,024 events or 1 MiB of
/// text are unread, deltas are merged into the last one of their block. Of a running tool's merged
/// output at least the last 256 KiB are kept; the result of the call is complete. If 65,536 events
/// or 32 MiB of text are unread, the stream ends with [`StreamEnd::Lagged`].
///
/// The type implements [`Stream`] too, for the combinators of `futures`.
///
/// ```
/// use loopwright_core::GenericAgent;
/// use loopwright_core::event::AgentEvent;
/// use loopwright_core::model::Update;
/// use loopwright_core::testing::{Script, ScriptedModel};
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
/// let model = ScriptedModel::new([Script::text("Good morning.")]);
/// let agent = GenericAgent::builder(model, Once).build()?;
/// let handle = agent.session().await?;
///
/// let mut run = handle.prompt_stream("Hello").await?; // the events of one run
/// let mut text = String::new();
/// while let Some(envelope) = run.next().await {
///     match &envelope.event {
///         AgentEvent::MessageUpdate { update: Update::Text { delta, .. }, .. } => text += delta,
///         AgentEvent::MessageUpdate { update: Update::Withdrawn, .. } => text.clear(),
///         AgentEvent::AgentEnd(outcome) => assert_eq!(outcome.text, text),
///         _ => {}
///     }
/// }
/// assert_eq!(text, "Good morning.");
/// # Ok(()) }
/// ```
pub struct EventStream(pub(crate) Arc<Shared>);

/// The reason why an [`EventStream`] has ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamEnd {
    /// The session was closed, or has failed.
    #[default]
    Closed,
    /// The run of [`AgentHandle::prompt_stream`](crate::AgentHandle::prompt_stream) has ended.
    RunEnded,
    /// The session has left this process, during a run or between runs: another process has taken
    /// it over or asked for it, or its owner is gone. The later events are in the session's log.
    Moved,
    /// The reader was too slow. The events it has missed are in the session's log, from which an
    /// [`EventReader`](crate::session::EventReader) continues.
    Lagged,
}

pub(crate) struct Shared {
    queue: Mutex<Queue>,
    pub(crate) scope: Scope,
}

#[derive(Default)]
pub(crate) struct Queue {
    pub(crate) unread: VecDeque<Arc<Envelope>>,
    /// The bytes of text in the unread events.
    pub(crate) bytes: usize,
    waker: Option<Waker>,
    closed: bool,
    /// The reason for the end, once the stream is closed.
    end: StreamEnd,
    /// The reader is gone.
    dropped: bool,
    peak: usize,
    /// The number of the last event that was queued.
    pub(crate) seq: u64,
}

impl Queue {
    fn pop(&mut self) -> Option<Arc<Envelope>> {
        let event = self.unread.pop_front()?;
        self.bytes -= text_bytes(&event.event);
        Some(event)
    }
}

impl Shared {
    pub(crate) fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Returns the next unread event, or `None`.
    pub fn try_next(&mut self) -> Option<Arc<Envelope>> {
        self.0.queue().pop()
    }

    /// Returns why the stream has ended, or `None` while it is open. Events can still be unread.
    pub fn end(&self) -> Option<StreamEnd> {
        let queue = self.0.queue();
        queue.closed.then_some(queue.end)
    }

    /// Returns the largest number of events that were unread at the same time.
    pub fn peak(&self) -> usize {
        self.0.queue().peak
    }

    fn poll_event(&self, cx: &mut Context<'_>) -> Poll<Option<Arc<Envelope>>> {
        let mut queue = self.0.queue();
        match queue.pop() {
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

impl Drop for EventStream {
    fn drop(&mut self) {
        self.0.queue().dropped = true;
    }
}

impl Stream for EventStream {
    type Item = Arc<Envelope>;
    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_event(cx)
    }
}

/// The sending end of an [`EventStream`]. Clones send to the same stream, from other sessions of a
/// tree.
#[derive(Clone)]
pub(crate) struct Subscriber {
    sender: Arc<Sender>,
    scope: Scope,
}

/// The events that a subscriber gets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Events of the session until the first `agent_end`.
    Run,
    /// Events of the session.
    Session,
    /// Events of the session and of its sub-agents.
    Tree,
}

/// The sender of a stream. The stream closes when the last session of a tree drops it.
struct Sender(Arc<Shared>);

impl Drop for Sender {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Subscriber {
    pub(crate) fn new(scope: Scope) -> (Self, EventStream) {
        let shared = Arc::new(Shared { queue: Mutex::default(), scope });
        (Subscriber { sender: Arc::new(Sender(shared.clone())), scope }, EventStream(shared))
    }

    /// Returns whether the subscriber gets the events of sub-agents.
    pub(crate) fn is_of_tree(&self) -> bool {
        self.scope == Scope::Tree
    }

    fn shared(&self) -> &Shared {
        &self.sender.0
    }
}

/// The hub of a session's events: wraps them in envelopes and sends them to the subscribers.
pub(crate) struct Hub {
    session: Arc<str>,
    parent: Option<Arc<Parent>>,
    environment: Arc<dyn Environment>,
    seq: u64,
    run: RunId,
    /// The start of a run was emitted, and its end was not.
    run_is_open: bool,
    subscribers: Vec<Subscriber>,
}

impl Hub {
    pub(crate) fn new(
        session: Arc<str>,
        parent: Option<Arc<Parent>>,
        environment: Arc<dyn Environment>,
    ) -> Self {
        Hub {
            session,
            parent,
            environment,
            seq: 0,
            run: RunId(0),
            run_is_open: false,
            subscribers: Vec::new(),
        }
    }

    /// Moves the subscribers into a new hub, and leaves this one without any.
    pub(crate) fn take(&mut self) -> Hub {
        let Hub { session, parent, environment, seq, run, run_is_open, .. } = &*self;
        let (session, parent, environment) = (session.clone(), parent.clone(), environment.clone());
        let (seq, run, run_is_open) = (*seq, *run, *run_is_open);
        let subscribers = std::mem::take(&mut self.subscribers);
        Hub { session, parent, environment, seq, run, run_is_open, subscribers }
    }

    pub(crate) fn subscribe(&mut self, subscriber: Subscriber) {
        self.subscribers.push(subscriber);
    }

    /// Adds a late subscriber. Only it gets the `transient` events so far.
    pub(crate) fn join(&mut self, subscriber: Subscriber, transient: Vec<AgentEvent>) {
        for event in transient {
            push(subscriber.shared(), &self.envelope(self.seq, event));
        }
        self.subscribe(subscriber);
    }

    /// Returns subscribers for the sessions of sub-agents.
    pub(crate) fn tree_subscribers(&self) -> Vec<Subscriber> {
        self.subscribers.iter().filter(|s| s.is_of_tree()).cloned().collect()
    }

    /// Ends all streams because another process has taken over the session.
    pub(crate) fn close_as_moved(&mut self) {
        for subscriber in self.subscribers.drain(..) {
            subscriber.shared().queue().end = StreamEnd::Moved;
        }
    }

    pub(crate) fn session(&self) -> &Arc<str> {
        &self.session
    }

    /// Returns the call that the session works for.
    pub(crate) fn parent(&self) -> Option<&Arc<Parent>> {
        self.parent.as_ref()
    }

    /// Returns whether subscribers wait for the end of a run.
    pub(crate) fn run_is_open(&self) -> bool {
        self.run_is_open
    }

    /// Sets the run of later events.
    pub(crate) fn set_run(&mut self, run: RunId) {
        self.run = run;
    }

    /// Emits an event that comes from a log entry.
    pub(crate) fn emit(&mut self, event: AgentEvent) {
        let has_subscribers = !self.subscribers.is_empty();
        let envelope = has_subscribers.then(|| self.envelope(self.seq + 1, event));
        self.seq += 1;
        envelope.iter().for_each(|envelope| self.send(envelope));
    }

    /// Returns the number of the last event that comes from a log entry, and the last run.
    pub(crate) fn position(&self) -> (u64, RunId) {
        (self.seq, self.run)
    }

    /// Continues after the event with this number.
    pub(crate) fn continue_from(&mut self, seq: u64, run: RunId) {
        (self.seq, self.run) = (seq, run);
    }

    /// Counts an event that was emitted before the session was opened.
    pub(crate) fn skip_seq(&mut self) {
        self.seq += 1;
    }

    /// Emits an event without a log entry, under the last number.
    pub(crate) fn emit_transient(&mut self, event: AgentEvent) {
        if !self.subscribers.is_empty() {
            self.send(&self.envelope(self.seq, event));
        }
    }

    /// Forwards an event that the owner of the session has emitted.
    pub(crate) fn publish(&mut self, event: Envelope) {
        (self.seq, self.run) = (event.seq, event.run_id);
        self.send(&Arc::new(event));
    }

    fn send(&mut self, envelope: &Arc<Envelope>) {
        let ended = matches!(envelope.event, AgentEvent::AgentEnd(_));
        let started = matches!(envelope.event, AgentEvent::AgentStart { .. });
        self.run_is_open = started || self.run_is_open && !ended;
        self.subscribers.retain(|subscriber| {
            let is_open = push(subscriber.shared(), envelope);
            let is_done = ended && subscriber.scope == Scope::Run;
            if is_open && is_done {
                subscriber.shared().queue().end = StreamEnd::RunEnded;
            }
            is_open && !is_done
        });
    }

    fn envelope(&self, seq: u64, event: AgentEvent) -> Arc<Envelope> {
        Arc::new(Envelope {
            seq,
            session_id: self.session.clone(),
            run_id: self.run,
            parent: self.parent.clone(),
            time: self.environment.now(),
            event,
        })
    }
}

/// Appends an event to the queue of a subscriber. Returns `false` if the subscriber is
/// disconnected.
fn push(shared: &Shared, event: &Arc<Envelope>) -> bool {
    let mut queue = shared.queue();
    if queue.dropped {
        return false;
    }
    let is_full = queue.unread.len() >= CAPACITY || queue.bytes >= CAPACITY_BYTES;
    if is_full && let Some(added) = merge(&mut queue.unread, &event.event) {
        queue.bytes = queue.bytes.saturating_add_signed(added);
        return true;
    }
    if queue.unread.len() >= LAG_LIMIT || queue.bytes >= LAG_LIMIT_BYTES {
        queue.end = StreamEnd::Lagged;
        return false;
    }
    queue.bytes += text_bytes(&event.event);
    queue.unread.push_back(event.clone());
    queue.seq = event.seq;
    queue.peak = queue.peak.max(queue.unread.len());
    let waker = queue.waker.take();
    drop(queue);
    if let Some(waker) = waker {
        waker.wake()
    }
    true
}

/// Merges a delta into the last delta of the same block, if only deltas follow that one. Returns by
/// how many bytes it grew. Comparing with the very last event is not enough: the events of two
/// tools that stream at once alternate.
fn merge(unread: &mut VecDeque<Arc<Envelope>>, new: &AgentEvent) -> Option<isize> {
    if !is_delta(new) {
        return None;
    }
    let same = |old: &&mut Arc<Envelope>| same_block(&old.event, new);
    let old = unread.iter_mut().rev().take_while(|old| is_delta(&old.event)).find(same)?;
    let before = text_bytes(&old.event);
    append(&mut Arc::make_mut(old).event, new);
    Some(text_bytes(&old.event) as isize - before as isize)
}

/// Returns the bytes of text that only this event holds. Text shared with the log is not counted.
pub(crate) fn text_bytes(event: &AgentEvent) -> usize {
    use AgentEvent::{DetachedUpdate, MessageUpdate, QueueUpdate, ToolExecutionUpdate};
    use Update::{Text, Thinking, ToolCall};
    match event {
        MessageUpdate { update, .. } | DetachedUpdate { update, .. } => match update {
            Text { delta, .. } | Thinking { delta, .. } | ToolCall { delta, .. } => delta.len(),
            _ => 0,
        },
        ToolExecutionUpdate { update: ToolUpdate::Output(text), .. } => text.len(),
        QueueUpdate { added, .. } => added.as_ref().map_or(0, |added| added.text.len()),
        _ => 0,
    }
}

fn is_delta(event: &AgentEvent) -> bool {
    use Update::*;
    match event {
        AgentEvent::MessageUpdate { update, .. } | AgentEvent::DetachedUpdate { update, .. } => {
            matches!(update, Text { .. } | Thinking { .. } | ToolCall { .. })
        }
        AgentEvent::ToolExecutionUpdate { .. } => true,
        _ => false,
    }
}

fn same_block(a: &AgentEvent, b: &AgentEvent) -> bool {
    use AgentEvent::{DetachedUpdate, MessageUpdate, ToolExecutionUpdate};
    match (a, b) {
        (
            MessageUpdate { message_id: m, update: x },
            MessageUpdate { message_id: n, update: y },
        )
        | (
            DetachedUpdate { message_id: m, update: x, .. },
            DetachedUpdate { message_id: n, update: y, .. },
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
    use AgentEvent::{DetachedUpdate, MessageUpdate, ToolExecutionUpdate};
    use Update::{Text, Thinking, ToolCall};
    match (old, new) {
        (MessageUpdate { update: old, .. }, MessageUpdate { update: new, .. })
        | (DetachedUpdate { update: old, .. }, DetachedUpdate { update: new, .. }) => {
            match (old, new) {
                (Text { delta, .. }, Text { delta: more, .. })
                | (Thinking { delta, .. }, Thinking { delta: more, .. })
                | (ToolCall { delta, .. }, ToolCall { delta: more, .. }) => delta.push_str(more),
                _ => {}
            }
        }
        (ToolExecutionUpdate { update: old, .. }, ToolExecutionUpdate { update: new, .. }) => {
            match (old, new) {
                (ToolUpdate::Output(text), ToolUpdate::Output(more)) => {
                    text.push_str(more);
                    keep_end(text, KEPT_OUTPUT_BYTES);
                }
                (old, new) => *old = new.clone(), // the last word on progress is enough
            }
        }
        _ => {}
    }
}

/// Drops the start of a text of more than twice `bytes`, so that the last `bytes` remain.
pub(crate) fn keep_end(text: &mut String, bytes: usize) {
    if text.len() > 2 * bytes {
        let from = text.ceil_char_boundary(text.len() - bytes);
        text.drain(..from);
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
        let (subscriber, stream) = Subscriber::new(Scope::Session);
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

    fn output(call: &str, text: &str) -> AgentEvent {
        AgentEvent::ToolExecutionUpdate {
            call: call.into(),
            update: ToolUpdate::Output(text.into()),
        }
    }

    fn bytes(stream: &mut EventStream) -> usize {
        std::iter::from_fn(|| stream.try_next()).map(|event| text_bytes(&event.event)).sum()
    }

    #[test]
    fn the_end_of_unread_output_is_kept() {
        let (mut hub, mut stream) = hub();
        let chunk = "é".repeat(50_000);
        for n in 0..2_000 {
            hub.emit_transient(output(if n % 2 == 0 { "a" } else { "b" }, &chunk));
        }
        hub.emit_transient(output("a", "the end"));
        let held = stream.0.queue().bytes;
        assert!(held < 3 * CAPACITY_BYTES, "{held}");
        assert!(stream.end().is_none());
        let last = stream.0.queue().unread.iter().rev().find_map(|event| match &event.event {
            AgentEvent::ToolExecutionUpdate { call, update: ToolUpdate::Output(text) }
                if **call == *"a" =>
            {
                Some(text.clone())
            }
            _ => None,
        });
        let last = last.unwrap();
        assert!(last.ends_with("the end") && last.len() >= KEPT_OUTPUT_BYTES, "{}", last.len());
        assert_eq!((bytes(&mut stream), stream.0.queue().bytes), (held, 0));
    }

    #[test]
    fn a_reader_with_too_much_unread_text_is_disconnected() {
        let (mut hub, mut stream) = hub();
        let chunk = "x".repeat(100_000);
        for _ in 0..1_000 {
            hub.emit_transient(delta(1, &chunk));
            hub.emit(AgentEvent::Reset); // so that deltas cannot be merged
        }
        assert!(stream.end() == Some(StreamEnd::Lagged) && hub.subscribers.is_empty());
        let read = bytes(&mut stream);
        assert!((LAG_LIMIT_BYTES..LAG_LIMIT_BYTES + 200_000).contains(&read), "{read}");
    }

    #[test]
    fn a_reader_that_never_reads_is_disconnected_with_a_sign_of_it() {
        let (mut hub, mut stream) = hub();
        for _ in 0..LAG_LIMIT + 1 {
            hub.emit(AgentEvent::Reset);
        }
        assert_eq!(stream.end(), Some(StreamEnd::Lagged));
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
