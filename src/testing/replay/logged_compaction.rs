//! [`LoggedCompaction`]: the compaction policy that repeats the compactions of the log.

use std::ops::Range;
use std::sync::Arc;

use super::compaction_step::CompactionStep;
use super::progress::Progress;
use super::shared::SharedReplay;
use crate::compaction::{
    CompactionCause, CompactionContext, CompactionPlan, CompactionPolicy, Replacement,
    SummaryRequest, check_range,
};
use crate::event::outcome::RunCause;
use crate::log::entry::LogEntry;
use crate::message::MessageKind;

/// A compaction policy that repeats the compactions of the log.
pub(super) struct LoggedCompaction {
    replay: Arc<SharedReplay>,
}

impl LoggedCompaction {
    pub(super) fn new(replay: Arc<SharedReplay>) -> Self {
        LoggedCompaction { replay }
    }

    /// Returns the log up to the end of the epoch, and the position of its next entry.
    fn next(&self, progress: &Progress) -> Option<(&[LogEntry], usize)> {
        let epoch = &self.replay.epochs[progress.epoch];
        let next =
            epoch.next(&self.replay.log, progress.at).filter(|_| !progress.is_over(epoch))?;
        Some((&self.replay.log[..epoch.end], next))
    }
}

impl CompactionPolicy for LoggedCompaction {
    fn plan(&self, context: &CompactionContext<'_>) -> Option<CompactionPlan> {
        let mut progress = self.replay.progress();
        progress.compacts_as_logged = true;
        let (log, at) = self.next(&progress)?;
        let is_legal = |range: &Range<usize>| check_range(context.messages, range).is_ok();
        // Any range will do where the engine only asks for its existence, or where no message will
        // be replaced.
        let len = context.messages.len();
        let any_range =
            || (0..len).flat_map(|from| (from + 1..len).map(move |to| from..to)).find(is_legal);
        if let LogEntry::RunStarted { cause: RunCause::Compact { instructions }, .. } = &log[at] {
            let asked = CompactionCause::Asked { instructions: instructions.clone() };
            return any_range().filter(|_| asked == *context.why).map(CompactionPlan::new);
        }
        let step = CompactionStep::at(log, at).filter(|step| step.is_for(context.why))?;
        let CompactionStep::Replaced { first, last, has_summary, .. } = step else {
            return Some(CompactionPlan::new(any_range()?).summary(request()).fits(true));
        };
        let range = progress.state.replaceable(first, last).filter(is_legal)?;
        let compacted =
            (at..log.len()).find(|at| matches!(log[*at], LogEntry::Compacted { .. }))?;
        let after = self.replay.epochs[progress.epoch].next(&self.replay.log, compacted + 1);
        let more = after
            .and_then(|after| CompactionStep::at(log, after))
            .is_some_and(|step| step.is_for(context.why));
        let plan = CompactionPlan::new(range).more(more);
        Some(if has_summary { plan.summary(request()) } else { plan })
    }

    fn finish(
        &self,
        _: &CompactionContext<'_>,
        _: &CompactionPlan,
        _: Option<&str>,
    ) -> Replacement {
        let progress = self.replay.progress();
        let logged =
            self.next(&progress).and_then(|(log, at)| match CompactionStep::at(log, at)? {
                CompactionStep::Replaced { message, details, .. } => {
                    let MessageKind::User(text) = &message.body else {
                        return None;
                    };
                    Some(Replacement::new(text.clone()).details(details.clone()))
                }
                CompactionStep::Abandoned { .. } => None,
            });
        logged.unwrap_or_else(|| Replacement::new("The log has no compaction here."))
    }
}

/// Returns a request for a summary. Its text does not matter, because the model replies from the
/// log.
fn request() -> SummaryRequest {
    SummaryRequest::new("", "The summary that the log has here.")
}
