//! Budgets of runs and sessions.

mod loop_guard;
mod reached;
mod wrap_up;

pub use self::loop_guard::LoopGuard;
pub use self::reached::LimitReached;
pub use self::wrap_up::WrapUp;

use std::borrow::Cow;
use std::fmt;
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

/// The budgets of each run and of the session, and other bounds of an agent. A [`Budget`] converts
/// into the limits that bound each run with it.
///
/// A run that reaches a budget ends with [`RunStatus::Limit`](crate::event::RunStatus::Limit), or
/// with an answer if [`Limits::wrap_up`] asks for one.
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
///
/// ```
/// use loopwright_core::limits::{Budget, Limits};
///
/// let limits = Limits::from(Budget::default().cost(0.50)).session(Budget::default().cost(20.0));
/// assert_eq!((limits.run.turns, limits.session.turns), (Some(50), None));
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Limits {
    /// The budget of each run; 50 turns by default. Its time is the time since the user's request,
    /// including earlier runs that a decision or `Continue` resumed. The run ends as soon as it is
    /// over.
    pub run: Budget,
    /// The budget of the session; unlimited by default. All requests in the session's log count,
    /// including requests before a reset, of an earlier process, and of the session that it was
    /// forked from.
    pub session: Budget,
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
    /// The answer of a run that reaches a budget; `None`, the default, ends the run without one.
    pub wrap_up: Option<WrapUp>,
    /// The guard against calls that are repeated without a new result; `None`, the default,
    /// allows them.
    pub loop_guard: Option<LoopGuard>,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            run: Budget::default().turns(50),
            session: Budget::default(),
            tool_timeout: Duration::from_secs(120),
            tool_result_bytes: 64 * 1024,
            reply_bytes: 6 << 20,
            parallel_calls: 8,
            parallel_requests: 16,
            output_retries: 2,
            depth: 5,
            wrap_up: None,
            loop_guard: None,
        }
    }
}

impl Limits {
    /// Sets the budget of each run. Without a number of turns in it, the previous one stays.
    pub fn run(mut self, budget: Budget) -> Self {
        self.run = Budget { turns: budget.turns.or(self.run.turns), ..budget };
        self
    }

    /// Sets the budget of the session.
    pub fn session(mut self, budget: Budget) -> Self {
        self.session = budget;
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

    /// Asks for an answer when a run reaches a budget.
    pub fn wrap_up(mut self, wrap_up: WrapUp) -> Self {
        self.wrap_up = Some(wrap_up);
        self
    }

    /// Stops runs that repeat the same calls without a new result.
    pub fn loop_guard(mut self, guard: LoopGuard) -> Self {
        self.loop_guard = Some(guard);
        self
    }
}

impl From<Budget> for Limits {
    fn from(run: Budget) -> Self {
        Limits::default().run(run)
    }
}

/// A budget of turns, tokens, cost and time of a run or a session, or the rest of one. `None`, the
/// default, is unlimited.
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
    /// The number of turns: model requests, including failed and detached ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<u32>,
    /// The tokens of all requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// The cost of all requests in US dollars. With it, a request to a model without prices fails
    /// with [`StepError::NoPrices`](crate::StepError::NoPrices).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// The wall-clock time. [`Duration::MAX`] is no limit.
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

    /// Sets the wall-clock time.
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

    /// Returns the budget of a [part](crate::StepContext::with_budget) that leaves room for so many
    /// requests behind it, however long the conversation grows. For each of them it keeps a turn,
    /// the tokens of the conversation after another turn of its mean length and of a reply, their
    /// cost by the prices of the agent's own model, and 30 s; of the time at most a quarter in all.
    pub fn keep(self, requests: u32) -> PartBudget {
        PartBudget { budget: self, kept: requests }
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

/// The budget of a part of a pattern's work; see
/// [`StepContext::with_budget`](crate::StepContext::with_budget). A [`Budget`] converts into it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct PartBudget {
    /// The budget, with what is kept.
    pub budget: Budget,
    /// The number of requests behind the part for which room is left.
    pub kept: u32,
}

impl From<Budget> for PartBudget {
    fn from(budget: Budget) -> Self {
        PartBudget { budget, kept: 0 }
    }
}

/// The turns, tokens, dollars and time used so far. Requests in progress, and requests whose reply
/// was lost in a crash, count with their estimates. Sub-agents that have not ended count with their
/// shares.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
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
    /// Returns the usage since an earlier one of the same run or session.
    pub(crate) fn since(&self, earlier: &Spent) -> Spent {
        Spent {
            turns: self.turns.saturating_sub(earlier.turns),
            tokens: self.tokens.saturating_sub(earlier.tokens),
            cost: (self.cost - earlier.cost).max(0.0),
            time: self.time.saturating_sub(earlier.time),
        }
    }

    /// Counts the share of a sub-agent as used.
    pub(crate) fn reserve(&mut self, share: &Budget) {
        self.turns = self.turns.saturating_add(share.turns.unwrap_or_default());
        self.tokens = self.tokens.saturating_add(share.tokens.unwrap_or_default());
        self.cost += share.cost.unwrap_or_default();
    }
}

/// The budget that was used up, or another limit. In JSON, it is a word such as `turns` or
/// `session_tokens`; the time of a run is `wall_time`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
#[non_exhaustive]
pub enum Limit {
    /// [`Limits::run`].
    Run(Resource),
    /// [`Limits::session`].
    Session(Resource),
    /// The sub-agent's share of the budgets of the agent that started it.
    Share(Resource),
    /// The budget of a part of the pattern's work:
    /// [`StepContext::with_budget`](crate::StepContext::with_budget).
    Part(Resource),
    /// The [budget](crate::session::SharedBudget) that the session shares with others.
    Shared,
    /// [`Limits::loop_guard`].
    RepeatedCalls,
}

/// A resource that a [`Budget`] bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resource {
    /// [`Budget::turns`].
    Turns,
    /// [`Budget::tokens`].
    Tokens,
    /// [`Budget::cost`].
    Cost,
    /// [`Budget::time`].
    Time,
}

impl Limit {
    fn all() -> impl Iterator<Item = Limit> {
        use Resource::{Cost, Time, Tokens, Turns};
        let scopes = [Limit::Run, Limit::Session, Limit::Share, Limit::Part];
        let each = |scope: fn(Resource) -> Limit| [Turns, Tokens, Cost, Time].map(scope);
        scopes.into_iter().flat_map(each).chain([Limit::Shared, Limit::RepeatedCalls])
    }
}

impl Resource {
    fn word(self) -> &'static str {
        match self {
            Resource::Turns => "turns",
            Resource::Tokens => "tokens",
            Resource::Cost => "cost",
            Resource::Time => "time",
        }
    }
}

impl From<Limit> for String {
    fn from(limit: Limit) -> String {
        match limit {
            Limit::Run(Resource::Time) => "wall_time".into(),
            Limit::Run(resource) => resource.word().into(),
            Limit::Session(resource) => format!("session_{}", resource.word()),
            Limit::Share(resource) => format!("share_{}", resource.word()),
            Limit::Part(resource) => format!("part_{}", resource.word()),
            Limit::Shared => "shared".into(),
            Limit::RepeatedCalls => "repeated_calls".into(),
        }
    }
}

impl TryFrom<String> for Limit {
    type Error = String;

    fn try_from(word: String) -> Result<Self, String> {
        let found = Limit::all().find(|limit| String::from(*limit) == word);
        found.ok_or_else(|| format!("there is no limit `{word}`"))
    }
}

impl JsonSchema for Limit {
    fn schema_name() -> Cow<'static, str> {
        "Limit".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let words: Vec<String> = Limit::all().map(String::from).collect();
        let description = "The budget that was used up, or another limit.";
        schemars::json_schema!({ "description": description, "type": "string", "enum": words })
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |resource| match resource {
            Resource::Turns => "limit of turns",
            Resource::Tokens => "limit of tokens",
            Resource::Cost => "cost limit",
            Resource::Time => "time limit",
        };
        match *self {
            Limit::Run(resource) => write!(f, "the {}", name(resource)),
            Limit::Session(resource) => write!(f, "the session's {}", name(resource)),
            Limit::Share(resource) => write!(f, "the sub-agent's share of the {}", resource.word()),
            Limit::Part(resource) => write!(f, "the {} of a part of the work", name(resource)),
            Limit::Shared => f.write_str("the budget that the session shares with others"),
            Limit::RepeatedCalls => f.write_str("the limit of repeated calls"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_limits_in_logs_stay() {
        let words = "turns tokens cost wall_time session_turns session_tokens session_cost \
            session_time share_turns share_tokens share_cost share_time part_turns part_tokens \
            part_cost part_time shared repeated_calls";
        let written: Vec<String> = Limit::all().map(String::from).collect();
        assert_eq!(written.join(" "), words);
        for limit in Limit::all() {
            let json = serde_json::to_string(&limit).unwrap();
            assert_eq!(serde_json::from_str::<Limit>(&json).unwrap(), limit, "{json}");
        }
        assert!(serde_json::from_str::<Limit>("\"session\"").is_err());
    }
}
