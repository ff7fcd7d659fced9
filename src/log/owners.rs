//! The owners that a session has lost without progress. Work that kills every process that
//! continues it is held for a person. The rules are in `docs/model/owners/RULES.md`.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::owner_note::{Held, OwnerNote};
use crate::log::entry::LogEntry;

/// Number of lost owners, each lost before any progress, at which work is held.
const MAX_LOST: u32 = 2;
/// Number of openings without progress at which work is held too, because owners that lived longer
/// than [`PROBATION`] do not count as lost.
const MAX_OPENINGS: u32 = 10;

/// Time for which a process opens no other session that has lost an owner. If the owner is lost
/// later, another session may have killed it.
pub const PROBATION: Duration = Duration::from_secs(1);

/// The owners that a session has lost, according to its log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Owners {
    /// Number of owners lost since the last progress.
    #[serde(default)]
    lost: u32,
    /// Number of openings since the last progress.
    #[serde(default)]
    openings: u32,
    /// `true` if the end of the last owner is no loss.
    #[serde(default)]
    left: bool,
    /// `true` if the last owner has taken inputs from the mailbox.
    #[serde(default)]
    takes_mail: bool,
    /// `true` if a person has continued the work since the last progress.
    #[serde(default)]
    resumed: bool,
    /// The reason for holding the work, if it is held.
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
            // No progress: a process that the work kills each time delivers the message only after
            // the fatal call.
            LogEntry::Queued { .. } if has_run => {}
            entry if entry.is_progress() => *self = Self::default(),
            _ => {}
        }
    }

    /// Returns whether opening the session now means that its last owner was lost.
    pub(crate) fn would_lose(&self, has_work: bool) -> bool {
        !self.left && (self.takes_mail || has_work)
    }

    /// Returns whether the work may kill the next owner, like an earlier one.
    pub(crate) fn is_suspect(&self, has_work: bool) -> bool {
        self.lost > 0 || self.resumed || self.would_lose(has_work)
    }

    /// Returns whether the current owner would count as lost if it ended too early.
    pub(crate) fn is_on_probation(&self) -> bool {
        !self.left && (self.lost > 0 || self.resumed)
    }

    /// Returns the number of lost owners, or of openings, if it is too high.
    ///
    /// `continues` is true if the session is about to continue a run.
    pub(crate) fn lost_too_often(&self, continues: bool) -> Option<u32> {
        if self.lost >= MAX_LOST {
            return Some(self.lost);
        }
        (continues && self.openings >= MAX_OPENINGS).then_some(self.openings)
    }

    /// Returns whether opening the session now means that too many owners were lost.
    pub(crate) fn is_lost(&self, has_work: bool) -> bool {
        self.lost + u32::from(self.would_lose(has_work)) >= MAX_LOST
    }

    /// Returns whether an owner was lost, or the work is held because of that.
    pub(crate) fn has_lost(&self) -> bool {
        self.lost > 0 || self.held.is_some()
    }

    /// Returns whether the last owner has noted that it takes inputs from the mailbox.
    pub(crate) fn takes_mail(&self) -> bool {
        self.takes_mail
    }

    /// Returns the reason for holding the work, if it is held.
    pub(crate) fn held(&self) -> Option<Held> {
        self.held
    }
}
