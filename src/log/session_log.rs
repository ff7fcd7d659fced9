//! [`SessionLog`]: what a log says, for whoever only reads it; and where it can be forked.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::environment::{Environment, SystemEnvironment};
use crate::log::entry::LogEntry;
use crate::log::event::{AgentEvent, Envelope, ExternalAction, RunStatus};
use crate::log::fold::Fold;
use crate::log::input::QueueKind;
use crate::message::{History, InputId, Message, MessageId, RunId};
use crate::model::Update;

/// What a session's log says, for a reader that does not own the session.
pub struct SessionLog {
    fold: Fold,
    /// The number of the last event.
    last_seq: u64,
}

/// How a branch begins; for a store whose [`fork`](crate::SessionStore::fork) shares the past
/// instead of copying it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Branch {
    /// Items of the past that it keeps.
    pub shared: u64,
    /// What it writes first, so that nothing waits in it and no run goes on.
    pub items: Vec<LogEntry>,
}

impl Branch {
    /// Its whole log, made of that of its past.
    pub fn log(self, mut past: Vec<LogEntry>) -> Vec<LogEntry> {
        past.truncate(self.shared as usize);
        past.extend(self.items);
        past
    }
}

impl SessionLog {
    /// What this log says, from its first item on.
    pub fn of(items: &[LogEntry]) -> Self {
        let (mut fold, mut last_seq) = (Fold::default(), 0);
        items.iter().for_each(|item| fold.apply(item, &mut |_| last_seq += 1));
        SessionLog { fold, last_seq }
    }

    /// The numbered events that tell of this log, from its first item on: the same as its session
    /// has told, with the same numbers, whatever happened in between. Deltas and progress are not
    /// kept. An event's time is the last one that the log tells of.
    pub fn events(session: impl Into<Arc<str>>, items: &[LogEntry]) -> Vec<Envelope> {
        Self::events_after(session, items, 0)
    }

    /// What a reader is told that has seen the events up to number `after` and was cut off: which
    /// replies it has to forget, because they came to nothing while it was away (a crash, an abort
    /// before a word was said), and then the numbered events after `after`. To withdraw what the
    /// reader has not seen changes nothing for it.
    pub fn events_after(
        session: impl Into<Arc<str>>,
        items: &[LogEntry],
        after: u64,
    ) -> Vec<Envelope> {
        Self::resume(session, items, after).1
    }

    /// Returns what a log says together with the [events after](Self::events_after) number
    /// `after`. It reads the log once.
    pub fn resume(
        session: impl Into<Arc<str>>,
        items: &[LogEntry],
        after: u64,
    ) -> (Self, Vec<Envelope>) {
        let session_id = session.into();
        let envelope = |seq, (run_id, time), event| {
            let session_id = session_id.clone();
            Envelope { seq, session_id, run_id, parent: None, time, event }
        };
        let (mut fold, mut seq, mut missed) = (Fold::default(), 0, Vec::new());
        let mut lost = LostReplies { seen_seq: after, streams: None, lost: Vec::new() };
        // Run and time of the events now, and of the last one that the reader has seen.
        let (mut now, mut seen) = ((RunId(0), 0), (RunId(0), 0));
        for item in items {
            match item {
                LogEntry::Opened { time, .. } => now.1 = now.1.max(*time),
                LogEntry::RunStarted { run, time, .. } => now = (*run, *time),
                LogEntry::RunEnded { time, .. } | LogEntry::CallAwaiting { time, .. } => {
                    now.1 = *time
                }
                _ => {}
            }
            lost.before(item, seq);
            fold.apply(item, &mut |event| {
                seq += 1;
                match seq > after {
                    true => missed.push(envelope(seq, now, event)),
                    false => seen = now,
                }
            });
            lost.after(item, seq);
        }
        let withdrawn = lost.end().into_iter().map(|message_id| {
            let event = AgentEvent::MessageUpdate { message_id, update: Update::Withdrawn };
            envelope(after, seen, event)
        });
        missed.splice(..0, withdrawn);
        (SessionLog { fold, last_seq: seq }, missed)
    }

    /// Returns the number of the last event of this log, or 0 if it has no events.
    pub fn last_seq(&self) -> u64 {
        self.last_seq
    }

    /// Everything that was said.
    pub fn messages(&self) -> History {
        self.fold.history.clone()
    }

    /// What the next request would show the model, before hooks.
    pub fn context(&self) -> History {
        self.fold.context.clone()
    }

    /// The calls that wait for an answer from outside.
    pub fn pending(&self) -> Vec<ExternalAction> {
        self.fold.pending().map(|action| (**action).clone()).collect()
    }

    /// What the host needs to open the session again.
    pub fn settings(&self) -> Option<&Arc<Value>> {
        self.fold.settings.as_ref()
    }

    /// The run that goes on, or that a crash interrupted.
    pub fn run(&self) -> Option<RunId> {
        self.fold.run
    }

    /// Whether a request went out and the log does not say yet what became of it.
    #[cfg(feature = "testing")]
    pub(crate) fn awaits_reply(&self) -> bool {
        self.fold.requested.is_some()
    }

    /// Messages that wait, in order of arrival.
    pub fn waiting(&self) -> Vec<(QueueKind, Arc<Message>)> {
        self.fold.waiting().map(|w| (w.kind, w.message.clone())).collect()
    }

    /// A value that the pattern has kept.
    pub fn state<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        T::deserialize(&**self.fold.state.get(key)?).ok()
    }

    /// Where a branch after the first `at` items begins: there, or at the last place before it that
    /// is between turns. With `None`, after the last place of the log that is between turns.
    pub fn branch(items: &[LogEntry], at: Option<u64>) -> Branch {
        let end = at.map_or(items.len(), |at| (at as usize).min(items.len()));
        let (mut fold, mut shared) = (Fold::default(), 0);
        for item in &items[..end] {
            fold.apply(item, &mut |_| {});
            if fold.batch.is_none() && !fold.turn.open {
                shared = fold.len;
            }
        }
        let SessionLog { fold, .. } = SessionLog::of(&items[..shared as usize]);
        let waiting = |request: bool| -> Vec<InputId> {
            let waiting = fold.waiting().filter(|w| (w.kind == QueueKind::Request) == request);
            waiting.map(|w| w.input.clone()).collect()
        };
        let (requests, others) = (waiting(true), waiting(false));
        let mut first = Vec::new();
        if !requests.is_empty() {
            first.push(LogEntry::Withdrawn { inputs: requests });
        }
        match fold.run {
            Some(run) => first.push(LogEntry::RunEnded {
                run,
                end: RunStatus::Aborted,
                time: SystemEnvironment.now(),
                error: Some("the session was forked in the middle of this run".into()),
                model_error: None,
                limit: None,
                value: None,
                handed_back: others,
            }),
            None if !others.is_empty() => first.push(LogEntry::Withdrawn { inputs: others }),
            None => {}
        }
        Branch { shared, items: first }
    }
}

/// Finds the replies that streamed when the reader saw its last event, and that are not in the log.
struct LostReplies {
    /// The number of the last event that the reader has seen.
    seen_seq: u64,
    /// The reply that streams, and the number of the last event before it.
    streams: Option<(MessageId, u64)>,
    lost: Vec<MessageId>,
}

impl LostReplies {
    /// Handles an entry that comes after event number `seq`, before it is applied.
    fn before(&mut self, item: &LogEntry, seq: u64) {
        match item {
            LogEntry::Opened { .. }
            | LogEntry::RunEnded { .. }
            | LogEntry::RequestStarted { .. } => {
                let streamed = self.streams.take();
                let lost = streamed.filter(|(_, from)| (*from..=seq).contains(&self.seen_seq));
                self.lost.extend(lost.map(|(id, _)| id));
            }
            LogEntry::Replied { message, .. } => {
                self.streams.take_if(|(id, _)| message.id == *id);
            }
            _ => {}
        }
    }

    /// Handles an entry whose last event has number `seq`, after it was applied.
    fn after(&mut self, item: &LogEntry, seq: u64) {
        if let LogEntry::RequestStarted { message, .. } = item {
            self.streams = Some((*message, seq));
        }
    }

    /// Returns the lost replies, in the order of the log.
    fn end(mut self) -> Vec<MessageId> {
        let streams = self.streams.filter(|(_, from)| *from <= self.seen_seq);
        self.lost.extend(streams.map(|(id, _)| id));
        self.lost
    }
}
