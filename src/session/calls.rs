//! Tool calls: they are checked, approved and run, and each gets its result.

pub(crate) mod batch;
pub(crate) mod batch_outcome;
pub(crate) mod call_checks;
pub(crate) mod executor;
pub(crate) mod pattern_calls;
pub(crate) mod running_tool;
pub(crate) mod shown_changes;
pub(crate) mod tool_requests;
