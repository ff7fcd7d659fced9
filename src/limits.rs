//! Budgets of runs and sessions.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// The longest measured time. A longer one, such as [`Duration::MAX`], is no limit.
const MAX_TIME: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// Returns the time that is this duration from now.
pub(crate) fn deadline(after: Duration) -> Instant {
    Instant::now() + after.min(MAX_TIME)
}

/// The budget of a run. A run that reaches it ends with
/// [`RunStatus::Limit`](crate::event::RunStatus::Limit). A [`Budget`] bounds a whole session.
///
/// Before each model request, a turn, the estimated tokens of its input and their cost are reserved
/// in the log. A request that does not fit is not sent. When the reply is in the log, the usage
/// reported by the provider replaces the estimate. So a run can exceed a budget by the output of
/// its last request, and by the error of the estimate.
///
/// For requests in progress at the same time, the output is reserved too: `max_tokens`, else the
/// mean of the session's replies, else 1,024 tokens. Near the end of a budget, fewer are sent at
/// once. A request whose process was killed before the reply was in the log stays charged with its
/// estimate.
///
/// Attempts that failed, were withdrawn or were cut off count with the usage that the provider had
/// reported by then. Few providers report any for a failed request.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Limits {
    /// Maximum number of turns (model requests, including failed and detached ones); 50 by default.
    pub turns: u32,
    /// Maximum number of tokens of all requests; unlimited by default.
    pub tokens: Option<u64>,
    /// Maximum cost of all requests in US dollars; unlimited by default. If it is set, a request to
    /// a model without prices fails with [`StepError::NoPrices`](crate::StepError::NoPrices).
    pub cost: Option<f64>,
    /// Maximum wall-clock time since the user's request, including earlier runs that a decision or
    /// `Continue` resumed; unlimited by default, and with [`Duration::MAX`]. The run ends as soon
    /// as it is reached.
    pub wall_time: Option<Duration>,
    /// Time limit of a tool call, unless the tool sets its own; 120 s by default. [`Duration::MAX`]
    /// is no limit.
    pub tool_timeout: Duration,
    /// Maximum number of bytes of text in a tool result; 64 KiB by default. The middle of a longer
    /// text is left out, with a note in the result.
    pub tool_result_bytes: usize,
    /// Maximum number of bytes of a reply: its text, thinking and arguments; 6 MiB by default. A
    /// longer reply is cut off, and the request fails.
    pub reply_bytes: usize,
    /// Number of calls of a batch that run at the same time; 8 by default.
    pub parallel_calls: usize,
    /// Number of requests of [`StepContext::ask_all`](crate::StepContext::ask_all) that are in
    /// progress at the same time; 16 by default.
    pub parallel_requests: usize,
    /// Number of times that an answer is sent back because it does not fit the output schema; 2 by
    /// default.
    pub output_retries: u32,
    /// Maximum nesting of sub-agents; 5 by default. With 1, the agent's sub-agents cannot start
    /// others, and with 0 it cannot start any. The limit of the agent at the root applies to all.
    pub depth: u32,
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
            reply_bytes: 6 << 20,
            parallel_calls: 8,
            parallel_requests: 16,
            output_retries: 2,
            depth: 5,
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

    /// Sets the time limit of a tool call, unless the tool sets its own.
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

    /// Sets how many times an answer that does not fit the output schema is sent back.
    pub fn output_retries(mut self, times: u32) -> Self {
        self.output_retries = times;
        self
    }

    /// Sets how deep sub-agents may be nested.
    pub fn depth(mut self, levels: u32) -> Self {
        self.depth = levels;
        self
    }
}

impl Limits {
    /// Returns these limits, with a run's budget that is at most this one.
    pub(crate) fn within(&self, budget: &Budget) -> Limits {
        let Budget { turns, tokens, cost, time } = self.budget().min(budget);
        Limits { turns: turns.unwrap_or(self.turns), tokens, cost, wall_time: time, ..self.clone() }
    }

    /// Returns the budget of a run.
    pub(crate) fn budget(&self) -> Budget {
        let Limits { turns, tokens, cost, wall_time, .. } = *self;
        Budget { turns: Some(turns), tokens, cost, time: wall_time }
    }
}

/// A budget of turns, tokens, cost and time of a session, or the rest of one. `None`, the default,
/// is unlimited.
///
/// ```
/// use loopwright_core::limits::Budget;
///
/// let budget = Budget::default().turns(500).cost(20.0);
/// assert_eq!((budget.turns, budget.tokens), (Some(500), None));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Budget {
    /// The number of turns: model requests, detached ones included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<u32>,
    /// The tokens of all requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// The cost of all requests in US dollars. With it, a request to a model without prices fails
    /// with [`StepError::NoPrices`](crate::StepError::NoPrices).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// The wall-clock time of all runs. [`Duration::MAX`] is no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<Duration>,
}

impl Budget {
    /// Sets the number of turns.
    pub fn turns(mut self, turns: u32) -> Self {
        self.turns = Some(turns);
        self
    }

    /// Sets the number of tokens.
    pub fn tokens(mut self, tokens: u64) -> Self {
        self.tokens = Some(tokens);
        self
    }

    /// Sets the cost in US dollars.
    pub fn cost(mut self, dollars: f64) -> Self {
        self.cost = Some(dollars);
        self
    }

    /// Sets the wall-clock time of all runs.
    pub fn time(mut self, time: Duration) -> Self {
        self.time = Some(time);
        self
    }

    /// Returns the rest of the budget after `spent`; zero if it is exceeded.
    pub fn left(&self, spent: &Spent) -> Budget {
        let time = self.time.filter(|time| *time < MAX_TIME);
        Budget {
            turns: self.turns.map(|max| max.saturating_sub(spent.turns)),
            tokens: self.tokens.map(|max| max.saturating_sub(spent.tokens)),
            cost: self.cost.map(|max| (max - spent.cost).max(0.0)),
            time: time.map(|max| max.saturating_sub(spent.time)),
        }
    }

    /// Returns one of `parts` equal parts of the budget, rounded up. The time is not divided, since
    /// sub-agents work at the same time.
    pub(crate) fn part(&self, parts: u32) -> Budget {
        let parts = parts.max(1);
        Budget {
            turns: self.turns.map(|turns| turns.div_ceil(parts)),
            tokens: self.tokens.map(|tokens| tokens.div_ceil(u64::from(parts))),
            cost: self.cost.map(|cost| cost / f64::from(parts)),
            time: self.time,
        }
    }

    /// Returns the rest of the budget without a part. The time is not divided.
    pub(crate) fn without(&self, part: &Budget) -> Budget {
        let Budget { turns, tokens, cost, .. } = *part;
        let taken = Spent {
            turns: turns.unwrap_or_default(),
            tokens: tokens.unwrap_or_default(),
            cost: cost.unwrap_or_default(),
            time: Duration::ZERO,
        };
        self.left(&taken)
    }

    /// Returns whether one of the budgets is used up.
    pub(crate) fn is_used_up(&self) -> bool {
        let Budget { turns, tokens, cost, time } = *self;
        turns == Some(0)
            || tokens == Some(0)
            || cost.is_some_and(|cost| cost <= 0.0)
            || time == Some(Duration::ZERO)
    }

    /// Returns the smaller of the two budgets, separately for turns, tokens, cost and time.
    pub fn min(&self, other: &Budget) -> Budget {
        fn least<T: PartialOrd>(a: Option<T>, b: Option<T>) -> Option<T> {
            match (a, b) {
                (Some(a), Some(b)) => Some(if b < a { b } else { a }),
                (a, b) => a.or(b),
            }
        }
        Budget {
            turns: least(self.turns, other.turns),
            tokens: least(self.tokens, other.tokens),
            cost: least(self.cost, other.cost),
            time: least(self.time, other.time),
        }
    }
}

/// The turns, tokens, dollars and time used so far. Requests in progress, and requests whose reply
/// was lost in a crash, count with their estimates. Sub-agents that have not ended count with their
/// shares.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct Spent {
    /// The number of turns: model requests, detached ones included.
    pub turns: u32,
    /// The tokens of all requests.
    pub tokens: u64,
    /// The cost of all requests in US dollars, as far as prices are known.
    pub cost: f64,
    /// The wall-clock time of the runs.
    pub time: Duration,
}

impl Spent {
    /// Counts the share of a sub-agent as used.
    pub(crate) fn reserve(&mut self, share: &Budget) {
        self.turns = self.turns.saturating_add(share.turns.unwrap_or_default());
        self.tokens = self.tokens.saturating_add(share.tokens.unwrap_or_default());
        self.cost += share.cost.unwrap_or_default();
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
    /// [`Budget::turns`] of the session.
    SessionTurns,
    /// [`Budget::tokens`] of the session.
    SessionTokens,
    /// [`Budget::cost`] of the session.
    SessionCost,
    /// [`Budget::time`] of the session.
    SessionTime,
    /// The sub-agent's share of turns, from the budget of the agent that started it.
    ShareTurns,
    /// The sub-agent's share of tokens.
    ShareTokens,
    /// The sub-agent's share of the cost.
    ShareCost,
    /// The sub-agent's share of the time.
    ShareTime,
    /// The [budget](crate::session::SharedBudget) that the session shares with others.
    Shared,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Limit::Turns => "the limit of turns",
            Limit::Tokens => "the limit of tokens",
            Limit::Cost => "the cost limit",
            Limit::WallTime => "the time limit",
            Limit::SessionTurns => "the session's limit of turns",
            Limit::SessionTokens => "the session's limit of tokens",
            Limit::SessionCost => "the session's cost limit",
            Limit::SessionTime => "the session's time limit",
            Limit::ShareTurns => "the sub-agent's share of the turns",
            Limit::ShareTokens => "the sub-agent's share of the tokens",
            Limit::ShareCost => "the sub-agent's share of the cost",
            Limit::ShareTime => "the sub-agent's share of the time",
            Limit::Shared => "the budget that the session shares with others",
        })
    }
}

/// The budget that is too small. The text contains the maximum, the used amount, and the needed
/// amount.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitReached {
    /// The budget that is used up, or too small for the next request.
    pub limit: Limit,
    details: Arc<str>,
}

impl LimitReached {
    /// Builds the error for a [`SharedBudget`](crate::session::SharedBudget) that is used up. The
    /// text is the whole sentence, without a full stop.
    pub fn shared(why: impl Into<Arc<str>>) -> Self {
        LimitReached { limit: Limit::Shared, details: why.into() }
    }

    pub(crate) fn turns(limit: Limit, max: u32, used: u32, needed: u32) -> Self {
        let details = if needed > 1 {
            let left = max.saturating_sub(used);
            format!("{needed} turns are needed, and {left} of {max} are left")
        } else {
            format!("{used} of {max} turns are used")
        };
        LimitReached { limit, details: details.into() }
    }

    pub(crate) fn tokens(limit: Limit, max: u64, used: u64, needed: u64) -> Self {
        let mut details = format!("{used} of {max} tokens are used");
        if used < max {
            details += &format!(", and about {needed} more are needed");
        }
        LimitReached { limit, details: details.into() }
    }

    pub(crate) fn cost(limit: Limit, max: f64, used: f64, needed: f64) -> Self {
        let mut details = format!("{} of {} are spent", Dollars(used), Dollars(max));
        if used < max {
            details += &format!(", and about {} more is needed", Dollars(needed));
        }
        LimitReached { limit, details: details.into() }
    }

    pub(crate) fn time(limit: Limit, max: Duration, used: Duration) -> Self {
        LimitReached { limit, details: format!("{used:.1?} of {max:?} have passed").into() }
    }
}

impl fmt::Display for LimitReached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.limit {
            Limit::Shared => f.write_str(&self.details),
            limit => write!(f, "{limit} is reached: {}", self.details),
        }
    }
}

/// A sum of money for display. Sums below one dollar get more digits.
struct Dollars(f64);

impl fmt::Display for Dollars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.abs() < 1.0 { write!(f, "${:.4}", self.0) } else { write!(f, "${:.2}", self.0) }
    }
}
