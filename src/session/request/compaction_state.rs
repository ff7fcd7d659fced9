//! [`CompactionState`], the state of compactions.

use std::sync::Arc;

use crate::compaction::Compaction;
use crate::error::InputError;
use crate::tool::ToolList;

/// The state of compactions between requests.
#[derive(Default)]
pub(crate) struct CompactionState {
    /// The result of the compaction that the current run was started for.
    pub(crate) result: Option<Result<Vec<Arc<Compaction>>, InputError>>,
    /// The estimated tokens of the agent's tools, and of the last other list that was offered.
    pub(crate) tool_tokens: [Option<(Arc<ToolList>, u64)>; 2],
    /// The size of the conversation when an optional summary of it was paid for and failed.
    pub(super) failed_at: Option<u64>,
}
