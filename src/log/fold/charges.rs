//! The usage of a session's requests, and the reserved estimates.

use crate::log::fold::Fold;
use crate::log::turn::Account;
use crate::message::MessageId;

impl Fold {
    /// Returns the usage of the session, including the time before a reset.
    pub(crate) fn total(&self) -> Account {
        Account { usage: self.info.usage, cost: self.info.cost, ..self.uncounted }
    }

    /// Counts a request that is about to be sent.
    pub(super) fn count_request(&mut self) {
        for account in [&mut self.spent, &mut self.uncounted] {
            account.requests = account.requests.saturating_add(1);
        }
    }

    /// Returns the mean output tokens of all replies so far, or `None` if unknown.
    pub(crate) fn mean_output(&self) -> Option<u64> {
        let in_progress = u32::try_from(self.reserved.all().count()).unwrap_or(u32::MAX);
        let ended = self.uncounted.requests.saturating_sub(in_progress);
        let mean = self.info.usage.output.checked_div(ended.into())?;
        (mean > 0).then_some(mean)
    }

    /// Ends a request without a reply. Returns `false` if it was not in progress.
    pub(super) fn end_request(&mut self, message: MessageId) -> bool {
        self.requested.take_if(|requested| *requested == message);
        self.reserved.release(message)
    }

    /// Charges requests whose end will never be in the log with their estimates.
    pub(super) fn lose_reserved(&mut self) {
        for (_, estimate) in std::mem::take(&mut self.reserved).all() {
            self.spent.lose(estimate);
            self.uncounted.lose(estimate);
        }
    }
}
