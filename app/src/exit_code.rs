//! The exit codes of the commands.

use loopwright_core::event::{RunOutcome, RunStatus};
use loopwright_patterns::GoalEnd;

/// A list or search without entries.
pub(crate) const EMPTY: u8 = 1;
/// A failed tool in `tools call`.
pub(crate) const TOOL_FAILED: u8 = 1;
/// An invalid command line or setting.
pub(crate) const USAGE: u8 = 2;
/// A tool call that waits for approval.
pub(crate) const AWAITING_ACTION: u8 = 3;
/// A reached limit, with an answer or without.
pub(crate) const LIMIT: u8 = 4;
/// A failed run.
pub(crate) const FAILED: u8 = 5;
/// A reply that was cut off or is empty.
pub(crate) const INCOMPLETE: u8 = 6;
/// A goal that was not reached.
pub(crate) const NOT_REACHED: u8 = 7;
/// An aborted run; shells use this code for a process that Ctrl-C ended.
pub(crate) const ABORTED: u8 = 130;

/// Returns the exit code for a run with this outcome, and with this end of the work toward its
/// goal, if it has one.
pub(crate) fn of(outcome: &RunOutcome, goal: Option<&GoalEnd>) -> u8 {
    match outcome.end {
        RunStatus::Done | RunStatus::Incomplete if outcome.limit.is_some() => LIMIT,
        RunStatus::Done if goal.is_some_and(|goal| !goal.reached) => NOT_REACHED,
        RunStatus::Done | RunStatus::Sleeping => 0,
        RunStatus::AwaitingAction => AWAITING_ACTION,
        RunStatus::Limit => LIMIT,
        RunStatus::Incomplete => INCOMPLETE,
        RunStatus::Aborted => ABORTED,
        _ => FAILED,
    }
}
