//! The conditions under which the sub-agents of a log can be replayed as tools.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::difference::Difference;
use crate::log::entry::LogEntry;
use crate::message::CallId;

/// Returns the reason why the log cannot be replayed with tools in place of its sub-agents. Returns
/// `None` if each sub-agent ended in the process in which it started, without waiting for
/// decisions.
pub(super) fn refusal(log: &[LogEntry]) -> Option<Difference> {
    let mut working: BTreeMap<CallId, (usize, Arc<str>)> = BTreeMap::new();
    for (at, entry) in log.iter().enumerate() {
        match entry {
            LogEntry::ChildStarted { call, session, .. } => {
                working.insert(call.clone(), (at, session.clone()));
            }
            LogEntry::ChildEnded { call, .. } => drop(working.remove(call)),
            LogEntry::ChildAwaits { call, .. } => {
                let session = working.get(call).map_or("", |(_, session)| session);
                let what = format!("call {call} waits for a decision in entry {at} of the log");
                return Some(refused(at, &what, session));
            }
            LogEntry::Opened { .. } if !working.is_empty() => break,
            _ => {}
        }
    }
    let (call, (at, session)) = working.first_key_value()?;
    let what = format!("call {call}, which started in entry {at} of the log, was cut off");
    Some(refused(*at, &what, session))
}

fn refused(at: usize, what: &str, session: &str) -> Difference {
    let text = format!(
        "the sub-agent of {what}, which cannot be replayed: replay the log of its session \
         `{session}` instead, or record the agent in a `Cassette`"
    );
    Difference::at_entry(at, text)
}
