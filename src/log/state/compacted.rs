//! Compaction in the state: it changes the context and keeps the history.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use super::session_state::{ActiveSummary, SessionState};
use crate::compaction::{Compaction, check_range};
use crate::event::AgentEvent;
use crate::hooks::conversation::Conversation;
use crate::log::entry::LogEntry;
use crate::message::{Message, MessageId, MessageKind};

impl SessionState {
    /// Returns the positions of these messages in the context, if they may be replaced.
    pub(crate) fn replaceable(&self, first: MessageId, last: MessageId) -> Option<Range<usize>> {
        let at = |id: MessageId| self.context.iter().position(|m| m.id == id);
        let range = at(first)?..at(last)? + 1;
        check_range(&self.context, &range).ok().map(|()| range)
    }

    pub(super) fn compact(&mut self, entry: &LogEntry, emit: &mut dyn FnMut(AgentEvent)) {
        let LogEntry::Compacted { first, last, message, details, summary, error, why } = entry
        else {
            return;
        };
        self.note(message);
        let Some(range) = self.replaceable(*first, *last) else {
            return;
        };
        let (messages, tokens_before) = (range.len(), self.size.messages);
        let old = self.context[range.clone()].iter().map(|m| m.tokens()).sum();
        self.size.replace(old, message.tokens());
        let covered = self.covered_by(&self.context[range.clone()]);
        let replaced = Arc::make_mut(&mut self.context).splice(range, [message.clone()]).collect();
        let compaction = Arc::new(Compaction {
            why: why.clone(),
            first: *first,
            last: *last,
            messages,
            message: message.clone(),
            summarised: summary.is_some(),
            error: error.clone(),
            tokens_before,
            tokens_after: self.size.messages,
        });
        self.summaries.push(ActiveSummary {
            compaction: compaction.clone(),
            details: details.clone(),
            run: self.info.run,
            replaced,
            covered,
        });
        emit(AgentEvent::Compaction(compaction));
    }

    /// Returns the last compaction.
    pub(crate) fn active_summary(&self) -> Option<&ActiveSummary> {
        self.summaries.last()
    }

    /// Returns the length of the history up to the last message that is one of these messages of
    /// the context, or that one of them summarises.
    fn covered_by(&self, messages: &[Arc<Message>]) -> usize {
        let ids: HashSet<MessageId> = messages.iter().map(|m| m.id).collect();
        let is_one = |m: &Arc<Message>| ids.contains(&m.id);
        let last = self.history.iter().rposition(is_one).map_or(0, |last| last + 1);
        let summaries = self.summaries.iter().filter(|s| is_one(&s.compaction.message));
        summaries.map(|summary| summary.covered).fold(last, usize::max)
    }

    /// Returns the history for hooks: without hidden calls and messages that the pattern removed,
    /// and with a summary in place of the messages that it replaces. Custom messages stay. Those
    /// among the replaced messages follow the summary.
    pub(crate) fn conversation(&self) -> Conversation {
        let (history, context) = (self.history.clone(), self.context.clone());
        let stand_ins = self.summaries.iter().map(|summary| summary.compaction.message.id);
        let merge = Merge {
            stand_ins: stand_ins.collect(),
            removed: self.removed.clone(),
            covered: self.summaries.iter().map(|s| s.covered).max().unwrap_or(0),
        };
        Conversation::new(move || merge.of(&history, &context))
    }
}

/// The facts for merging a history and a context into one conversation.
struct Merge {
    /// The messages that contain summaries.
    stand_ins: HashSet<MessageId>,
    /// The messages of the history that the pattern removed.
    removed: HashSet<MessageId>,
    /// Length of the history up to the last summarised message.
    covered: usize,
}

impl Merge {
    fn of(&self, history: &[Arc<Message>], context: &[Arc<Message>]) -> Vec<Arc<Message>> {
        let mut merged = Vec::new();
        let mut context = context.iter().peekable();
        for (at, message) in history.iter().enumerate() {
            let next_stand_in = || context.next_if(|m| self.stand_ins.contains(&m.id)).cloned();
            merged.extend(std::iter::from_fn(next_stand_in));
            if self.removed.contains(&message.id) || message.is_detached() {
                continue;
            }
            let in_context = context.next_if(|m| m.id == message.id).is_some();
            let is_custom = matches!(message.body, MessageKind::Custom(_));
            // A message for models that is not in the context is a hidden call or its result.
            let is_left = at >= self.covered && !message.is_for_model();
            if in_context || is_left || is_custom {
                merged.push(message.clone());
            }
        }
        merged
    }
}
