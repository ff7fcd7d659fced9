//! The transcript: a fold of events into blocks. A delta costs no more than its own length.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use loopwright_core::event::{Envelope, ExternalAction, Update};
use loopwright_core::message::{CallId, ContentPart, MessageId, MessageKind};
use loopwright_core::tool::ToolUpdate;
use loopwright_core::{AgentEvent, Message};

use super::effect::{Choice, Tone};
use super::entry::{Entry, Kind, Phase, Said, Thought, ToolEntry};
use crate::telling;

/// What was said and done, in blocks.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    entries: Vec<Entry>,
    next: u64,
    /// The messages that are in it whole.
    seen: HashSet<MessageId>,
    /// Where each call is.
    calls: HashMap<CallId, usize>,
    /// The calls that run, in the order in which they began.
    running: Vec<(CallId, Arc<str>)>,
    live: Option<Live>,
}

/// The reply that streams.
#[derive(Debug)]
struct Live {
    message: MessageId,
    /// Its first block here; behind it are its others, and notices.
    start: usize,
    /// Where its blocks are, by their numbers.
    blocks: Vec<(u32, usize)>,
}

impl Transcript {
    /// Another session, as it was found. What was noted from block `since` on was about it, and
    /// stays.
    pub(crate) fn begin(&mut self, messages: &[Arc<Message>], root: &str, since: usize) {
        let noted = self.entries.split_off(since.min(self.entries.len()));
        // Ids go on: a view may have kept what it made of the others.
        *self = Transcript { next: self.next, ..Transcript::default() };
        self.merge(messages);
        if messages.is_empty() {
            self.push(None, Kind::Welcome(root.to_owned()));
        }
        for entry in noted {
            if let Kind::Notice(tone, text) = entry.kind {
                self.notice(tone, text);
            }
        }
    }

    /// Names, and what is to be said of each.
    pub(crate) fn table(&mut self, rows: Vec<Choice>) {
        self.push(None, Kind::Table(rows));
    }

    /// Takes in those of a session that are not in it yet.
    pub(crate) fn merge(&mut self, messages: &[Arc<Message>]) {
        messages.iter().for_each(|message| self.message(message));
    }

    /// Takes in what was missed of a session. What streams comes again from its beginning, and so
    /// does the output of tools that run.
    pub(crate) fn join(&mut self, messages: &[Arc<Message>]) {
        self.merge(messages);
        if let Some(message) = self.live.as_ref().map(|live| live.message) {
            let (_, after) = self.take_live(message);
            self.put_back(after);
        }
        for entry in &mut self.entries {
            if let Kind::Tool(tool) = &mut entry.kind
                && tool.phase == Phase::Running
            {
                tool.tail.clear();
                entry.changed();
            }
        }
    }

    /// All blocks, oldest first.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Where the block with this id is.
    pub(crate) fn position(&self, id: u64) -> Option<usize> {
        self.entries.iter().rposition(|entry| entry.id == id)
    }

    pub(crate) fn entry_mut(&mut self, id: u64) -> Option<&mut Entry> {
        let at = self.position(id)?;
        self.entries.get_mut(at)
    }

    /// A line of the application. What has just been said is not said again.
    pub(crate) fn notice(&mut self, tone: Tone, text: impl Into<String>) {
        let text = text.into();
        if !matches!(self.entries.last(), Some(Entry { kind: Kind::Notice(_, last), .. }) if *last == text)
        {
            self.say(tone, text);
        }
    }

    /// The same, where it answers something: each time.
    pub(crate) fn say(&mut self, tone: Tone, text: impl Into<String>) {
        self.push(None, Kind::Notice(tone, text.into()));
    }

    /// The call that runs, the last one if there are several.
    pub(crate) fn running(&self) -> Option<&Arc<str>> {
        self.running.last().map(|(_, name)| name)
    }

    /// Takes in what an event tells.
    pub(crate) fn event(&mut self, envelope: &Envelope) {
        match &envelope.event {
            AgentEvent::MessageUpdate { message_id, update } if !self.seen.contains(message_id) => {
                self.update(*message_id, update, envelope.time);
            }
            AgentEvent::MessageEnd { message } => self.message(message),
            AgentEvent::ToolExecutionStart { call, name, arguments } => {
                let mut runs = false;
                self.tool(call, name, |tool| {
                    tool.arguments = Some(arguments.clone());
                    tool.began.get_or_insert(envelope.time);
                    (tool.phase, runs) = (Phase::Running, true);
                });
                if runs {
                    self.rests(call);
                    self.running.push((call.clone(), name.clone()));
                }
            }
            AgentEvent::ToolExecutionUpdate { call, update } => {
                self.known_tool(call, |tool| match update {
                    ToolUpdate::Output(text) => tool.put_out(text),
                    ToolUpdate::Progress(progress) => tool.progress = Some((**progress).clone()),
                })
            }
            AgentEvent::ToolExecutionEnd { call, name, result, .. } => {
                self.tool(call, name, |tool| tool.ended = Some(envelope.time));
                self.result(call, name, result);
            }
            AgentEvent::ExternalAction(action) => self.asked(action),
            AgentEvent::AgentEnd(_) => self.running.clear(),
            AgentEvent::ExternalActionEnd { call, .. } => {
                self.known_tool(call, |tool| tool.phase = Phase::Waiting)
            }
            AgentEvent::Compaction(done) => self.notice(Tone::Quiet, telling::compaction(done)),
            AgentEvent::Reset => self.notice(Tone::Quiet, "The conversation begins anew."),
            _ => {}
        }
    }

    /// This call waits for the user.
    pub(crate) fn asked(&mut self, action: &ExternalAction) {
        self.rests(&action.call);
        self.tool(&action.call, &action.name, |tool| {
            tool.arguments = Some(action.arguments.clone());
            tool.phase = Phase::Asking;
        });
    }

    // ---- whole messages --------------------------------------------------------------------------

    fn message(&mut self, message: &Arc<Message>) {
        if !self.seen.insert(message.id) {
            return;
        }
        match &message.body {
            MessageKind::User(_) => self.push(Some(message.id), Kind::User(message.clone())),
            MessageKind::Assistant(reply) => {
                let (streamed, after) = self.take_live(message.id);
                let mut streamed = streamed.into_iter().peekable();
                for (at, part) in reply.parts.iter().enumerate() {
                    // Blocks come in the order in which they began; one that never came to be is
                    // passed over.
                    let old = loop {
                        match streamed.next_if(|old| fits(old, part)) {
                            Some(old) => break Some(old),
                            None if streamed.next().is_none() => break None,
                            None => {}
                        }
                    };
                    self.part(message, at, part, old);
                }
                self.put_back(after);
            }
            MessageKind::ToolResult(result) => self.result(&result.call, &result.name, message),
            MessageKind::Custom(_) => {}
        }
    }

    fn part(&mut self, message: &Arc<Message>, at: usize, part: &ContentPart, old: Option<Entry>) {
        let said = || Said::Whole(message.clone(), at);
        let mut kind = match part {
            ContentPart::Text { text, .. } if !text.trim().is_empty() => Kind::Text(said()),
            ContentPart::Thinking { text, .. } if !text.trim().is_empty() => {
                let time = match &old {
                    Some(Entry { kind: Kind::Thinking(thought), .. }) => thought.time,
                    _ => None,
                };
                Kind::Thinking(Thought { said: said(), time })
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
            // The same block, so that a view goes on with what it made of it.
            Some(mut old) => {
                std::mem::swap(&mut old.kind, &mut kind);
                old.changed();
                self.entries.push(old);
            }
            None => self.push(from, kind),
        }
    }

    fn result(&mut self, call: &CallId, name: &Arc<str>, result: &Arc<Message>) {
        self.seen.insert(result.id);
        self.rests(call);
        self.tool(call, name, |tool| {
            tool.result = Some(result.clone());
            tool.phase = Phase::Done;
            tool.tail = String::new();
            tool.progress = None;
        });
    }

    // ---- what streams ----------------------------------------------------------------------------

    fn update(&mut self, message: MessageId, update: &Update, time: u64) {
        match update {
            Update::Withdrawn => {
                let (_, after) = self.take_live(message);
                self.put_back(after);
            }
            Update::Text { block, delta } => {
                self.block(
                    message,
                    *block,
                    || Kind::Text(Said::Streaming(String::new())),
                    |kind| {
                        if let Kind::Text(Said::Streaming(text)) = kind {
                            text.push_str(delta);
                        }
                    },
                );
            }
            Update::Thinking { block, delta } => {
                let new = || {
                    Kind::Thinking(Thought {
                        said: Said::Streaming(String::new()),
                        time: Some((time, time)),
                    })
                };
                self.block(message, *block, new, |kind| {
                    if let Kind::Thinking(Thought {
                        said: Said::Streaming(text),
                        time: Some((_, last)),
                    }) = kind
                    {
                        text.push_str(delta);
                        *last = time;
                    }
                });
            }
            Update::ToolCallStart { block, name } => {
                self.block(
                    message,
                    *block,
                    || Kind::Tool(Box::new(ToolEntry::new(name.clone()))),
                    |_| {},
                );
            }
            Update::ToolCall { block, delta } => {
                self.block(
                    message,
                    *block,
                    || Kind::Tool(Box::new(ToolEntry::new("".into()))),
                    |kind| {
                        if let Kind::Tool(tool) = kind {
                            tool.raw.push_str(delta);
                        }
                    },
                );
            }
            _ => {}
        }
    }

    /// A block of the reply that streams, made if it is not there.
    fn block(
        &mut self,
        message: MessageId,
        block: u32,
        new: impl FnOnce() -> Kind,
        change: impl FnOnce(&mut Kind),
    ) {
        if self.live.as_ref().is_none_or(|live| live.message != message) {
            self.live = Some(Live { message, start: self.entries.len(), blocks: Vec::new() });
        }
        let known = self
            .live
            .iter()
            .flat_map(|live| &live.blocks)
            .rev()
            .find(|(number, _)| *number == block);
        let at = match known {
            Some((_, at)) => *at,
            None => {
                let at = self.entries.len();
                self.push(Some(message), new());
                if let Some(live) = &mut self.live {
                    live.blocks.push((block, at));
                }
                at
            }
        };
        if let Some(entry) = self.entries.get_mut(at) {
            change(&mut entry.kind);
            entry.changed();
        }
    }

    /// Takes the blocks of this message out, if it streams, and what came behind them.
    fn take_live(&mut self, message: MessageId) -> (Vec<Entry>, Vec<Entry>) {
        match self.live.take() {
            Some(live) if live.message == message && live.start <= self.entries.len() => {
                let tail = self.entries.split_off(live.start);
                tail.into_iter().partition(|entry| entry.from == Some(message))
            }
            other => {
                self.live = other;
                Default::default()
            }
        }
    }

    /// What came behind the blocks that were taken out comes behind what there is now.
    fn put_back(&mut self, entries: Vec<Entry>) {
        for entry in entries {
            if let Kind::Tool(tool) = &entry.kind
                && let Some(call) = &tool.call
            {
                self.calls.insert(call.clone(), self.entries.len());
            }
            self.entries.push(entry);
        }
    }

    // ---- calls -----------------------------------------------------------------------------------

    /// The block of a call, made if it is not there.
    fn tool(&mut self, call: &CallId, name: &Arc<str>, change: impl FnOnce(&mut ToolEntry)) {
        if !self.calls.contains_key(call) {
            let mut tool = ToolEntry::new(name.clone());
            tool.call = Some(call.clone());
            tool.phase = Phase::Waiting;
            self.calls.insert(call.clone(), self.entries.len());
            self.push(None, Kind::Tool(Box::new(tool)));
        }
        self.known_tool(call, change);
    }

    /// Nothing is changed in a call that has its result: what comes was in it already.
    fn known_tool(&mut self, call: &CallId, change: impl FnOnce(&mut ToolEntry)) {
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

    /// This call does not run, or no longer.
    fn rests(&mut self, call: &CallId) {
        self.running.retain(|(other, _)| other != call);
    }

    fn push(&mut self, from: Option<MessageId>, kind: Kind) {
        self.next += 1;
        self.entries.push(Entry { id: self.next, revision: 0, from, open: None, kind });
    }
}

/// Whether this block is what has become that part.
fn fits(old: &Entry, part: &ContentPart) -> bool {
    match (&old.kind, part) {
        (Kind::Text(said), ContentPart::Text { text, .. }) => text.starts_with(said.text()),
        (Kind::Thinking(thought), ContentPart::Thinking { text, .. }) => {
            text.starts_with(thought.said.text())
        }
        (Kind::Tool(tool), ContentPart::ToolCall(call)) => tool.name == call.name,
        _ => false,
    }
}
