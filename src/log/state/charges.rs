//! The usage of a session's requests, and the reserved estimates.

use std::time::Duration;

use crate::limits::Spent;
use crate::log::state::SessionState;
use crate::log::turn::Used;
use crate::message::MessageId;

impl SessionState {
    /// Returns the usage of the session, including the time before a reset.
    pub(crate) fn total(&self) -> Used {
        Used { usage: self.info.usage, cost: self.info.cost, ..self.uncounted }
    }

    /// Returns the usage that the session's parent is charged with.
    pub(crate) fn used(&self) -> Used {
        Used { time: Duration::ZERO, ..self.with_reserved(self.total()) }
    }

    /// Returns the spending against a budget: the usage, with the shares of sub-agents that have
    /// not ended.
    pub(crate) fn spent_of(&self, used: Used) -> Spent {
        let mut spent = self.with_reserved(used).spent();
        self.children().for_each(|(_, child)| spent.reserve(&child.share));
        spent
    }

    /// Counts the requests in progress as lost.
    fn with_reserved(&self, mut used: Used) -> Used {
        self.reserved.values().for_each(|estimate| used.lost.add(*estimate));
        used
    }

    /// Counts a request that is about to be sent.
    pub(super) fn count_request(&mut self) {
        for account in [&mut self.spent, &mut self.uncounted] {
            account.turns = account.turns.saturating_add(1);
        }
    }

    /// Returns the mean output tokens of all replies so far, or `None` if unknown.
    pub(crate) fn mean_output(&self) -> Option<u64> {
        let in_progress = u32::try_from(self.reserved.len()).unwrap_or(u32::MAX);
        let ended = self.uncounted.turns.saturating_sub(in_progress);
        let mean = self.info.usage.output.checked_div(ended.into())?;
        (mean > 0).then_some(mean)
    }

    /// Ends a request without a reply. Returns `false` if it was not in progress.
    pub(super) fn end_request(&mut self, message: MessageId) -> bool {
        self.requested.take_if(|requested| *requested == message);
        self.reserved.remove(&message).is_some()
    }

    /// Charges requests whose end will never be in the log with their estimates.
    pub(super) fn lose_reserved(&mut self) {
        for estimate in std::mem::take(&mut self.reserved).into_values() {
            self.spent.lost.add(estimate);
            self.uncounted.lost.add(estimate);
        }
    }
}
