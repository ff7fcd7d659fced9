//! Compaction in the fold: it changes the context and keeps the history.

use std::ops::Range;
use std::sync::Arc;

use super::state::{ActiveSummary, Fold};
use crate::log::compaction::{Compaction, check_range};
use crate::log::conversation::Conversation;
use crate::log::entry::LogEntry;
use crate::log::event::AgentEvent;
use crate::message::{Message, MessageId, MessageKind};

impl Fold {
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
        Arc::make_mut(&mut self.context).splice(range, [message.clone()]);
        let before = self.active_summary.take();
        let (mut stand_ins, covered) = before.map(|s| (s.stand_ins, s.covered)).unwrap_or_default();
        let end = self.history.iter().rposition(|m| m.id == *last).map_or(0, |at| at + 1);
        stand_ins.push(message.id);
        stand_ins.retain(|id| self.context.iter().any(|m| m.id == *id));
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
        let (details, run, covered) = (details.clone(), self.run, covered.max(end));
        self.active_summary = Some(ActiveSummary {
            compaction: compaction.clone(),
            details,
            run,
            stand_ins,
            covered,
        });
        emit(AgentEvent::Compaction(compaction));
    }

    /// Returns the history as hooks get it: a summary stands in place of the messages that it
    /// replaces, and custom messages stay, those among the replaced ones after the summary.
    pub(crate) fn conversation(&self) -> Conversation {
        let history = self.history.clone();
        let Some(ActiveSummary { stand_ins, covered, .. }) = &self.active_summary else {
            return Conversation::new(move || history.to_vec());
        };
        let context = self.context.clone();
        let stand_ins = stand_ins.clone();
        let covered = *covered;
        Conversation::new(move || merge(&history, &context, &stand_ins, covered))
    }
}

fn merge(
    history: &[Arc<Message>],
    context: &[Arc<Message>],
    stand_ins: &[MessageId],
    covered: usize,
) -> Vec<Arc<Message>> {
    let mut merged = Vec::new();
    let mut context = context.iter().peekable();
    for (at, message) in history.iter().enumerate() {
        let next_stand_in = || context.next_if(|m| stand_ins.contains(&m.id)).cloned();
        merged.extend(std::iter::from_fn(next_stand_in));
        let in_context = context.next_if(|m| m.id == message.id).is_some();
        if in_context || at >= covered || matches!(message.body, MessageKind::Custom(_)) {
            merged.push(message.clone());
        }
    }
    merged
}
