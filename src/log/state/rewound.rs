//! Rewinds in the state: they change the conversation and keep the history.

use std::sync::Arc;

use super::session_state::{ActiveSummary, SessionState};
use crate::event::outcome::IncompleteReply;
use crate::message::{Message, MessageId, MessageKind};

impl SessionState {
    /// Returns the length of the history up to and including `to`. The error says why the
    /// conversation cannot be rewound to it.
    pub(crate) fn rewind_point(&self, to: MessageId) -> Result<usize, &'static str> {
        if to == MessageId::default() {
            return Ok(0);
        }
        let at = self.history.iter().rposition(|message| message.id == to);
        let Some(at) = at.filter(|_| !self.removed.contains(&to)) else {
            return Err("it is no message of the conversation");
        };
        match self.history.get(at + 1) {
            Some(next) if next.as_tool_result().is_some() => {
                Err("the results of its calls, or of the same calls, follow it")
            }
            _ => Ok(at + 1),
        }
    }

    /// Returns the messages that a rewind to this point removes.
    pub(crate) fn removed_after(&self, point: usize) -> impl Iterator<Item = MessageId> {
        let later = self.history.iter().skip(point).filter(|message| !message.is_detached());
        let ids = later.map(|message| message.id);
        ids.filter(|id| !self.of_user.contains(id) && !self.removed.contains(id))
    }

    pub(super) fn rewind(&mut self, to: MessageId) {
        let Some(point) = self.rewind_point(to).ok().filter(|_| self.batch.is_none()) else {
            return;
        };
        let removed: Vec<MessageId> = self.removed_after(point).collect();
        if removed.is_empty() {
            return;
        }
        self.undo_summaries(point);
        self.removed.extend(removed);
        let is_left = |message: &Arc<Message>| !self.removed.contains(&message.id);
        Arc::make_mut(&mut self.context).retain(is_left);
        self.size.recount(&self.context);
        self.terminated = None;
        let last = self.messages().rev().find_map(|message| match &message.body {
            MessageKind::User(_) => Some(None),
            MessageKind::Assistant(reply) => Some(IncompleteReply::of(reply)),
            _ => None,
        });
        self.incomplete = last.flatten();
    }

    /// Restores the messages that summaries replaced, if the summary covers messages after this
    /// point. The last compaction is undone first, since it may have replaced an earlier summary.
    fn undo_summaries(&mut self, point: usize) {
        let is_undone = |summary: &mut ActiveSummary| summary.covered > point;
        let undone: Vec<_> = self.summaries.extract_if(.., is_undone).collect();
        let context = Arc::make_mut(&mut self.context);
        for summary in undone.into_iter().rev() {
            let stand_in = summary.compaction.message.id;
            if let Some(at) = context.iter().position(|message| message.id == stand_in) {
                context.splice(at..=at, summary.replaced);
            }
        }
    }
}
