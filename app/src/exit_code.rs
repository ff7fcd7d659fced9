//! The exit codes of the commands.

use loopwright_core::event::{RunOutcome, RunStatus};

/// A list or a search has no entries.
pub(crate) const EMPTY: u8 = 1;
/// The tool of `tools call` failed.
pub(crate) const TOOL_FAILED: u8 = 1;
/// The command line or a setting is invalid.
pub(crate) const USAGE: u8 = 2;
/// A tool call waits for approval.
pub(crate) const AWAITING_ACTION: u8 = 3;
/// A limit was reached.
pub(crate) const LIMIT: u8 = 4;
/// The run failed.
pub(crate) const FAILED: u8 = 5;
/// The reply was cut off or is empty.
pub(crate) const INCOMPLETE: u8 = 6;
/// The run was aborted; shells use this code for a process that Ctrl-C ended.
pub(crate) const ABORTED: u8 = 130;

/// Returns the exit code for a run with this outcome.
pub(crate) fn of(outcome: &RunOutcome) -> u8 {
    match outcome.end {
        RunStatus::Done => 0,
        RunStatus::AwaitingAction => AWAITING_ACTION,
        RunStatus::Limit => LIMIT,
        RunStatus::Incomplete => INCOMPLETE,
        RunStatus::Aborted => ABORTED,
        _ => FAILED,
    }
}
