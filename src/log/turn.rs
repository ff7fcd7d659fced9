//! The current turn, the usage of a user's request and of the session, and estimates of requests.

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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Reservation {
    /// The number that the reply will have.
    pub message: MessageId,
    /// The amount that the request is charged with.
    #[serde(default, skip_serializing_if = "Estimate::is_zero")]
    pub estimate: Estimate,
    /// The name of who speaks, if the reply is [shown](crate::Ask::shown) while it streams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speaker: Option<Arc<str>>,
}

impl Reservation {
    /// Builds a reservation.
    pub fn new(message: MessageId, estimate: Estimate) -> Self {
        Reservation { message, estimate, speaker: None }
    }

    /// Sets the name of who speaks.
    pub fn speaker(mut self, speaker: Option<Arc<str>>) -> Self {
        self.speaker = speaker;
        self
    }
}

/// The usage since the last request of the user, of a session, or of a sub-agent.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Used {
    /// Number of turns: model requests, including detached ones.
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
    /// Time of the runs that have ended; zero for a sub-agent, which works in its parent's time.
    #[serde(default, skip_serializing_if = "Duration::is_zero")]
    pub time: Duration,
}

fn is_zero(usage: &Usage) -> bool {
    *usage == Usage::default()
}

impl Used {
    /// Returns the turns, tokens, cost and time.
    pub(super) fn spent(&self) -> Spent {
        let mut cost = self.cost;
        add_cost(&mut cost, self.lost.cost);
        let tokens = self.usage.total().saturating_add(self.lost.tokens);
        Spent { turns: self.turns, tokens, cost, time: self.time }
    }

    pub(super) fn charge(&mut self, usage: Usage, cost: Option<f64>) {
        self.usage += usage;
        add_cost(&mut self.cost, cost);
    }

    /// Adds the turns and the lost estimates of a sub-agent.
    pub(super) fn count_child(&mut self, used: &Used) {
        self.turns = self.turns.saturating_add(used.turns);
        if !used.lost.is_zero() {
            self.lost.add(used.lost);
        }
    }
}

/// Adds the cost of a request, if known. The sum stays finite, because JSON has no other numbers.
pub(crate) fn add_cost(sum: &mut f64, more: Option<f64>) {
    let more = more.filter(|cost| cost.is_finite()).unwrap_or(0.0);
    *sum = (*sum + more).clamp(f64::MIN, f64::MAX);
}
