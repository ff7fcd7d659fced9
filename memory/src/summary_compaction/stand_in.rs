//! The message that replaces older turns, and the details that are logged with it.

use loopwright_core::excerpt;
use serde::{Deserialize, Serialize};

use super::touched_files::TouchedFiles;

/// The replacement of older turns. It is logged with the replacement, for the next compaction.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct StandIn {
    pub(super) summary: String,
    #[serde(flatten)]
    pub(super) files: TouchedFiles,
    /// The number of turns left out without a summary.
    pub(super) left_out: usize,
}

impl StandIn {
    /// Sets the summary, cut to `max_bytes`.
    pub(super) fn set_summary(&mut self, summary: &str, max_bytes: usize) {
        self.summary = excerpt::bytes(summary.trim(), max_bytes);
    }

    /// Returns the text that the model gets in place of the older turns.
    pub(super) fn text(&self) -> String {
        let mut text = String::from(
            "(The conversation from after the first request up to here was shortened.)\n",
        );
        self.files.write(&mut text);
        if !self.summary.is_empty() {
            text.push_str("\nSummary:\n");
            text.push_str(&self.summary);
            text.push('\n');
        }
        if self.left_out > 0 {
            let turns = self.left_out;
            text.push_str(&format!("\n({turns} turns were left out without a summary.)\n"));
        }
        text
    }
}
