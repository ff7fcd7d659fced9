//! Compactions on request, wherever the session is open.

use std::sync::Arc;

use loopwright_core::AgentEvent;
use loopwright_core::compaction::{Compaction, CompactionCause};
use loopwright_core::event::{Input, InputEvent};
use loopwright_core::log::{Follower, LogEntry};
use loopwright_core::message::InputId;

use super::LiveSessions;
use crate::error::ApiError;
use crate::limits::quota::Client;

impl LiveSessions {
    /// Compacts a session, and returns the compactions from its log.
    pub(crate) async fn compact(
        &self,
        id: &str,
        client: Client,
        input: Option<InputId>,
        instructions: Option<String>,
    ) -> Result<Vec<Arc<Compaction>>, ApiError> {
        let event = InputEvent::Compact(instructions.clone());
        let input = self.send(id, Some(client), Input { id: input, event }).await??;
        let entries = self.0.parts.store.read(id, 0).await?;
        Ok(compactions(id, &entries, &input, instructions.as_deref()))
    }
}

/// Returns the compactions of an input: those with its instructions, between the input's entry and
/// the previous start of a run, reply or handled input.
fn compactions(
    session: &str,
    entries: &[LogEntry],
    input: &InputId,
    instructions: Option<&str>,
) -> Vec<Arc<Compaction>> {
    let is_handled =
        |entry: &LogEntry| matches!(entry, LogEntry::Handled { input: id } if id == input);
    let Some(end) = entries.iter().position(is_handled) else { return Vec::new() };
    let is_before = |entry: &LogEntry| {
        let is_start = matches!(entry, LogEntry::RunStarted { .. } | LogEntry::Replied { .. });
        is_start || matches!(entry, LogEntry::Handled { .. })
    };
    let start = entries[..end].iter().rposition(is_before).unwrap_or(0);
    let mut follower = Follower::new(session);
    follower.take(&entries[..start]);
    let asked = |compaction: &Arc<Compaction>| match &compaction.why {
        CompactionCause::Asked { instructions: asked } => asked.as_deref() == instructions,
        _ => false,
    };
    let done =
        follower.take(&entries[start..end]).into_iter().filter_map(|event| match event.event {
            AgentEvent::Compaction(compaction) => Some(compaction),
            _ => None,
        });
    done.filter(asked).collect()
}
