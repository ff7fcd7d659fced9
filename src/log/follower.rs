//! [`Follower`]: the numbered events of a session, from a growing log.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::event::{AgentEvent, Envelope, Parent};
use crate::log::entry::LogEntry;
use crate::log::state::SessionState;
use crate::message::{MessageId, RunId};
use crate::model::Update;

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
    /// The streaming replies, each with the number of the last event before it.
    streams: Vec<(Streaming, u64)>,
    /// Incomplete replies, each with the range of last events of readers that may have seen part of
    /// it.
    lost: Vec<(Streaming, RangeInclusive<u64>)>,
}

/// A reply that subscribers see while it streams.
struct Streaming {
    message_id: MessageId,
    /// The name of who speaks, if the reply is detached.
    speaker: Option<Arc<str>>,
}

impl Streaming {
    fn withdrawn(&self) -> AgentEvent {
        let (message_id, update) = (self.message_id, Update::Withdrawn);
        match self.speaker.clone() {
            Some(speaker) => AgentEvent::DetachedUpdate { message_id, speaker, update },
            None => AgentEvent::MessageUpdate { message_id, update },
        }
    }
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
            streams: Vec::new(),
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
        match entry {
            LogEntry::RequestStarted { message, .. } => self.start_stream(*message, None),
            LogEntry::DetachedStarted { requests } => {
                for request in requests.iter().filter(|request| request.speaker.is_some()) {
                    self.start_stream(request.message, request.speaker.clone());
                }
            }
            _ => {}
        }
    }

    fn start_stream(&mut self, message_id: MessageId, speaker: Option<Arc<str>>) {
        self.streams.push((Streaming { message_id, speaker }, self.seq));
    }

    /// Records that this entry completes or loses streaming replies.
    fn close_stream(&mut self, entry: &LogEntry) {
        match entry {
            LogEntry::Opened { .. } | LogEntry::RunEnded { .. } => self.lose(|_| true),
            LogEntry::RequestStarted { .. } => self.lose(|stream| stream.speaker.is_none()),
            LogEntry::Replied { message, .. }
            | LogEntry::Detached { message, speaker: Some(_), .. } => self.forget(message.id),
            // The reply failed or was cut off.
            LogEntry::Detached { message, .. } => {
                self.lose(|stream| stream.message_id == message.id)
            }
            LogEntry::Charged { message, ended: true, .. } => {
                self.lose(|stream| stream.speaker.is_some() && stream.message_id == *message)
            }
            LogEntry::NotSent { messages } => messages.iter().for_each(|id| self.forget(*id)),
            _ => {}
        }
    }

    fn forget(&mut self, message_id: MessageId) {
        self.streams.retain(|(stream, _)| stream.message_id != message_id);
    }

    fn lose(&mut self, is_lost: impl Fn(&Streaming) -> bool) {
        let lost = self.streams.extract_if(.., |(stream, _)| is_lost(stream));
        self.lost.extend(lost.map(|(stream, from)| (stream, from..=self.seq)));
    }

    /// Returns an [`Update::Withdrawn`] for each reply whose deltas are void for a reader that has
    /// seen the events up to number `after`: the reader may have received deltas, but the log lacks
    /// the reply. The reason is a crash, or an abort before any text.
    pub fn withdrawn(&self, after: u64) -> Vec<AgentEvent> {
        let lost = self.lost.iter().filter(|(_, seen)| seen.contains(&after));
        let streams = self.streams.iter().filter(|(_, from)| *from <= after);
        let lost = lost.map(|(stream, _)| stream.withdrawn());
        lost.chain(streams.map(|(stream, _)| stream.withdrawn())).collect()
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
