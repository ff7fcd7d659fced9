//! [`Follower`]: the numbered events of a session, from a growing log.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::event::{Envelope, Parent};
use crate::log::entry::LogEntry;
use crate::log::state::SessionState;
use crate::message::{MessageId, RunId};

/// A reader that derives the numbered events of a session from its log, a few entries at a time.
/// The session emitted the same events with the same numbers. Deltas and progress are not stored.
/// The time of an event is the last time in the log before it.
///
/// ```
/// use loopwright_core::log::{Follower, LogEntry};
///
/// let mut follower = Follower::new("s");
/// assert_eq!(follower.take(&[LogEntry::Reset]).len(), 1);
/// let later = follower.take(&[LogEntry::Reset]);
/// assert_eq!((later[0].seq, follower.last_seq(), follower.entries()), (2, 2, 2));
/// ```
pub struct Follower {
    session_id: Arc<str>,
    state: SessionState,
    /// Number of the last event.
    seq: u64,
    /// The run and time of the next events.
    now: (RunId, u64),
    /// The call that the session works for, as of the last opening.
    parent: Option<Arc<Parent>>,
    /// The streaming reply, and the number of the last event before it.
    streams: Option<(MessageId, u64)>,
    /// Incomplete replies, each with the range of last events of readers that may have seen part of
    /// it.
    lost: Vec<(MessageId, RangeInclusive<u64>)>,
}

impl Follower {
    /// Starts before the first entry of a session's log.
    pub fn new(session: impl Into<Arc<str>>) -> Self {
        Follower {
            session_id: session.into(),
            state: SessionState::default(),
            seq: 0,
            now: (RunId(0), 0),
            parent: None,
            streams: None,
            lost: Vec::new(),
        }
    }

    /// Returns the events of the next entries.
    pub fn take(&mut self, entries: &[LogEntry]) -> Vec<Envelope> {
        let mut events = Vec::new();
        for entry in entries {
            self.take_entry(entry, &mut events);
        }
        events
    }

    fn take_entry(&mut self, entry: &LogEntry, events: &mut Vec<Envelope>) {
        match entry {
            LogEntry::Opened { time, parent, .. } => {
                (self.now.1, self.parent) = (self.now.1.max(*time), parent.clone());
            }
            LogEntry::RunStarted { run, time, .. } => self.now = (*run, *time),
            LogEntry::RunEnded { time, .. }
            | LogEntry::CallAwaiting { time, .. }
            | LogEntry::ChildAwaits { time, .. }
            | LogEntry::Approved { time, .. }
            | LogEntry::Decided { time, .. } => self.now.1 = *time,
            _ => {}
        }
        self.close_stream(entry);
        let Follower { session_id, state, seq, now: (run, time), parent, .. } = self;
        state.apply(entry, &mut |event| {
            *seq += 1;
            let mut envelope = Envelope::new(*seq, session_id.clone(), *run, *time, event);
            envelope.parent = parent.clone();
            events.push(envelope);
        });
        if let LogEntry::RequestStarted { message, .. } = entry {
            self.streams = Some((*message, self.seq));
        }
    }

    /// Records that this entry completes or loses a streaming reply.
    fn close_stream(&mut self, entry: &LogEntry) {
        match entry {
            LogEntry::Opened { .. }
            | LogEntry::RunEnded { .. }
            | LogEntry::RequestStarted { .. } => {
                let streamed = self.streams.take();
                self.lost.extend(streamed.map(|(id, from)| (id, from..=self.seq)));
            }
            LogEntry::Replied { message, .. } => {
                self.streams.take_if(|(id, _)| message.id == *id);
            }
            _ => {}
        }
    }

    /// Returns the replies whose deltas are void for a reader that has seen the events up to number
    /// `after`: the reader may have received deltas, but the log lacks the reply. The reason is a
    /// crash, or an abort before any text.
    pub fn withdrawn(&self, after: u64) -> Vec<MessageId> {
        let lost = self.lost.iter().filter(|(_, seen)| seen.contains(&after)).map(|(id, _)| *id);
        let streams = self.streams.filter(|(_, from)| *from <= after).map(|(id, _)| id);
        lost.chain(streams).collect()
    }

    /// Returns the number of entries taken so far.
    pub fn entries(&self) -> u64 {
        self.state.info.entries
    }

    /// Returns the number of the last event, or 0 before the first event.
    pub fn last_seq(&self) -> u64 {
        self.seq
    }

    /// Returns the state of the session after the entries taken so far.
    pub(crate) fn state(&self) -> &SessionState {
        &self.state
    }

    /// Returns the state of the session after the entries taken so far.
    pub(super) fn into_state(self) -> SessionState {
        self.state
    }
}
