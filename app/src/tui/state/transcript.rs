//! The transcript: events turned into blocks. A delta costs time in proportion to its own length.

mod speakers;
mod streaming;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use loopwright_core::event::{Decision, Envelope, ExternalAction, IncompleteReply};
use loopwright_core::message::{CallId, ContentPart, MessageId, MessageKind, StopReason};
use loopwright_core::model::Update;
use loopwright_core::tool::{TodoList, ToolUpdate};
use loopwright_core::{AgentEvent, Message};

use self::speakers::Speakers;
use self::streaming::Streaming;
use super::effect::{Choice, Tone};
use super::entries::Entries;
use super::entry::{Entry, Kind, Phase, ReplyText, Thought, ToolEntry};
use crate::wording;

/// The transcript of a session, in blocks.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    entries: Entries,
    /// The messages that are contained completely.
    seen: HashSet<MessageId>,
    /// The index of each call's block.
    calls: HashMap<CallId, usize>,
    /// The running calls, in the order in which they started.
    running: Vec<(CallId, Arc<str>)>,
    /// The model's todo list, with the call that wrote it and the number of the result.
    todos: Option<(MessageId, CallId, TodoList)>,
    streaming: Streaming,
    speakers: Speakers,
}

impl Transcript {
    /// Shows another session. Notices from block `since` on concern it and stay.
    pub(crate) fn begin(&mut self, messages: &[Arc<Message>], root: &str, since: usize) {
        let noted = self.entries.split_off(since);
        // Ids are not reused, since a view may have cached layouts.
        *self = Transcript { entries: self.entries.successor(), ..Transcript::default() };
        self.merge(messages);
        if messages.is_empty() {
            self.entries.push(None, Kind::Welcome(root.to_owned()));
        }
        for entry in noted {
            if let Kind::Notice(tone, text) = entry.kind {
                self.notice(tone, text);
            }
        }
    }

    /// Appends a table of names and descriptions.
    pub(crate) fn table(&mut self, rows: Vec<Choice>) {
        self.entries.push(None, Kind::Table(rows));
    }

    /// Adds the messages that are not contained yet.
    pub(crate) fn merge(&mut self, messages: &[Arc<Message>]) {
        messages.iter().for_each(|message| self.message(message));
    }

    /// Adds missed messages after the event stream was joined again. Streamed blocks and the output
    /// of running tools are sent from their beginning.
    pub(crate) fn join(&mut self, messages: &[Arc<Message>]) {
        self.merge(messages);
        if let Some(message) = self.streaming.message() {
            self.withdraw(message);
        }
        self.withdraw_all_detached();
        let is_left = |id| messages.iter().any(|message| message.id == id);
        self.todos.take_if(|(result, _, _)| !is_left(*result));
        for entry in self.entries.iter_mut() {
            if let Kind::Tool(tool) = &mut entry.kind
                && tool.phase == Phase::Running
            {
                tool.tail.clear();
                entry.changed();
            }
        }
    }

    /// Returns the blocks, oldest first.
    pub(crate) fn entries(&self) -> &[Entry] {
        self.entries.as_slice()
    }

    /// Returns the index of a block.
    pub(crate) fn position(&self, id: u64) -> Option<usize> {
        self.entries.position(id)
    }

    /// Returns a block by its id.
    pub(crate) fn entry_mut(&mut self, id: u64) -> Option<&mut Entry> {
        let at = self.position(id)?;
        self.entries.get_mut(at)
    }

    /// Appends a notice unless the last block is the same notice.
    pub(crate) fn notice(&mut self, tone: Tone, text: impl Into<String>) {
        let text = text.into();
        let last = self.entries().last().map(|entry| &entry.kind);
        if !matches!(last, Some(Kind::Notice(_, last)) if *last == text) {
            self.push_notice(tone, text);
        }
    }

    /// Appends a notice in any case.
    pub(crate) fn push_notice(&mut self, tone: Tone, text: impl Into<String>) {
        self.entries.push(None, Kind::Notice(tone, text.into()));
    }

    /// Returns the model's todo list, if it has items that are not completed.
    pub(crate) fn open_todos(&self) -> Option<&TodoList> {
        self.todos.as_ref().map(|(_, _, list)| list).filter(|list| list.is_open())
    }

    /// Returns the tool of the running call that started last.
    pub(crate) fn running(&self) -> Option<&Arc<str>> {
        self.running.last().map(|(_, name)| name)
    }

    /// Applies an event.
    pub(crate) fn event(&mut self, envelope: &Envelope) {
        match &envelope.event {
            AgentEvent::MessageUpdate { message_id, update } if !self.seen.contains(message_id) => {
                match update {
                    Update::Withdrawn => self.withdraw(*message_id),
                    _ => {
                        let entries = &mut self.entries;
                        self.streaming.update(entries, *message_id, update, envelope.time);
                    }
                }
            }
            AgentEvent::DetachedUpdate { message_id: id, .. } if self.seen.contains(id) => {}
            AgentEvent::DetachedUpdate { message_id, speaker, update } => match update {
                Update::Text { delta, .. } => {
                    self.speakers.say(&mut self.entries, *message_id, speaker, delta)
                }
                Update::Withdrawn => self.withdraw_detached(*message_id),
                _ => {}
            },
            AgentEvent::MessageEnd { message } => self.message(message),
            AgentEvent::ToolExecutionStart { call, name, arguments } => {
                let mut runs = false;
                self.update_tool(call, name, |tool| {
                    tool.arguments = Some(arguments.clone());
                    tool.began.get_or_insert(envelope.time);
                    tool.phase = Phase::Running;
                    runs = true;
                });
                if runs {
                    self.mark_not_running(call);
                    self.running.push((call.clone(), name.clone()));
                }
            }
            AgentEvent::ToolExecutionUpdate { call, update } => {
                let mut name = None;
                self.update_known_tool(call, |tool| {
                    name = Some(tool.name.clone());
                    // After a decision a sub-agent continues without another start.
                    tool.phase = Phase::Running;
                    tool.began.get_or_insert(envelope.time);
                    match update {
                        ToolUpdate::Output(text) => tool.append_output(text),
                        ToolUpdate::Progress(progress) => {
                            tool.progress = Some((**progress).clone());
                        }
                        _ => {}
                    }
                });
                if let Some(name) = name
                    && self.running.iter().all(|(other, _)| other != call)
                {
                    self.running.push((call.clone(), name));
                }
            }
            AgentEvent::ToolExecutionEnd { call, name, result, .. } => {
                self.update_tool(call, name, |tool| tool.ended = Some(envelope.time));
                self.result(call, name, result);
            }
            AgentEvent::ExternalAction(action) => self.call_pending(action),
            AgentEvent::AgentEnd(_) => {
                self.running.clear();
                self.withdraw_all_detached();
            }
            AgentEvent::ExternalActionEnd { call, decision, .. } => {
                if matches!(**decision, Decision::ApproveWith(_)) {
                    self.push_notice(Tone::Quiet, "The call was approved with other arguments.");
                }
                match self.outer_call(call) {
                    Some(outer) => self.update_known_tool(&outer, |tool| {
                        tool.awaits.retain(|(awaited, _)| awaited != call);
                    }),
                    None => self.update_known_tool(call, |tool| tool.phase = Phase::Waiting),
                }
            }
            AgentEvent::Compaction(done) => self.notice(Tone::Quiet, wording::compaction(done)),
            AgentEvent::Reset => {
                self.todos = None;
                self.notice(Tone::Quiet, "The conversation was reset.");
            }
            _ => {}
        }
    }

    /// Marks a call as pending. An action of a sub-agent belongs to the call that it works for.
    pub(crate) fn call_pending(&mut self, action: &ExternalAction) {
        if let Some(outer) = self.outer_call(&action.call) {
            return self.update_known_tool(&outer, |tool| {
                if tool.awaits.iter().all(|(known, _)| *known != action.call) {
                    tool.awaits.push((action.call.clone(), wording::of_agent(action)));
                }
            });
        }
        self.mark_not_running(&action.call);
        self.update_tool(&action.call, &action.name, |tool| {
            tool.arguments = Some(action.arguments.clone());
            tool.phase = Phase::Asking;
        });
    }

    fn message(&mut self, message: &Arc<Message>) {
        if !self.seen.insert(message.id) {
            return;
        }
        match &message.body {
            MessageKind::User(_) => {
                self.entries.push(Some(message.id), Kind::User(message.clone()))
            }
            MessageKind::Assistant(reply) => {
                let (streamed, after) = self.streaming.take(&mut self.entries, message.id);
                let mut streamed = streamed.into_iter().peekable();
                for (at, part) in reply.parts.iter().enumerate() {
                    // Blocks are in the order in which they started; a block without a part in the
                    // message is skipped.
                    let old = loop {
                        match streamed.next_if(|old| matches_part(old, part)) {
                            Some(old) => break Some(old),
                            None if streamed.next().is_none() => break None,
                            None => {}
                        }
                    };
                    self.part(message, at, part, old);
                }
                self.reinsert(after);
                match reply.stop {
                    StopReason::Aborted | StopReason::Interrupted => {
                        self.push_notice(Tone::Quiet, wording::INTERRUPTED)
                    }
                    _ => {
                        if let Some(incomplete) = IncompleteReply::of(reply) {
                            let text = wording::sentence(&incomplete.to_string());
                            self.push_notice(Tone::Error, text);
                        }
                    }
                }
            }
            MessageKind::ToolResult(result) => self.result(&result.call, &result.name, message),
            MessageKind::Detached(shown) => {
                let after = self.speakers.end(&mut self.entries, message, shown);
                self.reinsert(after);
            }
            _ => {}
        }
    }

    fn part(&mut self, message: &Arc<Message>, at: usize, part: &ContentPart, old: Option<Entry>) {
        let complete = || ReplyText::Complete(message.clone(), at);
        let mut kind = match part {
            ContentPart::Text { text, .. } if !text.trim().is_empty() => Kind::Text(complete()),
            ContentPart::Thinking { text, .. } if !text.trim().is_empty() => {
                let time = match &old {
                    Some(Entry { kind: Kind::Thinking(thought), .. }) => thought.time,
                    _ => None,
                };
                Kind::Thinking(Thought { text: complete(), time })
            }
            ContentPart::ToolCall(call) => {
                let mut tool = ToolEntry::new(call.name.clone());
                tool.written = Some(call.arguments.clone());
                tool.call = Some(call.id.clone());
                tool.phase = Phase::Waiting;
                self.calls.insert(call.id.clone(), self.entries.len());
                Kind::Tool(Box::new(tool))
            }
            _ => return,
        };
        let from = Some(message.id);
        match old {
            // Reusing the block preserves cached layouts.
            Some(mut old) => {
                std::mem::swap(&mut old.kind, &mut kind);
                old.changed();
                self.entries.restore(old);
            }
            None => self.entries.push(from, kind),
        }
    }

    /// Removes the streamed blocks of a message; notices in between stay.
    fn withdraw(&mut self, message: MessageId) {
        let (_, after) = self.streaming.take(&mut self.entries, message);
        self.reinsert(after);
    }

    fn withdraw_detached(&mut self, message: MessageId) {
        let after = self.speakers.take(&mut self.entries, message);
        self.reinsert(after);
    }

    fn withdraw_all_detached(&mut self) {
        while let Some(message) = self.speakers.message() {
            self.withdraw_detached(message);
        }
    }

    fn result(&mut self, call: &CallId, name: &Arc<str>, result: &Arc<Message>) {
        self.seen.insert(result.id);
        self.mark_not_running(call);
        self.update_tool(call, name, |tool| {
            tool.result = Some(result.clone());
            tool.phase = Phase::Done;
            tool.tail = String::new();
            tool.progress = None;
            tool.awaits = Vec::new();
        });
        if let Some(list) = TodoList::written(result) {
            self.todos_written(result.id, call, list);
        }
    }

    /// Shows a new todo list instead of the earlier one. Of two, the one whose result came last
    /// counts.
    fn todos_written(&mut self, result: MessageId, call: &CallId, list: TodoList) {
        if self.todos.as_ref().is_some_and(|(newest, _, _)| *newest > result) {
            return self.hide(call);
        }
        if let Some((_, earlier, _)) = self.todos.replace((result, call.clone(), list))
            && earlier != *call
        {
            self.hide(&earlier);
        }
    }

    /// Hides the block of a call.
    fn hide(&mut self, call: &CallId) {
        let entry = self.calls.get(call).and_then(|at| self.entries.get_mut(*at));
        if let Some(Entry { kind: Kind::Tool(tool), .. }) = entry {
            tool.is_hidden = true;
        }
    }

    /// Returns the call whose sub-agent needs this decision, or `None` if the call is not a
    /// sub-agent's.
    fn outer_call(&self, call: &CallId) -> Option<CallId> {
        if self.calls.contains_key(call) {
            return None;
        }
        let outer = call.match_indices('~').map(|(at, _)| CallId::from(&call[..at]));
        outer.into_iter().find(|outer| self.calls.contains_key(outer))
    }

    /// Appends blocks that followed removed ones.
    fn reinsert(&mut self, entries: Vec<Entry>) {
        for entry in entries {
            if let Kind::Tool(tool) = &entry.kind
                && let Some(call) = &tool.call
            {
                self.calls.insert(call.clone(), self.entries.len());
            }
            self.entries.restore(entry);
        }
    }

    /// Changes the block of a call, creating it if it does not exist.
    fn update_tool(&mut self, call: &CallId, name: &Arc<str>, change: impl FnOnce(&mut ToolEntry)) {
        if !self.calls.contains_key(call) {
            let mut tool = ToolEntry::new(name.clone());
            tool.call = Some(call.clone());
            tool.phase = Phase::Waiting;
            self.calls.insert(call.clone(), self.entries.len());
            self.entries.push(None, Kind::Tool(Box::new(tool)));
        }
        self.update_known_tool(call, change);
    }

    /// Changes the block of a known call that has no result yet.
    fn update_known_tool(&mut self, call: &CallId, change: impl FnOnce(&mut ToolEntry)) {
        let Some(entry) = self.calls.get(call).and_then(|at| self.entries.get_mut(*at)) else {
            return;
        };
        if let Kind::Tool(tool) = &mut entry.kind
            && tool.phase != Phase::Done
        {
            change(tool);
            entry.changed();
        }
    }

    /// Removes a call from the running ones.
    fn mark_not_running(&mut self, call: &CallId) {
        self.running.retain(|(other, _)| other != call);
    }
}

/// Returns whether a streamed block has become this part.
fn matches_part(old: &Entry, part: &ContentPart) -> bool {
    match (&old.kind, part) {
        (Kind::Text(streamed), ContentPart::Text { text, .. }) => {
            text.starts_with(streamed.as_str())
        }
        (Kind::Thinking(thought), ContentPart::Thinking { text, .. }) => {
            text.starts_with(thought.text.as_str())
        }
        (Kind::Tool(tool), ContentPart::ToolCall(call)) => tool.name == call.name,
        _ => false,
    }
}
