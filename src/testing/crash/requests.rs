//! The requests in a log, and whether their replies are still needed after a crash.

use std::collections::HashSet;

use crate::log::entry::LogEntry;
use crate::log::session_log::SessionLog;
use crate::message::MessageId;

/// Returns the numbers of the sent requests, including detached requests, in order.
pub(super) fn sent_requests(log: &[LogEntry]) -> Vec<MessageId> {
    let mut sent = Vec::new();
    for entry in log {
        match entry {
            LogEntry::RequestStarted { message, .. } => sent.push(*message),
            LogEntry::DetachedStarted { requests } => {
                sent.extend(requests.iter().map(|request| request.message));
            }
            LogEntry::NotSent { messages } => sent.retain(|request| !messages.contains(request)),
            _ => {}
        }
    }
    sent
}

/// Returns the position after the entry that starts a request: the request with this number after
/// the first `cut` entries, from zero.
pub(super) fn request_end(log: &[LogEntry], cut: usize, number: usize) -> usize {
    let is_sent = |end: &usize| sent_requests(&log[cut..*end]).len() > number;
    (cut..=log.len()).find(is_sent).unwrap_or(log.len())
}

/// Returns for each request of this log whether a session that continues from it no longer needs
/// the reply. The reply to a detached request without a key is needed until the pattern has written
/// something.
pub(super) fn used_replies(log: &[LogEntry]) -> Vec<bool> {
    let mut pending = pending_detached(log);
    if SessionLog::of(log).awaits_reply() {
        pending.extend(log.iter().rev().find_map(|entry| match entry {
            LogEntry::RequestStarted { message, .. } => Some(*message),
            _ => None,
        }));
    }
    let written = log.iter().rev().find(|entry| !entry.is_of_input());
    if let Some(LogEntry::Detached { message, key: None, .. }) = written {
        pending.insert(message.id);
    }
    sent_requests(log).iter().map(|request| !pending.contains(request)).collect()
}

/// Returns whether the reply to a request is awaited after these entries.
pub(super) fn awaits_reply(log: &[LogEntry]) -> bool {
    !pending_detached(log).is_empty() || SessionLog::of(log).awaits_reply()
}

/// Returns the detached requests without an end in this log.
fn pending_detached(log: &[LogEntry]) -> HashSet<MessageId> {
    let mut pending = HashSet::new();
    for entry in log {
        match entry {
            LogEntry::DetachedStarted { requests } => {
                pending.extend(requests.iter().map(|request| request.message));
            }
            LogEntry::Detached { message, .. } => drop(pending.remove(&message.id)),
            LogEntry::Charged { message, ended: true, .. } => drop(pending.remove(message)),
            LogEntry::NotSent { messages } => pending.retain(|sent| !messages.contains(sent)),
            _ => {}
        }
    }
    pending
}
