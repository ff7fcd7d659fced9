//! Any log: everything that is derived from it in two ways is the same, and can be stored and sent.

use std::fmt::Debug;

use loopwright_core::event::Envelope;
use loopwright_core::log::{
    Follower, LogEntry, SessionInfo, SessionLog, check_log, replay_messages,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::entries::entries;
use crate::random::Random;

/// Panics if the log that these bytes describe violates an invariant. A log that breaks the rules
/// may result in any state, but must neither panic nor contradict itself.
pub fn check_log_of(bytes: &[u8]) {
    let entries = entries(bytes);
    let mut random = Random::of(bytes);
    let is_valid = check_log(&entries).is_ok();
    entries.iter().for_each(check_json);
    let log = SessionLog::of(&entries);
    assert_eq!(*log.messages(), replay_messages(&entries), "the messages");
    check_events(&entries, &log, &mut random);
    check_follower(&entries, &mut random);
    check_info(&entries, &log, &mut random);
    let places = [u64::MAX, 0].into_iter().chain((0..4).map(|_| random.at(&entries) as u64));
    for at in places {
        check_branch(&entries, at, is_valid);
    }
}

/// Checks that a value survives writing and reading.
fn check_json<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    let text = serde_json::to_string(value).expect("JSON");
    let read = serde_json::from_str::<T>(&text);
    assert_eq!(read.as_ref().ok(), Some(value), "{text} is read as {read:?}");
}

/// Checks that events are numbered without gaps, and that a reader that reconnects gets exactly the
/// unseen ones.
fn check_events(entries: &[LogEntry], log: &SessionLog, random: &mut Random) {
    let events = SessionLog::events("s", entries);
    let numbers = events.iter().map(|event| event.seq);
    assert!(numbers.eq(1..=log.last_seq()), "the numbers of {events:?}");
    events.iter().for_each(check_json);
    let mut follower = Follower::new("s");
    follower.take(entries);
    let seen = [0, log.last_seq(), u64::MAX].into_iter();
    for after in seen.chain((0..4).map(|_| random.at(&events) as u64)) {
        let missed = SessionLog::events_after("s", entries, after);
        let withdrawn = follower.withdrawn(after);
        assert!(missed.len() >= withdrawn.len(), "{withdrawn:?} are withdrawn");
        let (first, rest) = missed.split_at(withdrawn.len());
        for (event, update) in first.iter().zip(withdrawn) {
            assert_eq!((event.seq, &event.event), (after, &update));
        }
        let unseen = events.iter().skip_while(|event| event.seq <= after);
        assert!(rest.iter().eq(unseen), "the events after {after}");
    }
}

/// Checks that a log in parts has the events of the whole.
fn check_follower(entries: &[LogEntry], random: &mut Random) {
    let whole = SessionLog::events("s", entries);
    let (mut follower, mut parts, mut rest) = (Follower::new("s"), Vec::<Envelope>::new(), entries);
    while !rest.is_empty() {
        let (part, later) = rest.split_at(1 + random.below(rest.len().min(40)));
        parts.extend(follower.take(part));
        rest = later;
        assert_eq!(follower.entries(), (entries.len() - rest.len()) as u64);
        assert_eq!(follower.last_seq(), parts.len() as u64);
    }
    assert_eq!(parts, whole, "the events of the parts");
}

/// Checks that a description updated part by part equals the whole log's, and that it lists the
/// actions that wait in the log.
fn check_info(entries: &[LogEntry], log: &SessionLog, random: &mut Random) {
    let whole = SessionInfo::of("s", entries);
    let (mut info, mut rest) = (SessionInfo::new("s"), entries);
    while !rest.is_empty() {
        let (part, later) = rest.split_at(1 + random.below(rest.len().min(40)));
        part.iter().for_each(|entry| info.apply(entry));
        check_json(&info);
        rest = later;
    }
    assert_eq!(info, whole, "the description of the parts");
    assert_eq!(info.entries, entries.len() as u64);
    if check_log(entries).is_ok() {
        let mut listed: Vec<_> = info.pending.iter().map(|pending| &*pending.action).collect();
        let pending = log.pending();
        listed.sort_by_key(|action| pending.iter().position(|other| other.call == action.call));
        assert!(listed.into_iter().eq(&pending), "the pending actions: {pending:?}");
    }
}

/// Checks that a branch is a log without work left, and is its own branch.
fn check_branch(entries: &[LogEntry], at: u64, is_valid: bool) {
    let branch = SessionLog::branch(entries, Some(at));
    assert!(branch.shared <= at.min(entries.len() as u64));
    let shared = SessionLog::of(&entries[..branch.shared as usize]);
    let own = branch.log(entries.to_vec());
    let log = SessionLog::of(&own);
    assert_eq!(log.messages(), shared.messages(), "the messages of the branch at {at}");
    assert!(log.pending().is_empty(), "the branch at {at} has pending actions");
    assert_eq!(log.run(), None, "the branch at {at} has a run");
    assert_eq!(log.waiting(), [], "the branch at {at} has queued messages");
    let own_branch = SessionLog::branch(&own, None);
    assert_eq!(
        (own_branch.shared, own_branch.entries),
        (own.len() as u64, vec![]),
        "the branch at {at}"
    );
    if is_valid {
        check_log(&own).unwrap_or_else(|why| panic!("the branch at {at}: {why}"));
        assert_eq!(log.due(), None, "the branch at {at} does something");
    }
}

impl Random {
    /// Returns an index into a list, or its length.
    fn at<T>(&mut self, list: &[T]) -> usize {
        self.below(list.len() + 1)
    }
}
