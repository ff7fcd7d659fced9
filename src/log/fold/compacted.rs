//! What compaction does to the fold: the context changes, the history does not.

use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;

use super::Fold;
use crate::log::compaction::{Compaction, check_range};
use crate::log::entry::LogEntry;
use crate::log::event::AgentEvent;
use crate::message::{Message, MessageId, MessageKind, RunId};

/// What was compacted last.
pub(crate) struct Standing {
    pub(crate) told: Arc<Compaction>,
    pub(crate) details: Arc<Value>,
    /// The run in which it was.
    pub(crate) run: Option<RunId>,
    /// The messages that stand for others in the context.
    stand_ins: Vec<MessageId>,
    /// How many messages of the history are behind the last one that was replaced.
    covered: usize,
}

impl Fold {
    /// Where these messages are in the context, if they may be replaced.
    pub(crate) fn replaceable(&self, first: MessageId, last: MessageId) -> Option<Range<usize>> {
        let at = |id: MessageId| self.context.iter().position(|m| m.id == id);
        let range = at(first)?..at(last)? + 1;
        check_range(&self.context, &range).ok().map(|()| range)
    }

    pub(super) fn compact(&mut self, item: &LogEntry, tell: &mut dyn FnMut(AgentEvent)) {
        let LogEntry::Compacted { first, last, message, details, summary, error, why } = item
        else {
            return;
        };
        self.note(message);
        let Some(range) = self.replaceable(*first, *last) else {
            return;
        };
        let (messages, tokens_before) = (range.len(), self.load.messages);
        let old = self.context[range.clone()].iter().map(|m| m.tokens()).sum();
        self.load.replace(old, message.tokens());
        Arc::make_mut(&mut self.context).splice(range, [message.clone()]);
        let before = self.standing.take();
        let (mut stand_ins, covered) = before.map(|s| (s.stand_ins, s.covered)).unwrap_or_default();
        let end = self.history.iter().rposition(|m| m.id == *last).map_or(0, |at| at + 1);
        stand_ins.push(message.id);
        stand_ins.retain(|id| self.context.iter().any(|m| m.id == *id));
        let told = Arc::new(Compaction {
            why: why.clone(),
            first: *first,
            last: *last,
            messages,
            message: message.clone(),
            summarised: summary.is_some(),
            error: error.clone(),
            tokens_before,
            tokens_after: self.load.messages,
        });
        let (details, run, covered) = (details.clone(), self.run, covered.max(end));
        self.standing = Some(Standing { told: told.clone(), details, run, stand_ins, covered });
        tell(AgentEvent::Compaction(told));
    }

    /// The history as hooks get it: what was compacted is the message that stands for it, and
    /// custom messages are where they were, those among the replaced ones behind it.
    pub(crate) fn history_for_hooks(&self) -> Vec<Arc<Message>> {
        let Some(Standing { stand_ins, covered, .. }) = &self.standing else {
            return self.history.to_vec();
        };
        let mut seen = Vec::new();
        let mut context = self.context.iter().peekable();
        for (at, message) in self.history.iter().enumerate() {
            seen.extend(std::iter::from_fn(|| {
                context.next_if(|m| stand_ins.contains(&m.id)).cloned()
            }));
            let shown = context.next_if(|m| m.id == message.id).is_some();
            if shown || at >= *covered || matches!(message.body, MessageKind::Custom(_)) {
                seen.push(message.clone());
            }
        }
        seen
    }
}
