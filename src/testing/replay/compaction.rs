//! Compactions in a log, and the policy that makes them once more.

use std::sync::Arc;

use super::progress::State;
use super::stage::Stage;
use crate::log::compaction::{
    CompactionCause, CompactionContext, CompactionPlan, CompactionPolicy, Replacement,
    SummaryRequest, check_range,
};
use crate::log::entry::LogEntry;
use crate::log::event::RunCause;
use crate::message::{Message, MessageId, MessageKind, StopReason};

/// What a log has of one step of a compaction: the replacement of some messages, or a summary that
/// led to none.
pub(super) enum Step<'a> {
    /// These messages were replaced.
    Made {
        first: MessageId,
        last: MessageId,
        /// In their place.
        message: &'a Arc<Message>,
        details: &'a serde_json::Value,
        /// There was to be a summary.
        summary: bool,
        why: &'a CompactionCause,
    },
    /// It may be a compaction that came to nothing, or an aside of the pattern.
    Unmade {
        /// The model failed. Otherwise it was cut off.
        failed: bool,
    },
}

/// The step of a compaction that begins with this item, if one can.
pub(super) fn step(log: &[LogEntry], at: usize) -> Option<Step<'_>> {
    let (detached, made) = match log.get(at)? {
        LogEntry::Detached { message, .. } => (Some(message), log.get(at + 1)),
        item => (None, Some(item)),
    };
    // An aside is the summary only if the compaction says so, or says that there is none.
    match (made, detached) {
        (Some(LogEntry::Compacted { first, last, message, details, summary, error, why }), _)
            if detached.is_none_or(|detached| {
                *summary == Some(detached.id) || is_useless(detached) && error.is_some()
            }) =>
        {
            let summary = summary.is_some() || error.is_some();
            Some(Step::Made { first: *first, last: *last, message, details, summary, why })
        }
        (_, Some(detached)) if is_interrupted(detached) || made.is_none() => {
            Some(Step::Unmade { failed: false })
        }
        (_, Some(detached)) if is_useless(detached) => Some(Step::Unmade { failed: true }),
        _ => None,
    }
}

impl Step<'_> {
    /// Whether it can be of a compaction for this cause.
    pub(super) fn is_for(&self, cause: &CompactionCause) -> bool {
        match self {
            Step::Made { why, .. } => *why == cause,
            // Whatever else a failed summary was for, something was replaced all the same.
            Step::Unmade { failed: true } => matches!(cause, CompactionCause::Asked { .. }),
            Step::Unmade { failed: false } => true,
        }
    }
}

pub(super) fn is_interrupted(detached: &Message) -> bool {
    detached.as_assistant().is_some_and(|said| said.stop == StopReason::Interrupted)
}

/// Whether it was said to its end and is no summary.
fn is_useless(detached: &Message) -> bool {
    !is_interrupted(detached)
        && (detached.as_assistant().is_some_and(|said| said.stop == StopReason::Error)
            || detached.text().trim().is_empty())
}

/// Compacts where the log does, and into what the log has.
pub(super) struct AsLogged {
    stage: Arc<Stage>,
}

impl AsLogged {
    pub(super) fn new(stage: Arc<Stage>) -> Self {
        AsLogged { stage }
    }

    /// The log up to the end of this life, and what comes next in it.
    fn next(&self, state: &State) -> Option<(&[LogEntry], usize)> {
        let life = &self.stage.lives[state.life];
        let next = life.next(&self.stage.log, state.at).filter(|_| !state.is_over(life))?;
        Some((&self.stage.log[..life.end], next))
    }
}

impl CompactionPolicy for AsLogged {
    fn plan(&self, context: &CompactionContext<'_>) -> Option<CompactionPlan> {
        let mut state = self.stage.state();
        state.guided = true;
        let (log, at) = self.next(&state)?;
        let legal = |range: &std::ops::Range<usize>| check_range(context.messages, range).is_ok();
        // Any messages will do where it is only asked whether there are some, or where none will be
        // replaced.
        let len = context.messages.len();
        let some = || (0..len).flat_map(|from| (from + 1..len).map(move |to| from..to)).find(legal);
        if let LogEntry::RunStarted { cause: RunCause::Compact { instructions }, .. } = &log[at] {
            let asked = CompactionCause::Asked { instructions: instructions.clone() };
            return some().filter(|_| asked == *context.why).map(CompactionPlan::new);
        }
        let step = step(log, at).filter(|step| step.is_for(context.why))?;
        let Step::Made { first, last, summary, .. } = step else {
            return Some(CompactionPlan::new(some()?).summary(request()).fits(true));
        };
        let replaces = state.fold.replaceable(first, last).filter(legal)?;
        let made = (at..log.len()).find(|at| matches!(log[*at], LogEntry::Compacted { .. }))?;
        let after = self.stage.lives[state.life].next(&self.stage.log, made + 1);
        let more = after
            .and_then(|after| self::step(log, after))
            .is_some_and(|step| step.is_for(context.why));
        let plan = CompactionPlan::new(replaces).more(more);
        Some(if summary { plan.summary(request()) } else { plan })
    }

    fn finish(
        &self,
        _: &CompactionContext<'_>,
        _: &CompactionPlan,
        _: Option<&str>,
    ) -> Replacement {
        let state = self.stage.state();
        let logged = self.next(&state).and_then(|(log, at)| match step(log, at)? {
            Step::Made { message, details, .. } => {
                let MessageKind::User(said) = &message.body else {
                    return None;
                };
                Some(Replacement::new(said.clone()).details(details.clone()))
            }
            Step::Unmade { .. } => None,
        });
        let nothing = || Replacement::new("The log has no compaction here.");
        logged.unwrap_or_else(nothing)
    }
}

/// The model answers it from the log, whatever it says.
fn request() -> SummaryRequest {
    SummaryRequest::new("", "The summary that the log has here.")
}
