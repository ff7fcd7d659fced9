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
pub struct SessionLog(Fold);

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
        let mut fold = Fold::default();
        items.iter().for_each(|item| fold.apply(item, &mut |_| {}));
        SessionLog(fold)
    }

    /// The numbered events that tell of this log, from its first item on: the same as its session
    /// has told, with the same numbers, whatever happened in between. Deltas and progress are not
    /// kept. An event's time is the last one that the log tells of.
    pub fn events(session: impl Into<Arc<str>>, items: &[LogEntry]) -> Vec<Envelope> {
        let session_id = session.into();
        let (mut fold, mut events, mut run_id, mut time) =
            (Fold::default(), Vec::new(), RunId(0), 0);
        for item in items {
            match item {
                LogEntry::Opened { time: at, .. } => time = time.max(*at),
                LogEntry::RunStarted { run, time: at, .. } => (run_id, time) = (*run, *at),
                LogEntry::RunEnded { time: at, .. } | LogEntry::CallAwaiting { time: at, .. } => {
                    time = *at
                }
                _ => {}
            }
            fold.apply(item, &mut |event| {
                let (seq, session_id) = (events.len() as u64 + 1, session_id.clone());
                events.push(Envelope { seq, session_id, run_id, parent: None, time, event });
            });
        }
        events
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
        let session_id = session.into();
        let mut events = Self::events(session_id.clone(), items);
        let mut told = events.split_off((after as usize).min(events.len()));
        let (run_id, time) = events.last().map_or((RunId(0), 0), |last| (last.run_id, last.time));
        let withdrawn = lost_replies(items, after).into_iter().map(|message_id| {
            let event = AgentEvent::MessageUpdate { message_id, update: Update::Withdrawn };
            Envelope {
                seq: after,
                session_id: session_id.clone(),
                run_id,
                parent: None,
                time,
                event,
            }
        });
        told.splice(..0, withdrawn);
        told
    }

    /// Everything that was said.
    pub fn messages(&self) -> History {
        self.0.history.clone()
    }

    /// What the next request would show the model, before hooks.
    pub fn context(&self) -> History {
        self.0.context.clone()
    }

    /// The calls that wait for an answer from outside.
    pub fn pending(&self) -> Vec<ExternalAction> {
        self.0.pending().map(|action| (**action).clone()).collect()
    }

    /// What the host needs to open the session again.
    pub fn settings(&self) -> Option<&Arc<Value>> {
        self.0.settings.as_ref()
    }

    /// The run that goes on, or that a crash interrupted.
    pub fn run(&self) -> Option<RunId> {
        self.0.run
    }

    /// Whether a request went out and the log does not say yet what became of it.
    #[cfg(feature = "testing")]
    pub(crate) fn awaits_reply(&self) -> bool {
        self.0.requested.is_some()
    }

    /// Messages that wait, in order of arrival.
    pub fn waiting(&self) -> Vec<(QueueKind, Arc<Message>)> {
        self.0.waiting().map(|w| (w.kind, w.message.clone())).collect()
    }

    /// A value that the pattern has kept.
    pub fn state<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        T::deserialize(&**self.0.state.get(key)?).ok()
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
        let SessionLog(fold) = SessionLog::of(&items[..shared as usize]);
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

/// Replies that streamed when the last event told was number `after`, and that are not in the log.
fn lost_replies(items: &[LogEntry], after: u64) -> Vec<MessageId> {
    let (mut fold, mut seq, mut lost) = (Fold::default(), 0, Vec::new());
    // The reply that streams, and the number of the last event before it.
    let mut streams: Option<(MessageId, u64)> = None;
    for item in items {
        let ends = matches!(
            item,
            LogEntry::Opened { .. } | LogEntry::RunEnded { .. } | LogEntry::RequestStarted { .. }
        );
        lost.extend(streams.take_if(|_| ends).filter(|(_, from)| (*from..=seq).contains(&after)));
        streams.take_if(
            |(id, _)| matches!(item, LogEntry::Replied { message, .. } if message.id == *id),
        );
        fold.apply(item, &mut |_| seq += 1);
        if let LogEntry::RequestStarted { message, .. } = item {
            streams = Some((*message, seq));
        }
    }
    lost.extend(streams.filter(|(_, from)| *from <= after));
    lost.into_iter().map(|(id, _)| id).collect()
}
