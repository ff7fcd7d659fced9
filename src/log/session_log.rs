//! [`SessionLog`], a reader of logs, which also finds the points where a log can be forked.

#[cfg(feature = "testing")]
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::environment::{Environment, SystemEnvironment};
use crate::event::Envelope;
use crate::event::action::ExternalAction;
use crate::event::input::QueueKind;
use crate::event::outcome::RunStatus;
use crate::event::owner_note::Held;
use crate::limits::Spent;
use crate::log::due::Due;
use crate::log::entry::{LogEntry, StateScope};
use crate::log::follower::Follower;
use crate::log::stages::Stage;
use crate::log::state::SessionState;
use crate::log::turn::Used;
use crate::message::{History, InputId, Message, MessageId, RunId};

/// The state of a session, read from its log without opening the session.
///
/// ```
/// use loopwright_core::log::{LogEntry, SessionLog};
/// use serde_json::json;
///
/// let settings = LogEntry::Settings { settings: json!({ "model": "m" }).into() };
/// let log = SessionLog::of(&[settings]);
/// assert_eq!(log.settings().unwrap()["model"], "m");
/// assert!(log.messages().is_empty() && log.pending().is_empty());
/// ```
pub struct SessionLog {
    state: SessionState,
    /// Number of the last event.
    last_seq: u64,
}

/// The start of a fork, for stores whose [`fork`](crate::SessionStore::fork) shares entries instead
/// of copying them.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Branch {
    /// Number of entries that the fork shares.
    pub shared: u64,
    /// First entries of the fork, which empty its queues, end its run and cancel its
    /// timers.
    pub entries: Vec<LogEntry>,
}

impl Branch {
    /// Returns the whole log of the fork, given its parent's log.
    pub fn log(self, mut parent: Vec<LogEntry>) -> Vec<LogEntry> {
        parent.truncate(self.shared as usize);
        parent.extend(self.entries);
        parent
    }
}

impl SessionLog {
    /// Reads a log from its first entry.
    pub fn of(entries: &[LogEntry]) -> Self {
        let (mut state, mut last_seq) = (SessionState::default(), 0);
        entries.iter().for_each(|entry| state.apply(entry, &mut |_| last_seq += 1));
        SessionLog { state, last_seq }
    }

    /// Returns the numbered events of a log, read from its first entry, as a [`Follower`] derives
    /// them.
    pub fn events(session: impl Into<Arc<str>>, entries: &[LogEntry]) -> Vec<Envelope> {
        Self::events_after(session, entries, 0)
    }

    /// Returns the events for a reader that reconnects after the event with number `after`.
    ///
    /// They begin with an [`Update::Withdrawn`](crate::model::Update::Withdrawn) for each reply
    /// whose deltas are void. Such a reply did not complete in the meantime, because of a crash, or
    /// an abort before any text. The numbered events after `after` follow. The reader ignores
    /// updates of messages that it does not know.
    pub fn events_after(
        session: impl Into<Arc<str>>,
        entries: &[LogEntry],
        after: u64,
    ) -> Vec<Envelope> {
        Self::resume(session, entries, after).1
    }

    /// Reads a log once, and returns it together with the [events after](Self::events_after) number
    /// `after`.
    pub fn resume(
        session: impl Into<Arc<str>>,
        entries: &[LogEntry],
        after: u64,
    ) -> (Self, Vec<Envelope>) {
        let session_id = session.into();
        let mut follower = Follower::new(session_id.clone());
        let mut missed = follower.take(entries);
        let first = missed.partition_point(|event| event.seq <= after);
        let seen = missed[..first].last().map(|event| (event.run_id, event.time));
        let (run, time) = seen.unwrap_or((RunId(0), 0));
        let withdrawn = follower.withdrawn(after).into_iter().map(|event| {
            let mut envelope = Envelope::new(after, session_id.clone(), run, time, event);
            envelope.parent = missed.last().and_then(|event| event.parent.clone());
            envelope
        });
        let withdrawn: Vec<Envelope> = withdrawn.collect();
        missed.splice(..first, withdrawn);
        let last_seq = follower.last_seq();
        (SessionLog { state: follower.into_state(), last_seq }, missed)
    }

    /// Returns the epoch of the session: the number of openings so far. The next opening has the
    /// next epoch.
    pub fn epoch(&self) -> u64 {
        self.state.epoch
    }

    /// Returns the number of the last event of this log, or 0 without events.
    pub fn last_seq(&self) -> u64 {
        self.last_seq
    }

    /// Returns all messages of the conversation.
    pub fn messages(&self) -> History {
        self.state.history.clone()
    }

    /// Returns the messages that the next request would contain, before hooks.
    pub fn context(&self) -> History {
        self.state.context.clone()
    }

    /// Returns the pending actions.
    pub fn pending(&self) -> Vec<ExternalAction> {
        self.state.pending().map(|action| (**action).clone()).collect()
    }

    /// Returns the host's settings to open the session again.
    pub fn settings(&self) -> Option<&Arc<Value>> {
        self.state.info.settings.as_ref()
    }

    /// Returns the run in progress, or the run that a crash interrupted.
    pub fn run(&self) -> Option<RunId> {
        self.state.info.run
    }

    /// Returns the session's next work when it is opened, like
    /// [`SessionInfo::due`](crate::log::SessionInfo::due).
    pub fn due(&self) -> Option<Due> {
        self.state.info.due
    }

    /// Returns whether opening the session now means that too many owners were lost.
    pub(crate) fn has_lost_owners(&self) -> bool {
        self.state.info.owners.is_lost(self.state.info.has_work())
    }

    /// Returns the sessions of the sub-agents that work for the open batch.
    pub(crate) fn children(&self) -> Vec<Arc<str>> {
        self.state.children().map(|(_, child)| child.session.clone()).collect()
    }

    /// Returns the reason why the session waits for a person; see
    /// [`SessionInfo::held`](crate::log::SessionInfo::held).
    pub fn held(&self) -> Option<Held> {
        self.state.info.held
    }

    /// Returns whether the outcome of a sent request is missing from the log.
    #[cfg(feature = "testing")]
    pub(crate) fn awaits_reply(&self) -> bool {
        self.state.requested.is_some()
    }

    /// Returns the spending of the session: all its requests, including the time before a reset,
    /// and the time of completed runs. [`Budget::left`](crate::limits::Budget::left) computes the
    /// rest of a [`Budget`](crate::limits::Budget).
    pub fn spent(&self) -> Spent {
        self.state.spent_of(self.state.total())
    }

    /// Returns the usage with which the session's parent is charged.
    pub(crate) fn used(&self) -> Used {
        self.state.used()
    }

    /// Returns the values that the pattern stored, by scope and key.
    #[cfg(feature = "testing")]
    pub(crate) fn all_state(&self) -> BTreeMap<(StateScope, Arc<str>), Arc<Value>> {
        self.state.values.clone()
    }

    /// Returns the stages of the pattern's work on the last request of the user.
    pub fn stages(&self) -> &[Stage] {
        &self.state.stages
    }

    /// Returns the queued messages in order of arrival.
    pub fn waiting(&self) -> Vec<(QueueKind, Arc<Message>)> {
        self.state.waiting().map(|w| (w.kind, w.message.clone())).collect()
    }

    /// Returns the pattern's value under this key.
    pub fn state<T: DeserializeOwned>(&self, scope: StateScope, key: &str) -> Option<T> {
        T::deserialize(&**self.state.values.get(&(scope, key.into()))?).ok()
    }

    /// Returns the number of entries of a log up to and including the entry that adds this message
    /// to the conversation, or `None` if no entry does. A fork at a message shares about as many
    /// ([`SessionStore::fork`](crate::SessionStore::fork)).
    pub fn entries_up_to(entries: &[LogEntry], message: MessageId) -> Option<u64> {
        let has_it = |entry: &LogEntry| entry.message().is_some_and(|one| one.id == message);
        let index = entries.iter().position(has_it)?;
        let index = match &entries[index] {
            LogEntry::Queued { input, .. } => entries.iter().position(
                |entry| matches!(entry, LogEntry::Delivered { input: other } if other == input),
            )?,
            _ => index,
        };
        Some(index as u64 + 1)
    }

    /// Returns the start of a fork after the first `at` entries, or at the last end of a turn
    /// before that. `None` means the last end of a turn in the log.
    pub fn branch(entries: &[LogEntry], at: Option<u64>) -> Branch {
        let end = at.map_or(entries.len(), |at| (at as usize).min(entries.len()));
        let (mut state, mut shared) = (SessionState::default(), 0);
        for entry in &entries[..end] {
            state.apply(entry, &mut |_| {});
            if state.batch.is_none() && !state.turn.open {
                shared = state.info.entries;
            }
        }
        let SessionLog { state, .. } = SessionLog::of(&entries[..shared as usize]);
        let waiting = |request: bool| -> Vec<InputId> {
            let waiting = state.waiting().filter(|w| (w.kind == QueueKind::Request) == request);
            waiting.map(|w| w.input.clone()).collect()
        };
        let (requests, others) = (waiting(true), waiting(false));
        let mut first = Vec::new();
        if !requests.is_empty() {
            first.push(LogEntry::Withdrawn { inputs: requests });
        }
        match state.info.run {
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
        first.extend(state.info.wait_cancellations());
        Branch { shared, entries: first }
    }
}
