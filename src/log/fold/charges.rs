//! The usage of a session's requests, and the reserved estimates.

use crate::log::fold::Fold;
use crate::message::{Message, MessageId, Usage};

impl Fold {
    /// Counts the usage and cost of a reply.
    pub(super) fn spend_for(&mut self, message: &Message, cost: Option<f64>) {
        let usage = message.as_assistant().map(|reply| reply.usage).unwrap_or_default();
        self.spend(usage, cost);
    }

    pub(super) fn spend(&mut self, usage: Usage, cost: Option<f64>) {
        self.spent.spend(usage, cost);
        self.total.spend(usage, cost);
    }

    /// Counts a request that is about to be sent.
    pub(super) fn count_request(&mut self) {
        for account in [&mut self.spent, &mut self.total] {
            account.requests = account.requests.saturating_add(1);
        }
    }

    /// Returns the mean output tokens of all replies so far, or `None` if unknown.
    pub(crate) fn mean_output(&self) -> Option<u64> {
        let in_progress = u32::try_from(self.reserved.all().count()).unwrap_or(u32::MAX);
        let ended = self.total.requests.saturating_sub(in_progress);
        let mean = self.total.usage.output.checked_div(ended.into())?;
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
            self.total.lose(estimate);
        }
    }
}
