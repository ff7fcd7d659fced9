//! [`Past`]: what a log says, for whoever only reads it; and where it can be forked.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::ambient::{Ambient, SystemAmbient};
use crate::event::{EndKind, Envelope, ExternalAction};
use crate::fold::Fold;
use crate::input::Lane;
use crate::item::Item;
use crate::message::{History, InputId, Message, RunId};

/// What a session's log says, for a reader that does not own the session.
pub struct Past(Fold);

/// How a branch begins; for a store whose [`fork`](crate::MemoryStore::fork) shares the past instead of copying it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Branch {
    /// Items of the past that it keeps.
    pub shared: u64,
    /// What it writes first, so that nothing waits in it and no run goes on.
    pub items: Vec<Item>,
}

impl Past {
    /// What this log says, from its first item on.
    pub fn of(items: &[Item]) -> Self {
        let mut fold = Fold::default();
        items.iter().for_each(|item| fold.apply(item, &mut |_| {}));
        Past(fold)
    }

    /// The numbered events that tell of this log, from its first item on: the same as its session has told, with the
    /// same numbers, whatever happened in between. Deltas and progress are not kept. An event's time is the last one
    /// that the log tells of.
    pub fn events(session: impl Into<Arc<str>>, items: &[Item]) -> Vec<Envelope> {
        let session_id = session.into();
        let (mut fold, mut events, mut run_id, mut time) = (Fold::default(), Vec::new(), RunId(0), 0);
        for item in items {
            match item {
                Item::RunStarted { run, time: at, .. } => (run_id, time) = (*run, *at),
                Item::RunEnded { time: at, .. } | Item::CallAwaiting { time: at, .. } => time = *at,
                _ => {}
            }
            fold.apply(item, &mut |event| {
                let (seq, session_id) = (events.len() as u64 + 1, session_id.clone());
                events.push(Envelope { seq, session_id, run_id, parent: None, time, event });
            });
        }
        events
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
    pub(crate) fn awaits_reply(&self) -> bool {
        self.0.requested.is_some()
    }
    /// Messages that wait, in order of arrival.
    pub fn waiting(&self) -> Vec<(Lane, Arc<Message>)> {
        self.0.queue.iter().map(|w| (w.lane, w.message.clone())).collect()
    }
    /// A value that the pattern has kept.
    pub fn state<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        T::deserialize(&**self.0.state.get(key)?).ok()
    }

    /// Where a branch after the first `at` items begins: there, or at the last place before it that is between turns.
    /// With `None`, after the last place of the log that is between turns.
    pub fn branch(items: &[Item], at: Option<u64>) -> Branch {
        let end = at.map_or(items.len(), |at| (at as usize).min(items.len()));
        let (mut fold, mut shared) = (Fold::default(), 0);
        for item in &items[..end] {
            fold.apply(item, &mut |_| {});
            if fold.batch.is_none() && !fold.turn.open {
                shared = fold.len;
            }
        }
        let Past(fold) = Past::of(&items[..shared as usize]);
        let waiting = |request: bool| -> Vec<InputId> {
            let waiting = fold.queue.iter().filter(|w| (w.lane == Lane::Request) == request);
            waiting.map(|w| w.input.clone()).collect()
        };
        let (requests, others) = (waiting(true), waiting(false));
        let mut first = Vec::new();
        if !requests.is_empty() {
            first.push(Item::Withdrawn { inputs: requests });
        }
        match fold.run {
            Some(run) => first.push(Item::RunEnded {
                run,
                end: EndKind::Aborted,
                time: SystemAmbient.now(),
                error: Some("the session was forked in the middle of this run".into()),
                model_error: None,
                limit: None,
                value: None,
                handed_back: others,
            }),
            None if !others.is_empty() => first.push(Item::Withdrawn { inputs: others }),
            None => {}
        }
        Branch { shared, items: first }
    }
}
