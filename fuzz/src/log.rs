//! Any log in the fold of the core: what a session shows, does next and continues from.

use loopwright_core::log::{LogEntry, SessionInfo, SessionLog, check_log, replay_messages};

/// Folds the entries among these lines. The log of a store may break every rule, so nothing may
/// panic, and what is derived in two ways must agree if the log keeps the rules.
pub fn check_fold(bytes: &[u8]) {
    let lines = bytes.split(|byte| *byte == b'\n');
    let entries: Vec<LogEntry> =
        lines.filter_map(|line| serde_json::from_slice(line).ok()).collect();
    let is_valid = check_log(&entries).is_ok();
    let info = SessionInfo::of("s", &entries);
    assert_eq!(info.entries, entries.len() as u64);
    let log = SessionLog::of(&entries);
    let messages = log.messages();
    let _ = (log.context(), log.pending(), log.waiting(), log.run(), log.due());
    if is_valid {
        assert_eq!(*messages, replay_messages(&entries), "the messages of the events");
    }
    let events = SessionLog::events("s", &entries);
    assert_eq!(events.last().map_or(0, |event| event.seq), log.last_seq());
    for at in [None, Some(0), Some(entries.len() as u64 / 2), Some(u64::MAX)] {
        let branch = SessionLog::branch(&entries, at);
        let own = branch.log(entries.clone());
        if is_valid {
            check_log(&own).unwrap_or_else(|why| panic!("the branch at {at:?}: {why}"));
        }
    }
}
