//! The current turn, the usage of a user's request and of the session, and the estimates of
//! requests in progress.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::limits::Spent;
use crate::message::{Message, MessageId, Usage};

/// The current or last turn.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Turn {
    pub(crate) number: u32,
    pub(crate) open: bool,
    pub(crate) message: Option<Arc<Message>>,
    pub(crate) results: Vec<Arc<Message>>,
}

/// An estimate of the usage of a request's input. A request is charged with it until the log has
/// its end.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Estimate {
    /// Tokens of the input.
    pub tokens: u64,
    /// Cost of the input in US dollars, if the prices of the model are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
}

impl Estimate {
    /// Builds an estimate.
    pub fn new(tokens: u64, cost: Option<f64>) -> Self {
        Estimate { tokens, cost }
    }

    /// Returns whether the estimate is zero, as in logs of versions without estimates.
    pub(crate) fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    /// Adds another estimate.
    pub(crate) fn add(&mut self, more: Estimate) {
        self.tokens = self.tokens.saturating_add(more.tokens);
        let mut cost = self.cost.unwrap_or_default();
        add_cost(&mut cost, more.cost);
        self.cost = Some(cost);
    }
}

/// The estimate of one of several detached requests.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Reservation {
    /// The number that the reply will have.
    pub message: MessageId,
    /// The amount that the request is charged with.
    #[serde(default, skip_serializing_if = "Estimate::is_zero")]
    pub estimate: Estimate,
}

impl Reservation {
    /// Builds a reservation.
    pub fn new(message: MessageId, estimate: Estimate) -> Self {
        Reservation { message, estimate }
    }
}

/// The usage of a sub-agent.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Used {
    /// Number of turns.
    pub turns: u32,
    /// The usage that providers reported.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub usage: Usage,
    /// Cost of this usage in US dollars, as far as prices are known.
    #[serde(default)]
    pub cost: f64,
    /// The estimates of requests whose end was lost in a crash.
    #[serde(default, skip_serializing_if = "Estimate::is_zero")]
    pub lost: Estimate,
}

fn is_zero(usage: &Usage) -> bool {
    *usage == Usage::default()
}

/// The usage since the last request of the user, or of the whole session.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Account {
    pub(crate) usage: Usage,
    pub(crate) cost: f64,
    /// Time of the runs that have ended.
    pub(crate) time: Duration,
    /// Number of requests, including detached requests.
    pub(crate) requests: u32,
    /// The estimates of requests whose end was lost in a crash.
    pub(super) lost: Estimate,
}

impl Account {
    /// Returns the usage, with the estimates of requests in progress.
    pub(crate) fn spent(&self, reserved: &Reserved) -> Spent {
        let mut estimates = self.lost;
        reserved.all().for_each(|(_, estimate)| estimates.add(estimate));
        let mut cost = self.cost;
        add_cost(&mut cost, estimates.cost);
        Spent {
            turns: self.requests,
            tokens: self.usage.total().saturating_add(estimates.tokens),
            cost,
            time: self.time,
        }
    }

    pub(super) fn spend(&mut self, usage: Usage, cost: Option<f64>) {
        self.usage += usage;
        add_cost(&mut self.cost, cost);
    }

    /// Returns the usage without the time. Requests in progress count as lost.
    pub(crate) fn used(&self, reserved: &Reserved) -> Used {
        let Account { usage, cost, requests, mut lost, .. } = *self;
        reserved.all().for_each(|(_, estimate)| lost.add(estimate));
        Used { turns: requests, usage, cost, lost }
    }

    /// Adds the turns and the lost estimates of a sub-agent.
    pub(super) fn count_child(&mut self, used: &Used) {
        self.requests = self.requests.saturating_add(used.turns);
        if !used.lost.is_zero() {
            self.lose(used.lost);
        }
    }

    pub(super) fn lose(&mut self, estimate: Estimate) {
        self.lost.add(estimate);
    }
}

/// The estimates of requests whose end is not in the log yet.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Reserved {
    /// The request of the conversation.
    request: Option<(MessageId, Estimate)>,
    detached: BTreeMap<MessageId, Estimate>,
}

impl Reserved {
    /// Reserves the estimate of the conversation's request.
    pub(super) fn set_request(&mut self, message: MessageId, estimate: Estimate) {
        self.request = Some((message, estimate));
    }

    /// Reserves the estimate of a detached request.
    pub(super) fn add(&mut self, reservation: &Reservation) {
        self.detached.insert(reservation.message, reservation.estimate);
    }

    /// Releases the estimate of a request. Returns `false` if it had none.
    pub(super) fn release(&mut self, message: MessageId) -> bool {
        self.request.take_if(|(id, _)| *id == message).is_some()
            || self.detached.remove(&message).is_some()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (MessageId, Estimate)> {
        let detached = self.detached.iter().map(|(id, estimate)| (*id, *estimate));
        self.request.into_iter().chain(detached)
    }
}

/// Adds the cost of a request, if known. The sum stays finite, because JSON has no other numbers.
pub(crate) fn add_cost(sum: &mut f64, more: Option<f64>) {
    let more = more.filter(|cost| cost.is_finite()).unwrap_or(0.0);
    *sum = (*sum + more).clamp(f64::MIN, f64::MAX);
}
