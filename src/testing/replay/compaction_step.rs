//! [`CompactionStep`]: one step of a compaction in a log.

use std::sync::Arc;

use crate::compaction::CompactionCause;
use crate::log::entry::LogEntry;
use crate::message::{Message, MessageId, StopReason};

/// One step of a compaction in a log: the replacement of some messages, or a summary that replaced
/// nothing.
pub(super) enum CompactionStep<'a> {
    Replaced {
        first: MessageId,
        last: MessageId,
        /// The message in place of the others.
        message: &'a Arc<Message>,
        details: &'a serde_json::Value,
        /// `true` if the model was asked for a summary.
        has_summary: bool,
        why: &'a CompactionCause,
    },
    /// A detached request without a replacement: an abandoned compaction, or a request of the
    /// pattern.
    Abandoned {
        /// `true` if the model failed. Otherwise the request was interrupted.
        failed: bool,
    },
}

impl<'a> CompactionStep<'a> {
    /// Returns the step that begins with the entry at `at`, or `None` if no step can.
    pub(super) fn at(log: &'a [LogEntry], at: usize) -> Option<CompactionStep<'a>> {
        let (detached, compacted) = match log.get(at)? {
            LogEntry::Detached { message, .. } => (Some(message), log.get(at + 1)),
            entry => (None, Some(entry)),
        };
        // A detached reply is the summary only if the compaction names it, or has none because of
        // an error.
        match (compacted, detached) {
            (
                Some(LogEntry::Compacted { first, last, message, details, summary, error, why }),
                _,
            ) if detached.is_none_or(|detached| {
                *summary == Some(detached.id) || is_useless(detached) && error.is_some()
            }) =>
            {
                let has_summary = summary.is_some() || error.is_some();
                let (first, last) = (*first, *last);
                Some(CompactionStep::Replaced { first, last, message, details, has_summary, why })
            }
            (_, Some(detached)) if is_interrupted(detached) || compacted.is_none() => {
                Some(CompactionStep::Abandoned { failed: false })
            }
            (_, Some(detached)) if is_useless(detached) => {
                Some(CompactionStep::Abandoned { failed: true })
            }
            _ => None,
        }
    }

    /// Returns whether the step can be part of a compaction with this cause.
    pub(super) fn is_for(&self, cause: &CompactionCause) -> bool {
        match self {
            CompactionStep::Replaced { why, .. } => *why == cause,
            // For any other cause, messages are replaced even if the summary fails.
            CompactionStep::Abandoned { failed: true } => {
                matches!(cause, CompactionCause::Asked { .. })
            }
            CompactionStep::Abandoned { failed: false } => true,
        }
    }

    /// Returns the cause in the log, or `None` if nothing was replaced.
    pub(super) fn cause(&self) -> Option<&'a CompactionCause> {
        match self {
            CompactionStep::Replaced { why, .. } => Some(why),
            CompactionStep::Abandoned { .. } => None,
        }
    }
}

pub(super) fn is_interrupted(detached: &Message) -> bool {
    detached.as_assistant().is_some_and(|reply| reply.stop == StopReason::Interrupted)
}

/// Returns whether the reply is complete and cannot serve as a summary.
fn is_useless(detached: &Message) -> bool {
    !is_interrupted(detached)
        && (detached.as_assistant().is_some_and(|reply| reply.stop == StopReason::Error)
            || detached.text().trim().is_empty())
}
