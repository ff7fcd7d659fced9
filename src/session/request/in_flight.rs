//! [`InFlight`], the requests in progress and the usage that their providers have reported.

use std::sync::Arc;

use crate::log::entry::LogEntry;
use crate::log::turn::Estimate;
use crate::message::{MessageId, Usage};
use crate::model::ModelInfo;
use crate::session::request::shared_budget::BudgetPermit;

/// The requests in progress and their usage. A request that fails or is cut off is charged for its
/// usage, even if the future that sent it is dropped.
#[derive(Default)]
pub(crate) struct InFlight {
    requests: Vec<Request>,
}

/// The reservation of a request in progress, without its input, which is in the log.
#[derive(Default)]
pub(crate) struct HeldBudget {
    /// The expected usage of the output.
    pub(crate) output: Estimate,
    /// The request's part of the budget that the session shares with others.
    pub(crate) permit: Option<BudgetPermit>,
}

struct Request {
    message: MessageId,
    held: HeldBudget,
    model: Arc<ModelInfo>,
    /// The usage of the current attempt so far.
    usage: Usage,
}

impl Request {
    fn charged(&self, ended: bool) -> LogEntry {
        let Request { message, ref model, usage, .. } = *self;
        let cost = model.cost(&usage).filter(|_| usage != Usage::default());
        LogEntry::Charged { message, usage, cost, ended }
    }
}

impl InFlight {
    /// Starts a request.
    pub(crate) fn start(&mut self, message: MessageId, model: Arc<ModelInfo>, held: HeldBudget) {
        self.requests.push(Request { message, held, model, usage: Usage::default() });
    }

    /// Returns the expected usage of all outputs, or `None` without requests.
    pub(crate) fn output(&self) -> Option<Estimate> {
        let mut all = Estimate::default();
        self.requests.iter().for_each(|request| all.add(request.held.output));
        (!self.requests.is_empty()).then_some(all)
    }

    /// Records the usage of the current attempt so far.
    pub(crate) fn report(&mut self, message: MessageId, usage: Usage) {
        if let Some(request) = self.request(message) {
            request.usage = usage;
        }
    }

    /// Ends an attempt whose output was discarded. Returns the entry that charges for it, if it has
    /// used anything.
    pub(crate) fn end_attempt(&mut self, message: MessageId) -> Option<LogEntry> {
        let request = self.request(message)?;
        let charged = (request.usage != Usage::default()).then(|| request.charged(false));
        request.usage = Usage::default();
        charged
    }

    /// Records the model that replies from now on.
    pub(crate) fn answered_by(&mut self, message: MessageId, model: Arc<ModelInfo>) {
        if let Some(request) = self.request(message) {
            request.model = model;
        }
    }

    /// Returns the usage of the current attempt so far.
    pub(crate) fn usage(&self, message: MessageId) -> Usage {
        let request = self.requests.iter().find(|request| request.message == message);
        request.map(|request| request.usage).unwrap_or_default()
    }

    /// Returns whether the request was sent and has not ended.
    pub(crate) fn contains(&self, message: MessageId) -> bool {
        self.requests.iter().any(|request| request.message == message)
    }

    /// Ends a request whose end is logged with its reply. Returns its permit, to be kept until
    /// then.
    pub(crate) fn end(&mut self, message: MessageId) -> Option<BudgetPermit> {
        let at = self.requests.iter().position(|request| request.message == message)?;
        self.requests.swap_remove(at).held.permit
    }

    /// Ends a request without a reply. Returns the entry for the log.
    pub(crate) fn end_without_reply(&mut self, message: MessageId) -> Option<LogEntry> {
        let at = self.requests.iter().position(|request| request.message == message)?;
        Some(self.requests.swap_remove(at).charged(true))
    }

    /// Ends all requests without replies. Returns the entries for the log.
    pub(crate) fn end_all(&mut self) -> Vec<LogEntry> {
        self.requests.drain(..).map(|request| request.charged(true)).collect()
    }

    fn request(&mut self, message: MessageId) -> Option<&mut Request> {
        self.requests.iter_mut().find(|request| request.message == message)
    }
}
