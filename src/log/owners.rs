//! The owners that a session has lost without progress: work that ends each process that continues
//! it is held for a person. The rules are in `docs/model/owners/RULES.md`.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::log::entry::LogEntry;
use crate::log::owner_note::{Held, OwnerNote};

/// Work that has lost this many owners, each before it had come further, is held.
const MAX_LOST: u32 = 2;
/// Work is also held when the session was opened this often without progress: owners that lived
/// longer than [`PROBATION`] are not counted as lost.
const MAX_OPENINGS: u32 = 10;

/// Bounds how long a session that has lost an owner is the only such one that a process opens. An
/// owner that is lost later may have been killed by another session.
pub const PROBATION: Duration = Duration::from_secs(1);

/// What a log says about the owners that a session has lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Owners {
    /// The owners that were lost since the work has last come further.
    #[serde(default)]
    lost: u32,
    /// The openings since then.
    #[serde(default)]
    openings: u32,
    /// The end of the last owner is no loss.
    #[serde(default)]
    left: bool,
    /// The last owner has taken inputs from the mailbox.
    #[serde(default)]
    takes_mail: bool,
    /// A person has continued the work since.
    #[serde(default)]
    resumed: bool,
    /// Why the work is not done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    held: Option<Held>,
}

impl Owners {
    /// Updates the state for an entry. Before it, a run is in progress if `has_run`, and the log
    /// has work to do if `has_work`.
    pub(crate) fn apply(&mut self, entry: &LogEntry, has_run: bool, has_work: bool) {
        match entry {
            LogEntry::Opened { .. } => {
                self.lost += u32::from(self.would_lose(has_work));
                self.openings = self.openings.saturating_add(1);
                (self.left, self.takes_mail) = (false, false);
            }
            LogEntry::Owner { note } => match *note {
                OwnerNote::TakesMail => (self.takes_mail, self.left) = (true, false),
                OwnerNote::Left => self.left = true,
                OwnerNote::Held(held) => {
                    *self = Owners { held: Some(held), left: true, ..Self::default() };
                }
                OwnerNote::Resumed => *self = Owners { resumed: true, ..Self::default() },
            },
            // A process that is killed each time delivers it after the call that kills it.
            LogEntry::Queued { .. } if has_run => {}
            entry if entry.is_progress() => *self = Self::default(),
            _ => {}
        }
    }

    /// Returns whether the last owner is lost if the session is opened now.
    pub(crate) fn would_lose(&self, has_work: bool) -> bool {
        !self.left && (self.takes_mail || has_work)
    }

    /// Returns whether the next owner may be killed by the work, as one before it.
    pub(crate) fn is_suspect(&self, has_work: bool) -> bool {
        self.lost > 0 || self.resumed || self.would_lose(has_work)
    }

    /// Returns whether an owner that has opened the session is counted if it is lost too early.
    pub(crate) fn is_on_probation(&self) -> bool {
        !self.left && (self.lost > 0 || self.resumed)
    }

    /// Returns how many owners were lost if that is too many.
    ///
    /// `continues` says that the session is about to continue a run.
    pub(crate) fn lost_too_often(&self, continues: bool) -> Option<u32> {
        if self.lost >= MAX_LOST {
            return Some(self.lost);
        }
        (continues && self.openings >= MAX_OPENINGS).then_some(self.openings)
    }

    /// Returns whether too many owners are lost if the session is opened now.
    pub(crate) fn is_lost(&self, has_work: bool) -> bool {
        self.lost + u32::from(self.would_lose(has_work)) >= MAX_LOST
    }

    /// Returns whether an owner was lost, or the work is held for that.
    pub(crate) fn has_lost(&self) -> bool {
        self.lost > 0 || self.held.is_some()
    }

    /// Returns whether the last owner said that it takes inputs from the mailbox.
    pub(crate) fn takes_mail(&self) -> bool {
        self.takes_mail
    }

    /// Returns why the work is not done, if it is held.
    pub(crate) fn held(&self) -> Option<Held> {
        self.held
    }
}
