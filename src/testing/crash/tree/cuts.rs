//! The cuts that a crash can leave in the logs of an agent and its sub-agents.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::event::action::call_of_child;
use crate::event::outcome::RunCause;
use crate::log::entry::LogEntry;
use crate::message::InputId;

/// The logs of the sessions, by name.
pub(super) type Logs = BTreeMap<Arc<str>, Vec<LogEntry>>;

/// The lengths of the logs after a crash.
pub(super) type Cuts = BTreeMap<Arc<str>, usize>;

/// Returns all cuts: each pair of cuts of a parent and its sub-agent that a crash can leave, with
/// the other sessions as of the parent's cut.
pub(super) fn all_cuts(order: &[(Arc<str>, usize)], logs: &Logs) -> BTreeSet<Cuts> {
    let mut now: Cuts = logs.keys().map(|session| (session.clone(), 0)).collect();
    let mut all = BTreeSet::new();
    for (session, len) in order {
        now.insert(session.clone(), *len);
        all.insert(now.clone());
        let parent = &logs[session][..*len];
        for entry in parent {
            let LogEntry::ChildStarted { call, session: child, .. } = entry else { continue };
            let possible = possible_cuts(parent, call, &logs[child]);
            for (other, at) in order.iter().filter(|(other, _)| other == child) {
                if possible.contains(at) {
                    let mut cuts = now.clone();
                    cuts.insert(other.clone(), *at);
                    // Sub-agents of the sub-agent can be neither ahead of it nor behind it.
                    let is_leaf = logs[child].iter().all(|entry| entry.sub_agent().is_none());
                    if is_leaf {
                        all.insert(cuts);
                    }
                }
            }
        }
    }
    all
}

/// Returns the possible lengths of a sub-agent's log, given its parent's log.
fn possible_cuts(parent: &[LogEntry], call: &str, child: &[LogEntry]) -> RangeInclusive<usize> {
    let decided: BTreeSet<_> = parent.iter().filter_map(decision).collect();
    let started = parent.iter().position(|entry| entry.sub_agent().is_some()).unwrap_or_default();
    let may_stop = parent[started..].iter().any(stops);
    let after = |is_it: &dyn Fn(&LogEntry) -> bool| {
        child.iter().position(is_it).map_or(child.len(), |at| at + 1)
    };
    let mut min = 0;
    for entry in parent {
        let needed = match entry {
            LogEntry::ChildEnded { call: ended, .. } if **ended == *call => child.len(),
            LogEntry::ChildAwaits { call: of, actions, idle, .. } if **of == *call => {
                let last = actions.iter().map(|action| {
                    let inner = call_of_child(&action.call, call).unwrap_or_default();
                    after(&|entry| match entry {
                        LogEntry::CallAwaiting { call, .. } => **call == *inner,
                        LogEntry::ChildAwaits { actions, .. } => {
                            actions.iter().any(|action| *action.call == *inner)
                        }
                        _ => false,
                    })
                });
                let asked = last.max().unwrap_or_default();
                let ends = |entry: &LogEntry| matches!(entry, LogEntry::RunEnded { .. });
                let end = child[asked..].iter().position(ends).map(|at| asked + at + 1);
                if *idle { end.unwrap_or(asked) } else { asked }
            }
            _ => 0,
        };
        min = min.max(needed);
    }
    let is_unknown = |entry: &LogEntry| {
        decision(entry).is_some_and(|input| !decided.contains(input)) || !may_stop && stops(entry)
    };
    let max = child.iter().position(is_unknown).unwrap_or(child.len());
    min..=max
}

/// Returns whether the entry stops sub-agents, or is the effect of that on a sub-agent.
fn stops(entry: &LogEntry) -> bool {
    match entry {
        LogEntry::AbortRequested { .. } => true,
        LogEntry::RunStarted { run, cause, .. } => {
            let is_message = matches!(cause, RunCause::UserRequest(_) | RunCause::Steer);
            matches!(cause, RunCause::Abort) || is_message && run.0 > 1
        }
        _ => false,
    }
}

fn decision(entry: &LogEntry) -> Option<&InputId> {
    match entry {
        LogEntry::Decided { input, .. } => Some(input),
        _ => None,
    }
}
