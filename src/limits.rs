//! Budgets of a run.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// The longest time that is measured. A longer one, such as [`Duration::MAX`], is no limit.
const MAX_TIME: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// Returns the time at which this duration from now has passed.
pub(crate) fn deadline(after: Duration) -> Instant {
    Instant::now() + after.min(MAX_TIME)
}

/// Bounds what a run may use before it ends with
/// [`RunStatus::Limit`](crate::event::RunStatus::Limit). Each budget except the time is checked
/// before a model request, so a run can exceed it by one request.
///
/// Tokens and cost are those of complete replies. Few providers report what a failed request used,
/// so attempts that failed, were withdrawn or were cut off do not count, even if they are charged
/// for. They do count as time.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Limits {
    /// The maximum number of turns (model requests of the loop); 50 by default.
    pub turns: u32,
    /// The maximum number of tokens of all requests; unlimited by default.
    pub tokens: Option<u64>,
    /// The maximum cost of all requests in US dollars; unlimited by default. With it, a request to
    /// a model without prices fails with [`StepError::NoPrices`](crate::StepError::NoPrices).
    pub cost: Option<f64>,
    /// The maximum wall-clock time since the request of the user, including earlier runs that a
    /// decision or `Continue` resumed; unlimited by default, and with [`Duration::MAX`]. The run
    /// ends as soon as it is reached.
    pub wall_time: Option<Duration>,
    /// The time limit of a tool call whose tool sets none; 120 s by default. [`Duration::MAX`] is
    /// no limit.
    pub tool_timeout: Duration,
    /// The maximum number of bytes of text in a tool result; 64 KiB by default. The middle of a
    /// longer text is left out, and the result says so.
    pub tool_result_bytes: usize,
    /// The maximum number of bytes of a reply: its text, thinking and arguments; 16 MiB by default.
    /// A longer one is cut off, and the request fails.
    pub reply_bytes: usize,
    /// The number of calls of a batch that run at the same time; 8 by default.
    pub parallel_calls: usize,
    /// The number of requests of [`StepContext::ask_all`](crate::StepContext::ask_all) that are in
    /// progress at the same time; 16 by default.
    pub parallel_requests: usize,
    /// How often an answer that does not fit the output schema is sent back; 2 by default.
    pub output_retries: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            turns: 50,
            tokens: None,
            cost: None,
            wall_time: None,
            tool_timeout: Duration::from_secs(120),
            tool_result_bytes: 64 * 1024,
            reply_bytes: 16 * 1024 * 1024,
            parallel_calls: 8,
            parallel_requests: 16,
            output_retries: 2,
        }
    }
}

impl Limits {
    /// Sets the maximum number of turns.
    pub fn turns(mut self, turns: u32) -> Self {
        self.turns = turns;
        self
    }

    /// Sets the maximum number of tokens.
    pub fn tokens(mut self, tokens: u64) -> Self {
        self.tokens = Some(tokens);
        self
    }

    /// Sets the maximum cost in US dollars.
    pub fn cost(mut self, dollars: f64) -> Self {
        self.cost = Some(dollars);
        self
    }

    /// Sets the maximum wall-clock time.
    pub fn wall_time(mut self, time: Duration) -> Self {
        self.wall_time = Some(time);
        self
    }

    /// Sets the time limit of a tool call whose tool sets none.
    pub fn tool_timeout(mut self, time: Duration) -> Self {
        self.tool_timeout = time;
        self
    }

    /// Sets the maximum number of bytes of text in a tool result.
    pub fn tool_result_bytes(mut self, bytes: usize) -> Self {
        self.tool_result_bytes = bytes;
        self
    }

    /// Sets the maximum number of bytes of a reply.
    pub fn reply_bytes(mut self, bytes: usize) -> Self {
        self.reply_bytes = bytes;
        self
    }

    /// Sets how many calls of a batch run at the same time, at least one.
    pub fn parallel_calls(mut self, calls: usize) -> Self {
        self.parallel_calls = calls.max(1);
        self
    }

    /// Sets how many requests of [`StepContext::ask_all`](crate::StepContext::ask_all) are in
    /// progress at the same time, at least one.
    pub fn parallel_requests(mut self, requests: usize) -> Self {
        self.parallel_requests = requests.max(1);
        self
    }

    /// Sets how often an answer that does not fit the output schema is sent back.
    pub fn output_retries(mut self, times: u32) -> Self {
        self.output_retries = times;
        self
    }
}

/// Names the budget that ended a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Limit {
    /// [`Limits::turns`].
    Turns,
    /// [`Limits::tokens`].
    Tokens,
    /// [`Limits::cost`].
    Cost,
    /// [`Limits::wall_time`].
    WallTime,
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Limit::Turns => "the limit of turns",
            Limit::Tokens => "the limit of tokens",
            Limit::Cost => "the cost limit",
            Limit::WallTime => "the time limit",
        })
    }
}
