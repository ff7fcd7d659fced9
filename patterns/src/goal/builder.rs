//! Construction of a goal.

use std::sync::Arc;

use loopwright_core::BehaviorPattern;
use loopwright_core::limits::Budget;
use loopwright_core::session::{Call, Profile};
use serde_json::json;

use super::Goal;
use super::check::Check;

impl<P: BehaviorPattern> Goal<P> {
    /// Creates a pattern whose goal is reached when this call succeeds, within 10 rounds.
    pub fn call(call: Call, then: P) -> Self {
        Goal {
            key: "goal".into(),
            check: Check::Call(call),
            rounds: 10,
            budget: Budget::default(),
            then,
        }
    }

    /// Creates a pattern whose goal is reached when this shell command, such as `cargo test`, exits
    /// with 0. The agent needs the tool `execute_command`, whose own timeout applies, 30 seconds by
    /// default. For a longer one, use [`Goal::call`] with the argument `timeout`.
    pub fn command(command: impl Into<String>, then: P) -> Self {
        Goal::call(Call::new("execute_command", json!({ "command": command.into() })), then)
    }

    /// Creates a pattern whose goal is reached when a judge with this profile says so.
    pub fn judge(goal: impl Into<String>, judge: Profile, then: P) -> Self {
        let check = Check::Judge(goal.into(), judge);
        Goal { key: "goal".into(), check, rounds: 10, budget: Budget::default(), then }
    }

    /// Sets the key of what the pattern remembers; `goal` by default. Two goals in one pattern need
    /// different keys.
    pub fn key(mut self, key: impl Into<Arc<str>>) -> Self {
        self.key = key.into();
        self
    }

    /// Sets the maximum number of checks, at least one. A message of the user after the last answer
    /// allows one more.
    pub fn rounds(mut self, rounds: u32) -> Self {
        self.rounds = rounds;
        self
    }

    /// Sets the budget for one request of the user. The limits of the run hold as well.
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }
}
