//! [`Outbox`]: the changes reported to a receiver, and the changes still to be sent.

#[cfg(feature = "webhooks")]
mod file;

use std::collections::{BTreeMap, BTreeSet};
#[cfg(feature = "webhooks")]
use std::io;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::change::ActionChange;
use super::watch::{ActionKey, CLOCK_TOLERANCE_MS, action_of};
#[cfg(feature = "webhooks")]
pub(super) use file::OutboxFile;

/// Maximum number of lines in a file per line that is needed, before the file is rewritten.
#[cfg(feature = "webhooks")]
const MAX_LINE_RATIO: usize = 4;
/// Minimum number of lines in a file before it is rewritten.
#[cfg(feature = "webhooks")]
const MIN_LINES: usize = 4_096;

/// A change to be sent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) number: u64,
    pub(super) change: Arc<ActionChange>,
}

/// A stored step of an outbox.
#[cfg(feature = "webhooks")]
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// An action was reported as pending, in the report with this id.
    Pending { action: ActionKey, id: String },
    /// A decision was reported, in the report with this id.
    Decided { time: u64, id: String },
    /// A change is to be sent.
    Queued(Entry),
    /// A change was sent or given up.
    Sent(u64),
}

/// The changes reported to a receiver and the changes still to be sent, in a file if there is one.
#[derive(Default)]
pub(super) struct Outbox {
    state: State,
    #[cfg(feature = "webhooks")]
    file: Option<OutboxFile>,
}

#[derive(Debug, Default)]
struct State {
    /// The actions reported as pending but not as resolved, each with the id of its last report.
    pending: BTreeMap<ActionKey, String>,
    /// The recent decisions that were reported: their times, and the ids of the reports.
    decided: BTreeSet<(u64, String)>,
    unsent: BTreeMap<u64, Arc<ActionChange>>,
    next_number: u64,
}

impl State {
    /// Adds a change. Returns its entry, or `None` if the change was reported before.
    fn add(&mut self, change: Arc<ActionChange>) -> Option<Entry> {
        let id = change.id();
        let is_new = match &*change {
            ActionChange::Pending { action } => {
                let call = action.action.call.clone();
                let key = (action.session.clone(), call, action.since);
                self.pending.insert(key, id.clone()).as_ref() != Some(&id)
            }
            ActionChange::Resolved { session, call, since, decision } => {
                let key = match (since, decision) {
                    (Some(since), _) => Some((session.clone(), call.clone(), *since)),
                    (None, Some(decision)) => action_of(self.pending.keys(), decision),
                    (None, None) => None,
                };
                let was_pending = key.is_some_and(|key| self.pending.remove(&key).is_some());
                match decision {
                    Some(decision) => self.decided(decision.time, id),
                    None => was_pending,
                }
            }
        };
        is_new.then(|| {
            let entry = Entry { number: self.next_number, change };
            self.queue(entry.clone());
            entry
        })
    }

    /// Records that a decision was reported. Returns whether it is new.
    fn decided(&mut self, time: u64, id: String) -> bool {
        let is_new = self.decided.insert((time, id));
        let last = self.decided.last().map_or(0, |(time, _)| *time);
        let cut = last.saturating_sub(2 * CLOCK_TOLERANCE_MS);
        self.decided = self.decided.split_off(&(cut, String::new()));
        is_new
    }

    fn queue(&mut self, Entry { number, change }: Entry) {
        self.next_number = self.next_number.max(number + 1);
        self.unsent.insert(number, change);
    }

    /// Applies a stored step.
    #[cfg(feature = "webhooks")]
    fn apply(&mut self, line: Line) {
        match line {
            Line::Pending { action, id } => drop(self.pending.insert(action, id)),
            Line::Decided { time, id } => drop(self.decided(time, id)),
            Line::Queued(Entry { number, change }) => {
                self.next_number = self.next_number.max(number);
                if self.add(change.clone()).is_none() {
                    self.queue(Entry { number, change });
                }
            }
            Line::Sent(number) => drop(self.unsent.remove(&number)),
        }
    }

    /// Returns the steps that lead to this state.
    #[cfg(feature = "webhooks")]
    fn lines(&self) -> Vec<Line> {
        // The queued changes come first, because each changes the pending actions.
        let queued = self.unsent.iter().map(|(number, change)| {
            Line::Queued(Entry { number: *number, change: change.clone() })
        });
        let pending = self
            .pending
            .iter()
            .map(|(action, id)| Line::Pending { action: action.clone(), id: id.clone() });
        let decided =
            self.decided.iter().map(|(time, id)| Line::Decided { time: *time, id: id.clone() });
        queued.chain(pending).chain(decided).collect()
    }
}

impl Outbox {
    /// Returns the actions reported as pending but not as resolved.
    pub(super) fn pending(&self) -> impl DoubleEndedIterator<Item = &ActionKey> {
        self.state.pending.keys()
    }

    /// Returns the time of the last reported decision, in milliseconds since 1970.
    pub(super) fn last_decision(&self) -> Option<u64> {
        self.state.decided.last().map(|(time, _)| *time)
    }

    /// Returns the changes still to be sent.
    pub(super) fn unsent(&self) -> Vec<Entry> {
        let unsent = self.state.unsent.iter();
        unsent.map(|(number, change)| Entry { number: *number, change: change.clone() }).collect()
    }

    /// Adds changes, and returns the ones to be sent, which are on disk by then.
    pub(super) async fn add(&mut self, changes: Vec<Arc<ActionChange>>) -> Vec<Entry> {
        let new: Vec<Entry> =
            changes.into_iter().filter_map(|change| self.state.add(change)).collect();
        #[cfg(feature = "webhooks")]
        self.store(new.iter().cloned().map(Line::Queued).collect(), true).await;
        new
    }

    /// Records that a change was sent or given up.
    pub(super) async fn sent(&mut self, number: u64) {
        self.state.unsent.remove(&number);
        #[cfg(feature = "webhooks")]
        self.store(vec![Line::Sent(number)], false).await; // else it is sent twice
    }
}

#[cfg(feature = "webhooks")]
impl Outbox {
    /// Continues the outbox of a file that has these lines.
    pub(super) async fn of(mut file: OutboxFile, lines: Vec<String>) -> io::Result<Self> {
        let mut state = State::default();
        for line in lines {
            match serde_json::from_str(&line) {
                Ok(line) => state.apply(line),
                Err(why) => {
                    let path = file.path().display();
                    tracing::warn!(%path, %why, "a line of an outbox cannot be read");
                }
            }
        }
        file.rewrite(text(&state.lines())).await?;
        Ok(Outbox { state, file: Some(file) })
    }

    async fn store(&mut self, lines: Vec<Line>, must_flush: bool) {
        let Some(file) = self.file.as_mut().filter(|_| !lines.is_empty()) else { return };
        let needed = self.state.unsent.len() + self.state.pending.len() + self.state.decided.len();
        let is_long = file.lines() > MIN_LINES && file.lines() / MAX_LINE_RATIO > needed;
        let stored = match is_long {
            true => file.rewrite(text(&self.state.lines())).await,
            false => file.append(text(&lines), must_flush).await,
        };
        if let Err(why) = stored {
            let path = file.path().display();
            tracing::error!(%path, %why, "an outbox cannot be written: a restart can lose reports");
        }
    }
}

#[cfg(feature = "webhooks")]
fn text(lines: &[Line]) -> Vec<String> {
    // Serialising cannot fail: the keys of the maps are strings.
    lines.iter().filter_map(|line| serde_json::to_string(line).ok()).collect()
}
