//! Budgets of a run.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a run may use before it ends with `limit`. Each budget is checked before a model
/// request, never in the middle of one, so a run can overshoot by one request.
///
/// Tokens and cost are those of replies that were completed. Few providers tell what a failed
/// request used, so attempts that failed, were withdrawn or cut off count nothing, even where they
/// are paid for; they do count as time.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Limits {
    /// Turns (model requests of the loop), 50 by default.
    pub turns: u32,
    /// Tokens of all requests together; unlimited by default.
    pub tokens: Option<u64>,
    /// US dollars of all requests together; unlimited by default. A model without known prices is
    /// refused.
    pub cost: Option<f64>,
    /// Time on the clock, that of the runs before an answer or `Continue` included; unlimited by
    /// default. Reaching it cuts the run off at once.
    pub wall_time: Option<Duration>,
    /// Time for one tool call that sets no timeout of its own, 120 s by default.
    pub tool_time: Duration,
    /// Bytes of text of one tool result that the model is shown, 64 KiB by default. The middle of a
    /// longer one is left out, and the result says so.
    pub tool_result_bytes: usize,
    /// Calls of one batch that run at the same time, 8 by default.
    pub parallel_calls: usize,
    /// How often an answer that does not fit the output schema is sent back, 2 by default.
    pub output_retries: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            turns: 50,
            tokens: None,
            cost: None,
            wall_time: None,
            tool_time: Duration::from_secs(120),
            tool_result_bytes: 64 * 1024,
            parallel_calls: 8,
            output_retries: 2,
        }
    }
}

impl Limits {
    /// At most this many turns.
    pub fn turns(mut self, turns: u32) -> Self {
        self.turns = turns;
        self
    }

    /// At most about this many tokens.
    pub fn tokens(mut self, tokens: u64) -> Self {
        self.tokens = Some(tokens);
        self
    }

    /// At most about this many US dollars.
    pub fn cost(mut self, dollars: f64) -> Self {
        self.cost = Some(dollars);
        self
    }

    /// At most this long.
    pub fn wall_time(mut self, time: Duration) -> Self {
        self.wall_time = Some(time);
        self
    }

    /// At most this long per tool call that sets no timeout of its own.
    pub fn tool_time(mut self, time: Duration) -> Self {
        self.tool_time = time;
        self
    }

    /// At most this many bytes of text per tool result.
    pub fn tool_result_bytes(mut self, bytes: usize) -> Self {
        self.tool_result_bytes = bytes;
        self
    }

    /// At most this many calls of a batch at the same time (at least one).
    pub fn parallel_calls(mut self, calls: usize) -> Self {
        self.parallel_calls = calls.max(1);
        self
    }

    /// Send an answer that does not fit the output schema back this often.
    pub fn output_retries(mut self, times: u32) -> Self {
        self.output_retries = times;
        self
    }
}

/// The budget that ended a run.
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
